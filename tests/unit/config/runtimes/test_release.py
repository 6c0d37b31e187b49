"""The release of a runtime, from its program or from the installed package."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.config.runtimes.containerd import RUNTIME
from nri.config.runtimes.release import Release, daemon_config, find_release
from tests.support.needs import need_root

DPKG = """Package: containerd-extra
Status: install ok installed
Version: 9.9.9

Package: containerd.io
Status: install ok installed
Version: 1:1.7.27-1

"""
#: A runtime that is not installed on any machine: neither its program nor its package exists.
UNKNOWN = RUNTIME._replace(program="nri-no-program", packages=("nri-no-package",), config_flags=("--config",))
#: A daemon: it renames its process to its argument, prints a line, and runs until its input ends.
DAEMON = "import sys; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); sys.stdin.read()"


def test_a_packages_version_is_read_below_a_root(put) -> None:
    assert find_release(put({"/var/lib/dpkg/status": DPKG}), RUNTIME) == ("1.7.27-1", "/var/lib/dpkg/status")
    apk = {"/lib/apk/db/installed": "P:containerd\nV:2.1.4-r1\nT:x\n\n"}
    assert find_release(put({"/var/lib/dpkg/status": "", **apk}), RUNTIME).version == "2.1.4-r1"


@pytest.mark.parametrize(
    "status",
    [
        "",
        "Package: containerd\nVersion: unknown\n",
        "Package: containerd\nStatus: deinstall ok config-files\nVersion: 1.7.1\n",
    ],
)
def test_without_a_package_the_release_is_unknown(put, status: str) -> None:
    assert find_release(put({"/var/lib/dpkg/status": status}), RUNTIME) == Release("", "")


def test_a_given_program_is_run(tmp_path: Path) -> None:
    program = tmp_path / "containerd"
    program.write_text("#!/bin/sh\necho containerd github.com/k3s-io/containerd v2.1.5-k3s1 abc\n")
    program.chmod(0o755)
    assert find_release("/", RUNTIME, [str(program)]) == ("2.1.5-k3s1", str(program))


@contextmanager
def daemon(*arguments: str, user: int | None = None) -> Iterator[tuple[str, int]]:
    """A daemon, which may belong to another user; yields its name and its pid."""
    name = f"nri-{os.getpid()}"
    command = [os.path.realpath(sys.executable), "-I", "-S", "-c", DAEMON, name, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n", "the daemon does not run"
        yield name, process.pid
        process.communicate()


def test_the_release_comes_from_a_running_daemon() -> None:
    with daemon() as (name, pid):
        release = find_release("/", UNKNOWN._replace(program=name))
    assert release == (platform.python_version(), f"/proc/{pid}/exe")


def test_the_program_of_another_users_process_is_never_run() -> None:
    need_root()
    with daemon(user=65534) as (name, _):
        assert find_release("/", UNKNOWN._replace(program=name)) == Release("", "")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("--config", "/tmp/own.toml"), "/tmp/own.toml"),
        (("--config=/tmp/own.toml", "--log-level", "debug"), "/tmp/own.toml"),
        (("--config", "own.toml"), ""),
        (("--config",), ""),
        ((), ""),
    ],
)
def test_the_file_of_a_running_daemon_comes_from_its_command_line(arguments: tuple[str, ...], path: str) -> None:
    with daemon(*arguments) as (name, _):
        assert daemon_config("/", UNKNOWN._replace(program=name)) == path
        assert not daemon_config("/tmp", UNKNOWN._replace(program=name))


def test_a_program_that_reports_no_release_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    programs = [str(tmp_path / "none"), str(silent), sys.executable]
    assert find_release("/", UNKNOWN, programs) == (platform.python_version(), sys.executable)
    assert find_release("/", UNKNOWN, programs[:2]) == Release("", "")
    program = tmp_path / UNKNOWN.program
    program.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_release("/", UNKNOWN, programs[:2]) == (platform.python_version(), str(program))


def test_without_a_list_of_processes_only_the_path_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(os, "listdir", refuse)
    assert find_release("/", UNKNOWN) == Release("", "")


def test_a_program_that_hangs_is_skipped(tmp_path: Path) -> None:
    program = tmp_path / "slow"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    assert find_release("/", UNKNOWN, [str(program)], timeout_s=0.1) == Release("", "")
