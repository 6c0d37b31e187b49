"""Plugins launched by a runtime: running, ended, disconnected and not yet launched."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nri.cli.doctor import Finding
from nri.cli.doctor import plugin_processes as launched
from nri.cli.doctor.examination import examine
from nri.cli.settings import Settings
from nri.config.runtimes.reading import RuntimeNri
from tests.unit.cli.conftest import lines

FOLDER = "/opt/nri/plugins"
SOCKET = "var/run/nri/nri.sock"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two plugins in the folder, whose runtime has started after they were put there."""
    for file in ("proc/1/environ", f"{FOLDER[1:]}/10-a", f"{FOLDER[1:]}/20-b", SOCKET):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("PATH=/bin\0")
        (tmp_path / file).chmod(0o755)
    age(tmp_path, 60)
    return tmp_path


def age(root: Path, seconds: float) -> None:
    """Make the socket this many seconds younger than the plugins, or older if negative."""
    since = (root / FOLDER[1:] / "20-b").lstat().st_ctime + seconds
    os.utime(root / SOCKET, (since, since))


def runs(root: Path, pid: int, name: str, *descriptors: str) -> None:
    """Add a process that looks like one launched by a runtime."""
    folder = root / f"proc/{pid}"
    (folder / "fd").mkdir(parents=True)
    index, _, remaining = name.partition("-")
    (folder / "environ").write_text(f"NRI_PLUGIN_NAME={remaining}\0NRI_PLUGIN_IDX={index}\0NRI_PLUGIN_SOCKET=3\0")
    for number, target in enumerate(descriptors):
        (folder / f"fd/{number}").symlink_to(target)


def look(root: Path, name: str = "containerd", *, listens: bool = True, text: str = "", **settings: bool) -> list[str]:
    findings = [Finding("problem", "its interpreter is missing", text)] if text else []
    nri = RuntimeNri(name, enabled=True, **settings)  # type: ignore[arg-type]
    programs = {label: f"{FOLDER}/{label}" for label in ("10-a", "20-b")}
    launched.check(str(root), nri, programs, findings, listens=listens)
    return lines([one for one in findings if one.where != text])


def test_connected_plugins_are_not_reported(root: Path) -> None:
    runs(root, 100, "10-a", "/dev/null", "socket:[77]")
    runs(root, 101, "20-b", "socket:[78]")
    runs(root, 102, "20-b")  # a child of it
    assert look(root) == []


def test_ended_and_disconnected_plugins_are_problems(root: Path) -> None:
    runs(root, 100, "10-a", "/dev/null")
    assert look(root) == [
        f"problem: {FOLDER}/10-a: plugin 10-a (process 100) lost its connection and cannot connect again",
        f"problem: {FOLDER}/20-b: plugin 20-b was launched and has ended",
    ]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        (
            "containerd",
            "find out why (journalctl | grep 20-b), then restart containerd, which launches each plugin only once",
        ),
        (
            "nri-engine",
            (
                "nri why --plugins shows its state and last output; "
                "the engine restarts it unless its policy says restart = never"
            ),
        ),
    ],
)
def test_the_next_step_depends_on_the_runtime(root: Path, name: str, step: str) -> None:
    findings: list[Finding] = []
    launched.check(str(root), RuntimeNri(name), {"20-b": f"{FOLDER}/20-b"}, findings, listens=True)
    assert [one.next for one in findings] == [step]


def test_a_plugin_newer_than_the_runtime_is_not_launched_yet(root: Path) -> None:
    runs(root, 100, "10-a", "socket:[77]")
    age(root, -60)
    assert look(root) == [
        f"note: {FOLDER}/20-b: plugin 20-b is not launched yet: its file is newer than the start of containerd"
    ]


def test_a_plugin_that_cannot_start_is_reported_once(root: Path) -> None:
    runs(root, 100, "10-a", "socket:[77]")
    assert look(root, text=f"{FOLDER}/20-b") == []


def test_a_runtime_that_does_not_listen_has_launched_no_plugins(root: Path) -> None:
    assert look(root, listens=False) == []


def test_without_a_socket_the_state_of_the_runtime_is_unknown(root: Path) -> None:
    runs(root, 100, "10-a", "socket:[77]")
    assert look(root, listens=False, connections=False) == [
        f"warning: {FOLDER}/20-b: plugin 20-b does not run, although containerd may be running"
    ]


def test_missing_permission_to_see_processes_is_a_note(root: Path) -> None:
    (root / "proc/100").mkdir()
    (root / "proc/100/cmdline").write_text("")
    assert len(look(root)) == 2, "a thread of the kernel has no environment"
    (root / "proc/100/cmdline").write_text("/bin/sh\0")
    assert look(root) == [f"note: {FOLDER}: cannot see whether these plugins run"]


def test_a_copy_without_processes_has_no_findings(root: Path, tmp_path: Path) -> None:
    (root / FOLDER[1:] / "20-b").unlink()
    (root / SOCKET).unlink()
    assert len(look(root)) == 2
    assert look(tmp_path / "copy") == []


def test_the_doctor_checks_processes_only_if_the_runtime_listens(root: Path) -> None:
    (root / "etc/containerd").mkdir(parents=True)
    (root / "etc/containerd/config.toml").write_text("version = 3\n")
    (root / SOCKET).unlink()
    findings = lines(examine(Settings(), str(root)))
    assert not [line for line in findings if "is gone" in line], findings
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / SOCKET))
        listener.listen()
        age(root, 60)
        findings = lines(examine(Settings(), str(root)))
    assert len([line for line in findings if "has ended" in line]) == 2, findings
