"""Calls of an endpoint, also split into sending and receiving."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from typing import Any

import pytest

import nri
from nri.errors import ConnectionClosed, DeadlineExceeded, OversizedMessage
from nri.mux import Trunk
from nri.ttrpc import Endpoint, Interceptor, Monitor, Request
from nri.ttrpc.frames import MAX_DATA
from tests.support.endpoints import PATIENCE_S, Pair, end, fill, serve, soon


def test_a_call_returns_the_handlers_reply(pairs) -> None:
    assert pairs().call(b"hello") == b"hello"


def test_a_late_reply_fails_only_its_call(pairs) -> None:
    release = threading.Event()
    pair = pairs(lambda r: release.wait(PATIENCE_S) and b"late" if r.payload == b"slow" else b"quick")
    with pytest.raises(DeadlineExceeded):
        pair.call(b"slow", soon(0.05))
    release.set()
    assert pair.call(b"next") == b"quick"


def test_a_call_after_its_deadline_is_not_sent(pairs) -> None:
    calls = []
    pair = pairs(lambda r: calls.append(r) or b"")
    with pytest.raises(DeadlineExceeded):
        pair.call(b"", time.monotonic() - 1)
    pair.call()
    assert len(calls) == 1


def test_an_oversized_request_is_refused_and_leaves_the_connection_usable(pairs) -> None:
    pair = pairs()
    with pytest.raises(OversizedMessage):
        pair.call(bytes(MAX_DATA))
    assert pair.call(b"x") == b"x"


@pytest.mark.pure
def test_a_repeated_call_runs_code_of_few_files(pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.ttrpc.monitor.CLOSE_S", 60.0)
    root = os.path.dirname(nri.__file__) + "/"
    passed: list[str] = []
    calls: list[list[str]] = []

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            passed.append(frame.f_code.co_filename.removeprefix(root))

    monitor = Monitor()
    try:
        pair = pairs()
        monitor.add(pair.near)
        for _ in range(3):
            pair.near.collect(pair.near.begin("s", "m", b"x", soon()))
        for _ in range(5):
            passed = []
            sys.setprofile(profile)
            try:
                pair.near.collect(pair.near.begin("s", "m", b"x", soon()))
            finally:
                sys.setprofile(None)
            calls.append(passed)
    finally:
        monitor.stop()
    fewest = min(calls, key=len)  # a read that has to wait is tried again, and lets signals in
    by_name = {"ttrpc": ("endpoint.py", "connection.py", "envelope.py"), "mux": ("trunk.py", "frames.py")}
    usual = {f"{room}/{name}" for room, names in by_name.items() for name in names} | {"stream.py", "wire.py"}
    assert set(fewest) - {"signals.py"} == usual
    assert len(fewest) <= 17, fewest


def test_one_thread_can_send_and_another_can_receive_the_reply(pairs) -> None:
    pair = pairs()
    sent = pair.near.begin("s", "m", b"hello", soon())
    answers: list[bytes] = []
    other = threading.Thread(target=lambda: answers.append(pair.near.collect(sent)))
    other.start()
    other.join(PATIENCE_S)
    assert answers == [b"hello"]
    assert pair.call(b"next") == b"next"


def test_a_reply_in_time_counts_even_if_it_is_collected_late(pairs) -> None:
    pair = pairs()
    deadline = soon(0.3)
    sent = pair.near.begin("s", "m", b"in time", deadline)
    assert select.select([pair.near], [], [], PATIENCE_S)[0], "it is not answered"
    time.sleep(max(0.0, deadline - time.monotonic()) + 0.01)
    assert pair.near.collect(sent) == b"in time"


def test_an_abandoned_reply_is_dropped_and_leaves_the_connection_usable(pairs) -> None:
    pair = pairs()
    pair.near.abandon(pair.near.begin("s", "m", b"forgotten", soon()))
    assert [pair.call(b"%d" % n) for n in range(3)] == [b"0", b"1", b"2"]
    sent = pair.near.begin("s", "m", b"x", soon())
    assert sent is not None, "it is in step again"
    assert pair.near.collect(sent) == b"x"


def test_a_late_reply_to_begin_fails_at_its_own_deadline(pairs) -> None:
    go = threading.Event()
    pair = pairs(lambda request: request.payload if request.payload != b"late" or go.wait(PATIENCE_S) else b"")
    sent = pair.near.begin("s", "m", b"late", soon(0.05))
    with pytest.raises(DeadlineExceeded):
        pair.near.collect(sent)
    go.set()
    assert pair.call(b"next") == b"next"


def test_begin_refuses_while_another_thread_waits_for_a_reply(pairs) -> None:
    go = threading.Event()
    entered = threading.Event()

    def slow(request: Request) -> bytes:
        entered.set()
        assert go.wait(PATIENCE_S)
        return request.payload

    pair = pairs(slow)
    caller = threading.Thread(target=pair.call)
    caller.start()
    assert entered.wait(PATIENCE_S)
    assert pair.near.begin("s", "m", b"x", soon()) is None
    go.set()
    caller.join(PATIENCE_S)


@pytest.mark.parametrize("payload", [b"", b"x" * 100_000], ids=["late", "large"])
def test_begin_refuses_a_request_that_cannot_be_sent_at_once(pairs, payload: bytes) -> None:
    pair = pairs()
    assert pair.near.begin("s", "m", payload, soon() if payload else time.monotonic() - 1) is None
    assert pair.call(b"next") == b"next"


def test_begin_refuses_on_a_connection_with_interceptors() -> None:
    pair = Pair(near_interceptors=(Interceptor(),))
    try:
        assert pair.near.begin("s", "m", b"", soon()) is None
    finally:
        pair.close()


def test_a_begun_call_fails_like_a_call_when_the_connection_ends(pairs) -> None:
    go = threading.Event()
    pair = pairs(lambda request: request.payload if go.wait(PATIENCE_S) else b"")
    sent = pair.near.begin("s", "m", b"", soon())
    pair.far_sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionClosed):
        pair.near.collect(sent)
    go.set()
    assert pair.near.begin("s", "m", b"", soon()) is None, "the connection is closed"


def test_begin_refuses_while_the_peer_does_not_read(deaf) -> None:
    """Otherwise the request would already be late when it is sent."""
    local, remote = deaf
    fill(local)
    assert local.begin("s", "m", b"x", soon()) is None
    calls: list[int] = []
    server = serve(remote, calls)
    assert local.call("s", "m", b"x", deadline=soon()) == b"x"
    assert calls == [1]
    end(local, server)


class Interrupted(Trunk):
    """A write to it is interrupted, once."""

    __slots__ = ("done",)

    def send(self, conn_id: int, message: list[bytes], deadline: float | None) -> None:
        if not hasattr(self, "done"):
            self.done = True
            raise KeyboardInterrupt
        super().send(conn_id, message, deadline)


@pytest.mark.pure
@pytest.mark.parametrize("half", [False, True], ids=["call", "begin"])
def test_an_interrupted_write_leaves_the_connection_usable(half: bool) -> None:
    local, remote = socket.socketpair()
    endpoint = Endpoint(Interrupted(local), client_id=1, server_id=2)
    server = serve(remote, [])
    with pytest.raises(KeyboardInterrupt):
        endpoint.begin("s", "m", b"", soon()) if half else endpoint.call("s", "m", b"", deadline=soon())
    assert endpoint.call("s", "m", b"next", deadline=soon()) == b"next"
    assert endpoint.poll(), "nobody reads any more"
    assert not endpoint.link.reader.locked()
    end(endpoint, server)
