"""Stopping the processes of containers, with a dry engine. tests/engine has real processes."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from nri.engine.config import CgroupConfig
from nri.engine.lifecycle import processes
from nri.engine.lifecycle.cgroups import Cgroups
from nri.engine.lifecycle.processes import Processes
from nri.engine.state import ContainerState
from nri.engine.support.errors import CommandFailed, CommandTimeout, EngineError
from nri.host.cgroups import SystemdUnits
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for


@pytest.fixture
def processes_(dry: Any) -> Processes:
    return Processes(dry.engine.inventory, dry.engine.machinery)


def test_an_eviction_stops_the_container_and_logs_the_reason(
    dry: Any, processes_: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    processes_.evict(entry.id, "too loud")
    assert entry.ended.wait(20)
    assert "too loud" in entry.record.message
    processes_.evict("absent", "no such thing")
    text = "container absent could not be evicted: no container 'absent'"
    wait_for(lambda: ("WARNING", text) in [(record.levelname, record.getMessage()) for record in caplog.records])


def test_an_eviction_without_a_thread_is_logged(
    dry: Any, processes_: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    with no_threads():
        processes_.evict(entry.id, "too loud")
    assert f"container {entry.id} could not be evicted: can't start new thread" in caplog.text
    processes_.evict(entry.id, "too loud")
    assert entry.ended.wait(20)


def evicting() -> list[str]:
    return [entry.name for entry in threading.enumerate() if entry.name == "nri-engine-evict"]


def test_repeated_evictions_stop_a_container_once(
    dry: Any, processes_: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    with entry.record_lock:
        for _ in range(1000):
            processes_.evict(entry.id, "a\nb\x1b[31m" + "c" * 5000)
        assert len(evicting()) == 1
    assert entry.ended.wait(20)
    assert entry.record.message.isprintable() and len(entry.record.message) < 2000
    (line,) = [text for text in caplog.messages if "plugins evict" in text]
    assert line.isprintable() and len(line) < 2000
    wait_for(lambda: not evicting(), "its thread's end")


def test_evictions_have_a_limit_of_threads_which_is_logged_once(
    dry: Any, processes_: Processes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.cri.evictions.MAX_EVICTIONS", 3)
    pod = dry.pod()
    entries = [dry.engine.inventory.container(dry.run(pod, f"c{number}")) for number in range(6)]
    with ExitStack() as stack:
        for entry in entries:
            stack.enter_context(entry.record_lock)
        for entry in entries:
            processes_.evict(entry.id, "all of them")
        assert len(evicting()) == 3
    assert [text for text in caplog.messages if "in progress" in text] == [
        f"container {entries[3].id} and others are not evicted: 3 evictions are in progress"
    ]
    wait_for(lambda: not evicting(), "their end")
    for entry in entries[3:]:
        processes_.evict(entry.id, "once more")
    assert all(entry.ended.wait(20) for entry in entries)


@pytest.mark.parametrize("timeout_s", [0.0, 1.0, float(2**63 - 1)])
def test_a_running_container_is_stopped_with_any_timeout(dry: Any, processes_: Processes, timeout_s: float) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    processes_.stop(entry, timeout_s)
    assert entry.record.state is ContainerState.EXITED
    processes_.stop(entry, timeout_s)  # stopping it again is not an error


def test_a_stop_whose_client_has_disconnected_ends_without_killing(
    dry: Any, processes_: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    signals, client_gone = list[str](), threading.Event()
    with monkeypatch.context() as context:
        context.setattr(processes, "send", lambda *words: bool(signals.append(words[-1])) or True)
        threading.Timer(0.05, client_gone.set).start()
        with pytest.raises(EngineError, match=f"stop of container {entry.id}: the client has disconnected"):
            processes_.stop(entry, float(2**63 - 1), client_gone)
    assert signals == ["15"]
    processes_.stop(entry, 0.0, client_gone)
    assert entry.record.state is ContainerState.EXITED


def test_a_container_that_ends_while_its_oci_runtime_fails_is_stopped(
    dry: Any, processes_: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    runtime = dry.engine.machinery.runtime("runc")
    kill = runtime.kill

    def end_and_fail(container_id: str, _: int | str) -> bool:
        monkeypatch.setattr(runtime, "kill", kill)
        runtime.delete(container_id)
        raise CommandFailed(f"runc kill {container_id}", 1, "EOF")

    monkeypatch.setattr(runtime, "kill", end_and_fail)
    processes_.stop(entry, 1.0)
    assert entry.record.state is ContainerState.EXITED


def test_a_container_that_does_not_end_is_an_error_with_its_id(
    dry: Any, processes_: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = dry.engine.inventory.container(dry.run(dry.pod()))
    with monkeypatch.context() as context:
        context.setattr(processes, "KILL_S", 0.0)
        context.setattr(processes, "FROZEN_S", 0.0)
        context.setattr(processes, "send", lambda *_: True)
        context.setattr(dry.engine.machinery.runtime("runc"), "kill", lambda *_: True)
        with pytest.raises(CommandTimeout, match=f"stop of container {entry.id}"):
            processes_.stop(entry)
    processes_.stop(entry)


@pytest.mark.parametrize(("where", "folder"), [("pod", "pods/p1/conmon-c1"), ("/all", "all/conmon-c1")])
def test_conmons_cgroup_is_below_the_pods_or_a_common_one(
    dry: Any, processes_: Processes, tmp_path: Path, where: str, folder: str
) -> None:
    dry.engine.machinery.config = replace(dry.config, cgroups=CgroupConfig(conmon=where))
    processes_.cgroups = Cgroups(v2=True, root=tmp_path / "cgroups")
    processes_.place("/pods/p1", "c1")(42)
    file = tmp_path / "cgroups" / folder / "cgroup.procs"
    assert file.read_text() == "42"
    file.unlink()  # a real one's files go with it
    processes_.unplace("/pods/p1", "c1")
    assert not file.parent.exists()


class RecordedUnits(SystemdUnits):
    """A systemd that records the scopes that it is asked to start."""

    def __init__(self) -> None:
        self.scopes: list[tuple[str, str, int]] = []

    def start_scope(self, name: str, parent: str, pid: int) -> None:
        self.scopes.append((name, parent, pid))


@pytest.mark.parametrize(("setting", "parent"), [("pod", "kubepods-podu1.slice"), ("system.slice", "system.slice")])
def test_with_systemd_conmon_gets_a_scope_in_the_pods_or_the_configured_slice(
    dry: Any, processes_: Processes, setting: str, parent: str
) -> None:
    dry.engine.machinery.config = replace(dry.config, cgroups=CgroupConfig(driver="systemd", conmon=setting))
    processes_.units = RecordedUnits()
    processes_.place("kubepods-podu1.slice", "c1")(42)
    assert processes_.units.scopes == [("conmon-c1.scope", parent, 42)]
    processes_.cgroups = None  # type: ignore[assignment]  # systemd removes its cgroups
    processes_.clear("c1", "runc", "p.slice", "p.slice:nri:c1")


@pytest.mark.parametrize(("cgroup", "ended"), [("/pods/p1/c1", True), ("/pods/all", False), ("/pods/all/c1x", False)])
def test_processes_left_in_the_containers_own_cgroup_are_killed(
    processes_: Processes, tmp_path: Path, cgroup: str, ended: bool
) -> None:
    processes_.cgroups = Cgroups(v2=True, root=tmp_path)
    file = tmp_path / cgroup[1:] / "cgroup.procs"
    file.parent.mkdir(parents=True)
    with Popen(["sleep", "1000"]) as popen:
        file.write_text(str(popen.pid))
        try:
            processes_.clear("c1", "runc", "/pods/p1", cgroup)
            assert (popen.poll() is not None) is ended
        finally:
            popen.kill()


def test_an_empty_cgroup_that_a_plugin_named_is_kept(processes_: Processes, tmp_path: Path) -> None:
    processes_.cgroups = Cgroups(v2=True, root=tmp_path)
    (tmp_path / "kubepods/new-pod").mkdir(parents=True)
    (tmp_path / "pods/p1/c1").mkdir(parents=True)
    processes_.clear("c1", "runc", "/pods/p1", "/kubepods")
    processes_.clear("c1", "runc", "/pods/p1", "/pods/p1/c1")
    assert (tmp_path / "kubepods/new-pod").is_dir() and not (tmp_path / "pods/p1/c1").exists()
