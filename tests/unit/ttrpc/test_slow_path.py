"""Rare cases of a call: another thread reads, the peer is slow or disconnects, a wait is interrupted."""

from __future__ import annotations

import gc
import socket
import threading
import time
from contextlib import suppress

import pytest

from nri.errors import ConnectionClosed, DeadlineExceeded, NriError
from nri.mux import Trunk
from nri.ttrpc import Endpoint, Request
from nri.ttrpc.endpoint import LATER
from nri.ttrpc.interceptors import Interceptor
from nri.ttrpc.slow_path import abandon
from nri.ttrpc.waiters import Waiter
from tests.support.endpoints import PATIENCE_S, end, fill, serve, soon


def test_after_a_deadline_during_a_write_the_peer_still_reads_complete_messages() -> None:
    local, remote = socket.socketpair()
    endpoint = Endpoint(Trunk(local), client_id=1, server_id=2)
    big = bytes(3_000_000)
    with pytest.raises(DeadlineExceeded):
        endpoint.call("s", "m", big, deadline=soon(0.1))
    with pytest.raises(DeadlineExceeded):
        endpoint.call("s", "m", b"second", deadline=soon(0.1))
    calls = []
    server = Endpoint(
        Trunk(remote), client_id=2, server_id=1, on_request=lambda r: calls.append(len(r.payload)) or b"ok"
    )
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    assert endpoint.call("s", "m", b"third", deadline=soon()) == b"ok"
    assert calls == [len(big), len(b"third")], "the message that was cut short must end before another one begins"
    endpoint.close()
    thread.join(PATIENCE_S)
    server.release(soon(1))
    endpoint.release(soon(1))


def test_after_a_disconnect_every_pending_and_later_call_fails(pairs) -> None:
    entered, go = threading.Event(), threading.Event()
    pair = pairs(lambda r: entered.set() or (go.wait(PATIENCE_S) and b""))
    failures: list[BaseException] = []

    def call() -> None:
        try:
            pair.call()
        except ConnectionClosed as error:
            failures.append(error)

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    entered.wait(PATIENCE_S)
    pair.far_sock.shutdown(socket.SHUT_RDWR)
    for caller in callers:
        caller.join(PATIENCE_S)
    go.set()
    assert len(failures) == 3, failures
    with pytest.raises(ConnectionClosed):
        pair.call()
    assert len(pair.closed) == 1, "the end is reported once"


def test_a_reply_written_before_the_disconnect_arrives() -> None:
    local, remote = socket.socketpair()
    endpoint = Endpoint(Trunk(local), client_id=1, server_id=2)
    answered: list[int] = []

    def answer(_: object) -> bytes:
        answered.append(1)
        return b"last words"

    server = Endpoint(Trunk(remote), client_id=2, server_id=1, on_request=answer)

    def serve_once() -> None:
        server.serve(until=lambda: bool(answered))
        server.close()

    thread = threading.Thread(target=serve_once, daemon=True)
    thread.start()
    assert endpoint.call("s", "m", b"", deadline=soon()) == b"last words"
    thread.join(PATIENCE_S)
    for resource in (endpoint, server):
        resource.close()
        resource.release(soon(1))


def test_concurrent_callers_get_their_own_replies(pairs) -> None:
    pair = pairs()
    wrong: list[object] = []

    def work(n: int) -> None:
        for i in range(200):
            payload = f"{n}-{i}".encode()
            if pair.call(payload) != payload:
                wrong.append(payload)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(t.is_alive() for t in threads), "a caller waits for ever"
    assert wrong == []


def test_callers_with_short_deadlines_do_not_stop_reading_for_others(pairs) -> None:
    def answer(request):
        if request.payload == b"slow":
            time.sleep(0.02)
        return request.payload

    pair = pairs(answer)
    lost: list[bytes] = []

    def patient() -> None:
        for _ in range(20):
            if pair.call(b"patient") != b"patient":
                lost.append(b"patient")  # noqa: PERF401

    def hasty() -> None:
        for _ in range(20):
            try:
                pair.call(b"slow", soon(0.005))
            except DeadlineExceeded:
                pass

    threads = [threading.Thread(target=f) for f in (patient, hasty, patient, hasty)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(t.is_alive() for t in threads), "a caller waits for ever"
    assert lost == []


def test_a_partly_sent_request_is_completed_by_the_thread_that_waits_for_the_reply() -> None:
    local, remote = socket.socketpair()
    local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    endpoint = Endpoint(Trunk(local), client_id=1, server_id=2)
    payload = bytes(16_000)
    sent = endpoint.begin("s", "m", payload, soon())
    assert sent is not None, "a part of it is on its way"
    calls: list[int] = []
    server = serve(remote, calls)
    assert endpoint.collect(sent) == payload
    assert endpoint.call("s", "m", b"next", deadline=soon()) == b"next"
    assert calls == [len(payload), 4]
    end(endpoint, server)


@pytest.mark.parametrize("peer", ["goes", "does not read", "goes when a part has been sent"])
def test_the_error_of_a_failed_write_is_freed_with_the_call(peer: str) -> None:
    """An error that its own traceback references would keep the requests of all callers."""
    local, remote = socket.socketpair()
    local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    endpoint = Endpoint(Trunk(local), client_id=1, server_id=2)
    sent = None
    gc.collect()
    gc.freeze()  # exempt existing objects from collection
    gc.disable()
    try:
        if peer == "goes when a part has been sent":
            sent = endpoint.begin("s", "m", bytes(16_000), soon())
            assert sent is not None, "a part of it is on its way"
        if peer != "does not read":
            remote.close()
        with suppress(ConnectionClosed, DeadlineExceeded):
            if sent is None:
                endpoint.call("s", "m", bytes(16_000), deadline=soon(0.05))
            else:
                endpoint.collect(sent)
        sent = None
        remainder = [entry for entry in gc.get_objects() if isinstance(entry, (NriError, OSError))]
        assert not remainder
    finally:
        gc.enable()
        gc.unfreeze()
        remote.close()
        end(endpoint)


@pytest.mark.pure
def test_an_interrupted_wait_does_not_block_other_callers(pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    go, entered = threading.Event(), threading.Event()

    def slow(request: Request) -> object:
        entered.set()
        assert go.wait(PATIENCE_S)
        return LATER if request.payload == b"never answered" else request.payload

    class Lock:
        def acquire(self, **_: float) -> bool:
            raise KeyboardInterrupt

        def release(self) -> None: ...

    class Interrupted(Waiter):
        def __init__(self) -> None:
            super().__init__()
            self.lock = Lock()

    pair = pairs(slow)
    reader = threading.Thread(target=pair.call)
    reader.start()
    assert entered.wait(PATIENCE_S)
    with monkeypatch.context() as patched:
        patched.setattr("nri.ttrpc.endpoint.Waiter", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            pair.call(b"never answered")
    go.set()
    reader.join(PATIENCE_S)
    assert pair.call(b"next") == b"next"
    sent = pair.near.begin("s", "m", b"x", soon())
    assert sent is not None, "nobody else waits for an answer"
    assert pair.near.collect(sent) == b"x"


def test_a_request_with_a_callback_is_not_sent_on_a_closed_connection(pairs) -> None:
    pair = pairs()
    pair.near.close()
    with pytest.raises(ConnectionClosed):
        pair.near.start("s", "m", b"", soon(), lambda response: None)


def test_a_request_with_a_callback_waits_for_other_writers_until_its_deadline(pairs) -> None:
    pair = pairs()
    with pair.near.link.sender, pytest.raises(DeadlineExceeded):
        pair.near.start("s", "m", b"", soon(0.02), lambda response: None)
    assert pair.call(b"x") == b"x"


def test_the_callback_of_an_unsent_request_is_not_called(deaf) -> None:
    endpoint, _ = deaf
    fill(endpoint)
    messages: list[object] = []
    with pytest.raises(DeadlineExceeded):
        endpoint.start("s", "m", bytes(100_000), soon(0.05), messages.append)
    endpoint.close()
    assert messages == []


def test_callers_without_a_deadline_wait_for_the_reading_thread(pairs) -> None:
    both = threading.Barrier(2, timeout=10)
    pair = pairs(on_request=lambda request: request.payload)
    replies: list[bytes] = []

    def call(payload: bytes) -> None:
        both.wait()
        replies.extend([pair.near.call("s", "m", payload) for _ in range(50)])

    threads = [threading.Thread(target=call, args=(name,)) for name in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(replies) == [b"a"] * 50 + [b"b"] * 50


def test_invalid_frames_fail_the_reading_call_with_the_reason(deaf) -> None:
    endpoint, remote = deaf

    def answer() -> None:
        remote.recv(4096)
        remote.sendall(b"\x00\x00\x00\x01\xff\xff\xff\xff")

    answering = threading.Thread(target=answer)
    answering.start()
    with pytest.raises(ConnectionClosed, match="frame payload 4294967295 bytes"):
        endpoint.call("s", "m", b"", deadline=soon())
    answering.join(10)


def test_a_cancelled_call_does_not_disturb_the_reading_thread(pairs) -> None:
    pair = pairs()
    link, waiter = pair.near.link, Waiter()
    stream_id, _, _ = link.client.request("s", "m", b"")
    link.waiters[stream_id] = waiter
    with link.reader:
        abandon(link, (stream_id, "m", None, waiter, None))
        assert link.reader.locked()
    assert stream_id not in link.waiters
    assert pair.call(b"x") == b"x"


@pytest.mark.parametrize("interceptors", [(), (Interceptor(),)])
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_function_runs_while_a_call_waits_for_the_peer(pairs, interceptors, size: int) -> None:
    at_work, finished = threading.Event(), threading.Event()

    def answer(request: Request) -> bytes:
        at_work.set()
        assert finished.wait(PATIENCE_S)
        return b"reply"

    def meanwhile() -> None:
        assert at_work.wait(PATIENCE_S)
        finished.set()

    pair = pairs(answer, near_interceptors=interceptors)
    assert pair.near.call_in_order("s", "m", bytes(size), soon(), meanwhile=meanwhile)[1] == b"reply"


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_an_error_of_the_function_fails_only_its_call(pairs, size: int) -> None:
    def meanwhile() -> None:
        raise ValueError("no more")

    pair = pairs()
    with pytest.raises(ValueError, match="no more"):
        pair.near.call_in_order("s", "m", bytes(size), soon(), meanwhile=meanwhile)
    assert pair.call(b"next") == b"next"
