"""A slow peer is not dead: stopped for 300 ms at any moment, or on a busy machine.

Every request here has seconds, and the runtime holds a late answer against a plugin at once (`compat="reference"`), so
whatever ends a connection in these tests is a limit below the request timeout.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.api import messages as m
from nri.stub.session.session import Session
from nri.testing import FakeRuntime, make_container, make_pod
from nri.ttrpc import Interceptor, Monitor, Request
from tests.peers.drivers import GoRuntime
from tests.support.adapting import RawPlugin, register, request
from tests.support.plugin_program import plugin_file, plugin_program
from tests.support.waiting import wait_for

STOPPED_S = 0.3
REQUEST_S = 20.0

UPDATES = """
    def synchronize(self, pods, containers):
        pass

    def post_start_container(self, pod, container):
        self.runtime.update(nri.Update(container.id).set_cpu_shares(512))
"""


class Names(nri.Plugin):
    name = "names"

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("POD_NAME", pod.name)


def stop_for_a_moment(pid: int) -> None:
    """SIGSTOP, and SIGCONT a moment later."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)

    def go_on() -> None:
        time.sleep(STOPPED_S)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    threading.Thread(target=go_on).start()


class Moments(Interceptor):
    """Does something once at one moment: before a call of a method, or when a request of the plugin has come."""

    def __init__(self, direction: str, method: str, act: Any) -> None:
        self.direction, self.method, self.act = direction, method, act
        self.done = 0

    def call(self, request: Request, proceed: Any) -> Any:
        return self._at("call", request, proceed)

    def serve(self, request: Request, proceed: Any) -> Any:
        return self._at("serve", request, proceed)

    def _at(self, direction: str, request: Request, proceed: Any) -> Any:
        if (direction, request.method) == (self.direction, self.method) and not self.done:
            self.done += 1
            self.act()
        return proceed(request)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-") as name:
        yield Path(name)


# -- the plugin is slow -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("direction", "method"),
    [
        ("serve", "RegisterPlugin"),
        ("call", "Configure"),
        ("call", "Synchronize"),
        ("call", "CreateContainer"),
        ("call", "PostStartContainer"),
        ("serve", "UpdateContainers"),
    ],
)
def test_a_plugin_that_is_stopped_briefly_stays_connected(folder: Path, direction: str, method: str) -> None:
    programs: list[Any] = []

    def act() -> None:
        wait_for(lambda: programs, "the program's process id")
        stop_for_a_moment(programs[0].process.pid)

    moment = Moments(direction, method, act)
    path = folder / "nri.sock"
    with FakeRuntime(
        socket_path=str(path), compat="reference", request_timeout_s=REQUEST_S, interceptors=[moment]
    ) as runtime:
        arguments = (plugin_file(folder, UPDATES), "--idx", "10", "--socket-path", path, "--no-reconnect")
        with plugin_program(folder, *arguments) as program:
            programs.append(program)
            assert runtime.adaptation.ready(["10-pod-name"], REQUEST_S), program.text()
            pod, container = make_pod(name="web"), make_container()
            assert runtime.create_container(pod, container).env["POD_NAME"] == "web"
            runtime.start_container(pod, container)
            runtime.post_start_container(pod, container)
            wait_for(lambda: runtime.updates, "the update that it asks for")
            assert moment.done, "that moment did not come"
            assert runtime.health("10-pod-name").state == "active"
            assert program.process.poll() is None, program.text()


def test_a_plugin_that_pauses_reading_receives_all_replies() -> None:
    """Its requests fill its buffer with replies, so that the runtime has to wait."""
    with FakeRuntime(compat="reference", request_timeout_s=REQUEST_S) as runtime:
        raw = RawPlugin(runtime).join()
        requests = 3000
        refused = "x" * 200

        def ask() -> None:
            for n in range(requests):  # each answered with a status that quotes the method
                raw.sock.sendall(request(refused, m.Empty(), 3 + 2 * n))

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(STOPPED_S)
        assert runtime.health("10-raw").state == "active"
        calls = b""
        while calls.count(f"method {refused}".encode()) < requests:
            data = raw.sock.recv(1 << 16)
            assert data, "the runtime closed the connection"
            calls += data
        asking.join(REQUEST_S)
        assert runtime.health("10-raw").state == "active"
        raw.close()


# -- the runtime is slow ----------------------------------------------------------------------------------------------


def test_a_sender_interrupted_in_the_middle_of_a_write_keeps_the_connection() -> None:
    """On a busy machine the thread that sends Configure was interrupted before the reply to RegisterPlugin."""

    def hold_the_sender() -> None:
        (peer,) = parts_of(runtime.adaptation).registry.unsettled()
        sender = peer.endpoint.link.sender
        sender.acquire()
        threading.Timer(STOPPED_S, sender.release).start()

    moment = Moments("serve", "RegisterPlugin", hold_the_sender)
    with FakeRuntime(compat="reference", request_timeout_s=REQUEST_S, interceptors=[moment]) as runtime:
        runtime.add(Names())
        assert moment.done
        assert runtime.create_container(make_pod(name="web")).env["POD_NAME"] == "web"


@pytest.mark.pure
def test_a_registration_sent_in_time_is_accepted_when_the_runtime_reads_late(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Monitor, "poll", staticmethod(lambda endpoint: None))
    path = folder / "nri.sock"
    sock, remote = socket.socketpair()
    with FakeRuntime(socket_path=str(path), registration_timeout_s=STOPPED_S, request_timeout_s=REQUEST_S) as runtime:
        with sock:
            sock.settimeout(REQUEST_S)
            sock.sendall(register("late", "10"))  # before its time has begun
            runtime.connect(remote)
            calls = b""
            while b"Configure" not in calls:
                data = sock.recv(65536)
                assert data, "the connection was closed"
                calls += data
        assert runtime.plugins[0].plugin == "10-late"


@pytest.mark.parametrize("moment", ["connect", "register", "event", "update"])
def test_a_runtime_that_is_stopped_briefly_keeps_its_plugin(folder: Path, moment: str) -> None:
    ready = threading.Event()
    results: list[Any] = []

    class Waits(Names):
        def __init__(self) -> None:
            self.runtimes: list[GoRuntime] = []

        def configure(self) -> None:
            if moment == "register":
                stop_for_a_moment(self.runtimes[0].pid)

        def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
            if moment == "event":
                stop_for_a_moment(self.runtimes[0].pid)
            return super().create_container(pod, container)

        def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
            if moment == "update":
                stop_for_a_moment(self.runtimes[0].pid)
            results.append(self.runtime.update(nri.Update(container.id).set_cpu_shares(512)))

    with GoRuntime() as runtime:
        runtime.start(folder / "nri.sock")
        plugin = Waits()
        plugin.runtimes.append(runtime)
        sock = socket.socket(socket.AF_UNIX)
        if moment == "connect":
            stop_for_a_moment(runtime.pid)
        sock.connect(str(folder / "nri.sock"))
        session = Session(plugin, sock, index="10", on_ready=ready.set)
        outcome: list[object] = []

        def run() -> None:
            try:
                outcome.append(session.run())
            except BaseException as error:
                outcome.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert ready.wait(REQUEST_S), outcome
        runtime.wait_plugins(1)
        pod = {"id": "p0", "name": "web", "uid": "u0", "namespace": "default"}
        container = {"id": "c0", "pod_sandbox_id": "p0", "name": "c"}
        reply = runtime.event("CreateContainer", pod, container)
        assert reply["adjust"]["env"] == [{"key": "POD_NAME", "value": "web"}]
        runtime.event("PostStartContainer", pod, container)
        assert results[0].result(REQUEST_S) == []
        assert not outcome, "the connection has ended"
        session.stop()
        thread.join(REQUEST_S)
