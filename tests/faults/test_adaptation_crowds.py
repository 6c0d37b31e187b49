"""Crowds: connections that never register, plugins that join under load, crash loops."""

from __future__ import annotations

import os
import resource
import socket
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.launch.process import Process
from nri.adaptation.registration import listener
from nri.backoff import Backoff
from nri.stub.session.session import Session
from nri.testing import FakeRuntime, make_container, make_pod
from nri.unix import credentials
from tests.support.adapting import PATIENCE_S, PATIENT, Leaks, RawPlugin
from tests.support.programs import write_program
from tests.support.waiting import wait_for


class Recorder(nri.Plugin):
    """Notes the containers that it knows, from either side."""

    def __init__(self) -> None:
        self.synchronized: set[str] = set()
        self.created: list[str] = []
        self.started: list[str] = []

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        self.synchronized = {container.id for container in containers}

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.created.append(container.id)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self.started.append(container.id)


def test_200_unregistered_connections_delay_no_plugin_and_leave_nothing(tmp_path: Path) -> None:
    leaks = Leaks()
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path, registration_timeout_s=60.0) as runtime:
        silent = []
        for _ in range(200):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(path)
            silent.append(sock)
        threads = threading.active_count()
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        plugin = Recorder()
        session = Session(plugin, sock, index="10")
        thread = threading.Thread(target=session.run)
        thread.start()
        assert runtime.adaptation.ready(["10-recorder"], 10.0), "200 silent connections delay a plugin"
        assert threading.active_count() <= threads + 2, "a silent connection must not cost a thread"
        wait_for(lambda: sum(row.stage == "connected" for row in runtime.plugins) <= 64, "the oldest were closed")
        runtime.create_container()
        assert len(plugin.created) == 1
        for resource in silent:
            resource.close()
        session.stop()
        thread.join()
    leaks.check()


def test_a_connection_without_a_timely_registration_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "nri.sock")
    with FakeRuntime(socket_path=path, registration_timeout_s=0.1), socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.settimeout(PATIENCE_S)
        assert sock.recv(1) == b"", "the runtime must hang up"


def test_20_plugins_join_while_8_threads_create_containers_and_miss_none() -> None:
    leaks = Leaks()
    steady = Recorder()
    with FakeRuntime() as runtime:
        runtime.timeout(20)  # the machine is shared: nobody is to be late here
        runtime.add(steady, idx="00", name="steady")
        stop = threading.Event()
        created: list[str] = []
        failures: list[BaseException] = []

        def create() -> None:
            try:
                while not stop.is_set():
                    container = make_container()
                    runtime.create_container(make_pod(), container)
                    created.append(container.id)
            except BaseException as error:
                failures.append(error)

        callers = [threading.Thread(target=create) for _ in range(8)]
        for caller in callers:
            caller.start()
        plugins = [Recorder() for _ in range(20)]
        for number, plugin in enumerate(plugins):
            runtime.add(plugin, idx=f"{number + 10}", name=f"joins{number}", wait=False)
        labels = [f"{number + 10}-joins{number}" for number in range(20)]
        assert runtime.adaptation.ready(labels, 60), runtime.plugins
        time.sleep(0.2)
        stop.set()
        for caller in callers:
            caller.join(60)
            assert not caller.is_alive(), "an event hangs"
        assert not failures, failures[0]
        assert sorted(steady.created) == sorted(created), "the plugin that was there all the time lost an event"
        for plugin in plugins:
            names = [*plugin.synchronized, *plugin.created]
            assert len(names) == len(set(names)), "a container was in Synchronize and in an event"
            assert set(names) == set(created), "a container was neither in Synchronize nor in an event"
    leaks.check()


def test_plugins_that_join_and_leave_under_load_leave_nothing() -> None:
    with FakeRuntime() as runtime:
        runtime.timeout(20)
        steady = Recorder()
        runtime.add(steady, idx="00", name="steady")
        leaks = Leaks()
        stop = threading.Event()
        count = [0]

        def send() -> None:
            while not stop.is_set():
                runtime.start_container()
                count[0] += 1

        sender = threading.Thread(target=send)
        sender.start()
        memory = [0, 0]
        for turn in range(60):
            runtime.add(Recorder(), idx="20", name="guest")
            runtime.disconnect("20-guest")
            memory[turn >= 30] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stop.set()
        sender.join()
        assert len(steady.started) == count[0]
        leaks.check()
        assert memory[1] - memory[0] < 20_000, "60 guests must not cost memory (KiB)"
        wait_for(lambda: len(parts_of(runtime.adaptation).chain.peers) == 1, "plugins that are gone leave the chain")


def test_a_crash_loop_is_reported_with_its_last_output_and_delays_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.02))
    leaks = Leaks()
    write_program(tmp_path / "plugins", "10-crash", "#!/bin/sh\necho 'no such device' >&2\nexit 3\n")
    with FakeRuntime(plugin_path=str(tmp_path / "plugins")) as runtime:
        wait_for(lambda: runtime.health("10-crash").state == "crash loop", "the crash loop was noticed")
        row = runtime.health("10-crash")
        assert row.last_words == "no such device"
        assert "exit code 3" in row.last_error
        healthy = Recorder()
        runtime.add(healthy, idx="20")
        runtime.create_container()
        assert len(healthy.created) == 1
    leaks.check()


def test_a_killed_launched_plugin_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr("nri.adaptation.launch.supervisor.Backoff", lambda: Backoff(first_s=0.01, cap_s=0.02))
    text = f"#!{sys.executable}\nimport nri\nclass Sleepy(nri.Plugin):\n"
    text += "    def start_container(self, pod, container): pass\nSleepy.main()\n"
    write_program(tmp_path / "plugins", "10-sleepy", text)
    with FakeRuntime(plugin_path=str(tmp_path / "plugins"), **PATIENT) as runtime:
        assert runtime.adaptation.ready(["10-sleepy"], PATIENCE_S), runtime.plugins
        first = runtime.health("10-sleepy").pid
        os.kill(first, 9)
        wait_for(lambda: runtime.health("10-sleepy").pid != first, "it was started again")
        assert runtime.adaptation.ready(["10-sleepy"], PATIENCE_S), runtime.plugins
        assert runtime.health("10-sleepy").restarts == 1
        runtime.start_container()


def test_a_launched_plugin_that_never_registers_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.adaptation.launch.supervisor.GRACE_S", 0.05)
    created: list[Process] = []

    class Noted(Process):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            created.append(self)

    monkeypatch.setattr("nri.adaptation.launch.start.Process", Noted)
    write_program(tmp_path / "plugins", "10-mute", "#!/bin/sh\nexec sleep 1000\n")
    policy = '["10-mute"]\nrestart = "never"\n'
    with FakeRuntime(plugin_path=str(tmp_path / "plugins"), registration_timeout_s=0.3, policy=policy):
        wait_for(lambda: created[0].status == "killed by SIGKILL", "the process was killed and reaped")
        with pytest.raises(ProcessLookupError):
            os.kill(created[0].pid, 0)


def test_the_socket_has_mode_0600_and_other_users_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "nri.sock"
    with FakeRuntime(socket_path=str(path)) as runtime:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        monkeypatch.setattr(listener, "credentials", lambda sock: credentials(sock)._replace(uid=12345))
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(path))
            sock.settimeout(PATIENCE_S)
            assert sock.recv(1) == b"", "a user who is not allowed must be refused"
        assert runtime.plugins == []
    assert not path.exists(), "the socket is removed at the end"


def test_the_number_of_remembered_disconnected_plugins_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.adaptation.registration.registry.MAX_REMEMBERED", 3)
    with FakeRuntime() as runtime:
        runtime.add(Recorder(), name="stays")
        for number in range(6):
            raw = RawPlugin(runtime, f"n{number}").join()
            raw.close()
            wait_for(lambda: runtime.health(f"10-n{number}").state == "gone", "it is gone")  # noqa: B023
        assert [row.plugin for row in runtime.plugins] == ["10-n4", "10-n5", "10-stays"]


def test_a_stopped_runtime_keeps_the_socket_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "nri.sock"
    with FakeRuntime(socket_path=str(path)) as first:
        with FakeRuntime(socket_path=str(path), compat="reference") as second:  # it takes a live socket, as Go does
            first.close()
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(path))
            assert second.plugins is not None
    assert not path.exists()
