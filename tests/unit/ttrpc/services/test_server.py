"""A server for unix sockets: its socket, threads, end and log."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.errors import ConnectionClosed, RpcError
from nri.ttrpc import Client, Code, Method, Server, Service


def pods(*methods: tuple[str, Method]) -> Service:
    return Service("test.Pods", dict(methods))


def rename(pod: m.PodSandbox) -> m.PodSandbox:
    return m.PodSandbox(name=pod.name.upper())


RENAME = pods(("Rename", Method(rename, m.PodSandbox, m.PodSandbox)))


def test_a_method_receives_and_returns_messages(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        assert client.call("test.Pods", "Rename", m.PodSandbox(name="web"), m.PodSandbox).name == "WEB"


def test_requests_of_one_connection_are_served_concurrently(path) -> None:
    meet = threading.Barrier(3, timeout=10)
    service = pods(("Meet", Method(lambda _: (meet.wait() and b"") or b"")))
    with Server(path, [service]), Client.connect(path) as client:
        threads = [threading.Thread(target=client.call, args=("test.Pods", "Meet")) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert not any(t.is_alive() for t in threads), "requests wait for each other"


def test_requests_above_the_backlog_are_refused(path) -> None:
    release = threading.Event()
    service = pods(("Wait", Method(lambda _: (release.wait(10) and b"") or b"")))
    with Server(path, [service], workers=1, backlog=1), Client.connect(path) as client:
        refused: list[int] = []

        def call() -> None:
            try:
                client.call("test.Pods", "Wait")
            except RpcError as error:
                refused.append(error.code)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 10
        while len(refused) < 2 and time.monotonic() < until:
            time.sleep(0.005)
        release.set()
        for thread in threads:
            thread.join(10)
        assert refused == [Code.RESOURCE_EXHAUSTED] * 2


def test_metadata_and_timeout_reach_a_method_that_requests_them(path) -> None:
    calls = []
    service = pods(("Look", Method(lambda _, request: calls.append(request) or b"", wants_request=True)))
    with Server(path, [service]), Client.connect(path) as client:
        client.call("test.Pods", "Look", metadata=[("TraceParent", "00-1")], timeout_s=3)
    assert calls[0].metadata == (("traceparent", "00-1"),)
    assert 0 < calls[0].timeout_ns <= 3e9


def test_the_socket_is_private_and_removed_with_the_server(path) -> None:
    server = Server(path, [RENAME])
    with server:
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not Path(path).exists()


def test_a_dead_socket_is_replaced_and_a_file_is_not(path) -> None:
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(path)
    with Server(path, [RENAME]), Client.connect(path) as client:
        client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox)
    Path(path).write_text("precious")
    with pytest.raises(OSError, match="in use"):
        Server(path, [RENAME]).start()
    assert Path(path).read_text() == "precious"


def test_the_socket_of_another_server_is_not_replaced(path) -> None:
    with Server(path, [RENAME]), Client.connect(path) as client:
        with pytest.raises(OSError, match="another process listens there"):
            Server(path, [RENAME]).start()
        assert client.call("test.Pods", "Rename", m.PodSandbox(name="a"), m.PodSandbox).name == "A"
        with Client.connect(path) as second:
            assert second.call("test.Pods", "Rename", m.PodSandbox(name="b"), m.PodSandbox).name == "B"


def test_an_exception_of_a_method_is_logged_once_and_a_status_is_not(path, caplog: pytest.LogCaptureFixture) -> None:
    def fails(payload: bytes) -> bytes:
        raise KeyError("lost") if payload else RpcError(Code.NOT_FOUND, "meant so")

    with Server(path, [pods(("Fails", Method(fails)))]), Client.connect(path) as client:
        with pytest.raises(RpcError) as caught:
            client.call("test.Pods", "Fails", b"x")
        assert (caught.value.code, caught.value.message) == (Code.UNKNOWN, "KeyError: 'lost'")
        with pytest.raises(RpcError, match="meant so"):
            client.call("test.Pods", "Fails")
    (record,) = (record for record in caplog.records if record.name == "nri.ttrpc")
    assert record.getMessage() == "test.Pods/Fails failed"
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


def test_a_server_that_stops_closes_its_connections(path) -> None:
    server = Server(path, [RENAME])
    server.start()
    with Client.connect(path) as client:
        client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox)
        server.stop()
        with pytest.raises(ConnectionClosed):
            client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox)


def test_a_connection_accepted_just_before_a_stop_is_closed(path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is accepted, and its thread starts only after the server has closed all known connections."""
    server = Server(path, [RENAME])
    accepted, stopped = threading.Event(), threading.Event()
    start = threading.Thread.start

    def late(thread: threading.Thread) -> None:
        if thread.name.startswith("ttrpc-connection"):
            accepted.set()
            assert stopped.wait(20)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", late)
    server.start()
    with Client.connect(path) as client:
        assert accepted.wait(20)
        server.stop(timeout_s=0.2)  # which waits for the thread that accepts in vain
        stopped.set()
        with pytest.raises(ConnectionClosed):
            client.call("test.Pods", "Rename", m.PodSandbox(), m.PodSandbox, timeout_s=20)
