"""The blocking front: calls from many threads, deadlines, the end of connections, idle watching."""

from __future__ import annotations

import copy
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import nri
from nri.errors import ConnectionClosed, DeadlineExceeded, OversizedMessage, RpcError
from nri.mux import Trunk, cut, pack
from nri.ttrpc import LATER, Code, Endpoint, Interceptor, Monitor, Request
from nri.ttrpc.connection import ClientSide
from nri.ttrpc.frames import MAX_DATA
from nri.ttrpc.link import Link
from nri.ttrpc.waiters import Waiter

PATIENCE_S = 10.0


def soon(seconds: float = PATIENCE_S) -> float:
    return time.monotonic() + seconds


class Pair:
    """Two endpoints on one trunk; the far one serves in a thread."""

    def __init__(self, on_request=None, near_request=None, near_interceptors=()) -> None:
        near, far = socket.socketpair()
        self.near_sock, self.far_sock = near, far
        self.closed: list[str] = []
        self.near = Endpoint(
            Trunk(near),
            client_id=1,
            server_id=2,
            on_request=near_request,
            interceptors=near_interceptors,
            on_close=self.closed.append,
        )
        self.far = Endpoint(Trunk(far), client_id=2, server_id=1, on_request=on_request or (lambda r: r.payload))
        self.thread = threading.Thread(target=self.far.serve, daemon=True)
        self.thread.start()

    def call(self, payload: bytes = b"", deadline: float | None = None, **options) -> bytes:
        return self.near.call("s", "m", payload, deadline=soon() if deadline is None else deadline, **options)

    def close(self) -> None:
        self.near.close()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive(), "the serving end hangs"
        for endpoint in (self.near, self.far):
            endpoint.close()
            endpoint.release(soon(1))


@pytest.fixture
def pairs() -> Iterator:
    made: list[Pair] = []

    def make(*args, **kwargs) -> Pair:
        made.append(Pair(*args, **kwargs))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


def test_a_call_returns_what_the_handler_returned(pairs) -> None:
    assert pairs().call(b"hello") == b"hello"


@pytest.mark.parametrize(
    "reply", [b"raw", bytearray(b"raw"), memoryview(b"raw")], ids=lambda value: type(value).__name__
)
def test_a_handler_may_return_bytes_of_any_kind(pairs, reply) -> None:
    assert pairs(lambda request: reply).call() == b"raw"


@pytest.mark.parametrize("reply", [None, "text", 5])
def test_a_handler_that_returns_something_else_fails_its_call_and_no_other(pairs, reply) -> None:
    pair = pairs(lambda request: reply if request.payload else b"fine")
    with pytest.raises(RpcError, match=f"m: the handler returned {type(reply).__name__} instead of bytes"):
        pair.call(b"x")
    assert pair.call() == b"fine"


@pytest.mark.parametrize("error", [RpcError(5, None), RpcError("5", "x")], ids=["no text", "no code"])  # type: ignore[arg-type]
def test_a_status_of_wrong_types_is_a_status_still(pairs, error) -> None:
    def fails(request: Request) -> bytes:
        raise error

    with pytest.raises(RpcError):
        pairs(fails).call()


def test_an_interceptor_may_add_metadata_as_it_likes_and_copy_a_request() -> None:
    class Adds(Interceptor):
        def call(self, request, proceed):
            request = copy.copy(request)
            request.metadata = [*request.metadata, ["team", "a"]]
            return bytearray(proceed(request))

    pair = Pair(lambda request: repr(request.metadata).encode(), near_interceptors=(Adds(),))
    try:
        assert pair.call(metadata=[["k", "v"]]) == b"(('k', 'v'), ('team', 'a'))"
    finally:
        pair.close()


def test_an_empty_reply_is_empty_bytes(pairs) -> None:
    assert pairs(lambda r: b"").call(b"x") == b""


def test_the_handler_learns_service_method_time_left_and_metadata(pairs) -> None:
    seen: list[Request] = []
    pairs(lambda r: seen.append(r) or b"").call(b"x", soon(5), metadata=[("k", "v"), ("k", "w")])
    request = seen[0]
    assert (request.service, request.method, request.metadata) == ("s", "m", (("k", "v"), ("k", "w")))
    assert 4e9 < request.timeout_ns <= 5e9


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RpcError(Code.NOT_FOUND, "text"), Code.NOT_FOUND),
        (ValueError("text"), Code.UNKNOWN),
        (TimeoutError("text"), Code.DEADLINE_EXCEEDED),
        (FileNotFoundError("text"), Code.NOT_FOUND),
        (PermissionError("text"), Code.PERMISSION_DENIED),
    ],
)
def test_what_a_handler_raises_becomes_a_status(pairs, error, code) -> None:
    expected = "ValueError: text" if isinstance(error, ValueError) else "text"  # where the code says nothing

    def fail(request):
        raise error

    with pytest.raises(RpcError) as caught:
        pairs(fail).call()
    assert (caught.value.code, caught.value.message) == (code, expected)


def test_the_text_of_a_status_is_the_references() -> None:
    assert str(RpcError(2, "boom")) == "rpc error: code = Unknown desc = boom"
    assert str(RpcError(99, "boom")) == "rpc error: code = Code(99) desc = boom"


def test_a_late_answer_costs_one_call_and_not_the_connection(pairs) -> None:
    release = threading.Event()
    pair = pairs(lambda r: release.wait(PATIENCE_S) and b"late" if r.payload == b"slow" else b"quick")
    with pytest.raises(DeadlineExceeded):
        pair.call(b"slow", soon(0.05))
    release.set()
    assert pair.call(b"next") == b"quick"


def test_a_deadline_that_has_passed_sends_nothing(pairs) -> None:
    seen = []
    pair = pairs(lambda r: seen.append(r) or b"")
    with pytest.raises(DeadlineExceeded):
        pair.call(b"", time.monotonic() - 1)
    pair.call()
    assert len(seen) == 1


def test_a_peer_that_does_not_read_costs_the_deadline_and_reads_whole_messages_later() -> None:
    near, far = socket.socketpair()
    endpoint = Endpoint(Trunk(near), client_id=1, server_id=2)
    big = bytes(3_000_000)
    with pytest.raises(DeadlineExceeded):
        endpoint.call("s", "m", big, deadline=soon(0.1))
    with pytest.raises(DeadlineExceeded):
        endpoint.call("s", "m", b"second", deadline=soon(0.1))
    seen = []
    server = Endpoint(Trunk(far), client_id=2, server_id=1, on_request=lambda r: seen.append(len(r.payload)) or b"ok")
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    assert endpoint.call("s", "m", b"third", deadline=soon()) == b"ok"
    assert seen == [len(big), len(b"third")], "the message that was cut short must end before another one begins"
    endpoint.close()
    thread.join(PATIENCE_S)
    server.release(soon(1))
    endpoint.release(soon(1))


def test_an_oversized_request_is_refused_here_and_the_connection_goes_on(pairs) -> None:
    pair = pairs()
    with pytest.raises(OversizedMessage):
        pair.call(bytes(MAX_DATA))
    assert pair.call(b"x") == b"x"


def test_an_oversized_reply_is_a_status_and_the_connection_goes_on(pairs) -> None:
    pair = pairs(lambda r: bytes(MAX_DATA + 1) if r.payload == b"big" else b"ok")
    with pytest.raises(RpcError) as caught:
        pair.call(b"big")
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    assert pair.call(b"x") == b"ok"


def test_when_the_peer_goes_every_pending_and_later_call_fails(pairs) -> None:
    entered = threading.Event()
    pair = pairs(lambda r: entered.set() or time.sleep(0.2) or b"")
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
    assert len(failures) == 3, failures
    with pytest.raises(ConnectionClosed):
        pair.call()
    assert len(pair.closed) == 1, "the end is told once"


def test_an_answer_that_was_written_before_the_peer_went_still_arrives() -> None:
    near, far = socket.socketpair()
    endpoint = Endpoint(Trunk(near), client_id=1, server_id=2)
    server = Endpoint(Trunk(far), client_id=2, server_id=1, on_request=lambda r: b"last words")

    def once() -> None:
        server.serve(until=lambda: bool(answered))
        server.close()

    answered: list[int] = []
    server._answerer._handler = lambda r: answered.append(1) or b"last words"  # type: ignore[assignment]
    thread = threading.Thread(target=once, daemon=True)
    thread.start()
    assert endpoint.call("s", "m", b"", deadline=soon()) == b"last words"
    thread.join(PATIENCE_S)
    for end in (endpoint, server):
        end.close()
        end.release(soon(1))


def test_many_threads_may_call_and_each_gets_its_own_answer(pairs) -> None:
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


def test_callers_with_short_deadlines_do_not_take_the_reader_away_from_the_others(pairs) -> None:
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


def test_a_request_that_comes_while_we_wait_is_served(pairs) -> None:
    seen = []
    pair = pairs(near_request=lambda r: seen.append(r.method) or b"from the caller")

    def ask_back(request: Request) -> object:
        threading.Thread(target=lambda: replies.append(pair.far.call("t", "back", b"", deadline=soon()))).start()
        until = soon()
        while not seen and time.monotonic() < until:
            time.sleep(0.001)
        return b"done"

    replies: list[bytes] = []
    pair.far._answerer._handler = ask_back
    assert pair.call() == b"done"
    assert seen == ["back"]


def test_a_handler_may_answer_later(pairs) -> None:
    waiting: list[Request] = []
    pair = pairs(lambda r: waiting.append(r) or LATER)

    def answer_backwards() -> None:
        until = soon()
        while len(waiting) < 2 and time.monotonic() < until:
            time.sleep(0.001)
        for request in reversed(waiting):
            pair.far.reply(request, request.payload)

    threading.Thread(target=answer_backwards).start()
    got: list[bytes] = []
    other = threading.Thread(target=lambda: got.append(pair.call(b"one")))
    other.start()
    got.append(pair.call(b"two"))
    other.join(PATIENCE_S)
    assert sorted(got) == [b"one", b"two"]


def test_a_monitor_serves_requests_that_come_between_calls(pairs) -> None:
    monitor = Monitor()
    try:
        pair = pairs(near_request=lambda r: b"served by the monitor")
        monitor.add(pair.near)
        for _ in range(5):
            assert pair.far.start("t", "m", b"", soon(), lambda r: None) is None
            assert pair.call(b"x") == b"x"
        replies: list[object] = []
        pair.far.start("t", "m", b"", soon(), replies.append)
        until = soon()
        while not replies and time.monotonic() < until:
            time.sleep(0.001)
        assert replies[0].payload == b"served by the monitor"
    finally:
        monitor.stop()


def test_what_a_peer_asks_after_each_burst_of_calls_is_served(pairs) -> None:
    monitor = Monitor()
    try:
        pair = pairs(near_request=lambda r: r.payload)
        monitor.add(pair.near)
        for n in range(5):
            for _ in range(10):
                pair.call()
            assert pair.far.call("t", "m", b"%d" % n, deadline=soon()) == b"%d" % n
    finally:
        monitor.stop()


@pytest.mark.pure
def test_a_connection_that_ends_after_a_burst_of_calls_leaves_the_monitor_at_rest(pairs) -> None:
    looks: list[object] = []

    class Counting(Monitor):
        def _look(self, last_s: float | None) -> float | None:
            looks.append(last_s)
            return super()._look(last_s)

    monitor = Counting()
    try:
        pair = pairs()
        monitor.add(pair.near)
        for _ in range(5):
            pair.call()
        pair.near.close()
        time.sleep(0.3)
        assert len(looks) < 30, "the monitor is told of the end again and again"
    finally:
        monitor.stop()


@pytest.mark.pure
def test_between_calls_that_follow_each_other_closely_nothing_is_watched(
    pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.ttrpc.monitor.CLOSE_S", 60.0)
    told: list[int] = []

    class Counting(Monitor):
        def modify(self, link: Link, events: int) -> None:
            told.append(events)
            super().modify(link, events)

    monitor = Counting()
    try:
        pair = pairs()
        monkeypatch.setattr("nri.ttrpc.monitor.LOOK_S", 60.0)
        monitor.add(pair.near)
        for _ in range(100):
            pair.call()
        assert len(told) <= 3, "it is watched, or said to be read, at every call"
    finally:
        monitor.stop()


@pytest.mark.pure
def test_a_call_that_follows_another_closely_passes_five_files(pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.ttrpc.monitor.CLOSE_S", 60.0)
    root = os.path.dirname(nri.__file__) + "/"
    passed: list[str] = []

    def profile(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            passed.append(frame.f_code.co_filename.removeprefix(root))

    monitor = Monitor()
    try:
        pair = pairs()
        monitor.add(pair.near)
        for _ in range(3):
            pair.near.collect(pair.near.begin("s", "m", b"x", soon()))
        sys.setprofile(profile)
        try:
            pair.near.collect(pair.near.begin("s", "m", b"x", soon()))
        finally:
            sys.setprofile(None)
    finally:
        monitor.stop()
    usual = {"ttrpc/endpoint.py", "ttrpc/connection.py", "ttrpc/envelope.py", "mux/trunk.py", "stream.py"}
    assert set(passed) - {"signals.py"} == usual  # a read that has to wait lets signals in
    assert len(passed) <= 16, passed


def test_a_monitor_that_is_stopped_after_a_burst_of_calls_lets_callers_go_on(pairs) -> None:
    monitor = Monitor()
    pair = pairs()
    monitor.add(pair.near)
    for _ in range(5):
        pair.call()
    monitor.stop()
    for _ in range(5):
        assert pair.call(b"on") == b"on"


@pytest.mark.parametrize("calls", [1, 5], ids=["one call", "a burst of calls"])
def test_a_monitor_notices_a_peer_that_goes_between_calls(pairs, calls: int) -> None:
    monitor = Monitor()
    try:
        pair = pairs()
        monitor.add(pair.near)
        for _ in range(calls):
            pair.call()
        pair.far.close()
        until = soon()
        while not pair.closed and time.monotonic() < until:
            time.sleep(0.001)
        assert pair.closed == ["closed"]
    finally:
        monitor.stop()


def test_interceptors_see_calls_from_the_outermost_in() -> None:
    seen: list[str] = []

    class Records(Interceptor):
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, request, proceed):
            seen.append(f"{self.name} before {request.method}")
            reply = proceed(request)
            seen.append(f"{self.name} after {len(reply)} bytes")
            return reply

    pair = Pair(near_interceptors=(Records("outer"), Records("inner")))
    pair.call(b"abc")
    pair.close()
    assert seen == ["outer before m", "inner before m", "inner after 3 bytes", "outer after 3 bytes"]


def test_without_a_handler_every_request_is_unimplemented() -> None:
    near, far = socket.socketpair()
    caller, mute = Endpoint(Trunk(near), client_id=1, server_id=2), Endpoint(Trunk(far), client_id=2, server_id=1)
    thread = threading.Thread(target=mute.serve, daemon=True)
    thread.start()
    with pytest.raises(RpcError, match="service s") as caught:
        caller.call("s", "m", deadline=soon())
    assert caught.value.code == Code.UNIMPLEMENTED
    caller.close()
    thread.join(PATIENCE_S)
    for end in (caller, mute):
        end.release(soon(1))


def test_a_released_connection_holds_no_parts_of_messages() -> None:
    """Its owner may remember it long after it is gone."""
    near, far = socket.socketpair()
    trunk = Trunk(near)
    endpoint = Endpoint(trunk, client_id=1, server_id=2)
    far.sendall(a_request(bytes(3000))[:1000])
    assert endpoint.poll()
    with pytest.raises(DeadlineExceeded):
        endpoint.call("s", "m", bytes(3_000_000), deadline=soon(0.05))
    assert endpoint.link.server._reader._data
    assert trunk._unsent
    end(endpoint)
    far.close()
    assert not endpoint.link.server._reader._data
    assert not trunk._unsent


# --- the two halves of a call


def test_one_thread_sends_and_another_one_takes_the_answer(pairs) -> None:
    pair = pairs()
    sent = pair.near.begin("s", "m", b"hello", soon())
    answers: list[bytes] = []
    other = threading.Thread(target=lambda: answers.append(pair.near.collect(sent)))
    other.start()
    other.join(PATIENCE_S)
    assert answers == [b"hello"]
    assert pair.call(b"next") == b"next"


def test_an_answer_that_came_in_time_counts_however_late_it_is_collected(pairs) -> None:
    pair = pairs()
    sent = pair.near.begin("s", "m", b"in time", soon(0.1))
    time.sleep(0.3)
    assert pair.near.collect(sent) == b"in time"


def test_an_answer_that_nobody_takes_is_dropped_and_the_connection_goes_on(pairs) -> None:
    pair = pairs()
    pair.near.abandon(pair.near.begin("s", "m", b"forgotten", soon()))
    assert [pair.call(b"%d" % n) for n in range(3)] == [b"0", b"1", b"2"]
    sent = pair.near.begin("s", "m", b"x", soon())
    assert sent is not None, "it is in step again"
    assert pair.near.collect(sent) == b"x"


def test_a_half_call_that_is_answered_late_fails_with_its_own_deadline(pairs) -> None:
    go = threading.Event()
    pair = pairs(lambda request: request.payload if request.payload != b"late" or go.wait(PATIENCE_S) else b"")
    sent = pair.near.begin("s", "m", b"late", soon(0.05))
    with pytest.raises(DeadlineExceeded):
        pair.near.collect(sent)
    go.set()
    assert pair.call(b"next") == b"next"


def test_nothing_is_begun_while_somebody_else_waits_for_an_answer(pairs) -> None:
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
def test_nothing_is_begun_that_could_not_be_sent_at_once(pairs, payload: bytes) -> None:
    pair = pairs()
    assert pair.near.begin("s", "m", payload, soon() if payload else time.monotonic() - 1) is None
    assert pair.call(b"next") == b"next"


def test_nothing_is_begun_past_an_interceptor() -> None:
    pair = Pair(near_interceptors=(Interceptor(),))
    try:
        assert pair.near.begin("s", "m", b"", soon()) is None
    finally:
        pair.close()


def test_what_is_begun_on_a_connection_that_ends_fails_as_a_call_does(pairs) -> None:
    go = threading.Event()
    pair = pairs(lambda request: request.payload if go.wait(PATIENCE_S) else b"")
    sent = pair.near.begin("s", "m", b"", soon())
    pair.far_sock.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionClosed):
        pair.near.collect(sent)
    go.set()
    assert pair.near.begin("s", "m", b"", soon()) is None, "the connection is closed"


def end(*endpoints: Endpoint) -> None:
    for endpoint in endpoints:
        endpoint.close()
        endpoint.release(soon(1))


@pytest.fixture
def deaf() -> Iterator[tuple[Endpoint, socket.socket]]:
    """An endpoint that refuses requests, and the socket of a peer that reads nothing; the way there is full."""
    near, far = socket.socketpair()
    endpoint = Endpoint(Trunk(near), client_id=1, server_id=2)
    yield endpoint, far
    end(endpoint)
    far.close()


def fill(endpoint: Endpoint) -> None:
    """Fill the way to the peer, with frames of a connection that is not open: whoever reads them drops them."""
    sock = socket.socket(fileno=os.dup(endpoint.fileno()))
    try:
        while True:
            sock.send(pack(9, bytes(100)), socket.MSG_DONTWAIT)
    except BlockingIOError:
        pass
    finally:
        sock.close()


def serve(sock: socket.socket, seen: list[int]) -> Endpoint:
    server = Endpoint(
        Trunk(sock), client_id=2, server_id=1, on_request=lambda r: seen.append(len(r.payload)) or r.payload
    )
    threading.Thread(target=server.serve, daemon=True).start()
    return server


def test_nothing_is_begun_while_the_peer_does_not_read(deaf) -> None:
    """Else it would count as late at once, though its time has only begun."""
    near, far = deaf
    fill(near)
    assert near.begin("s", "m", b"x", soon()) is None
    seen: list[int] = []
    server = serve(far, seen)
    assert near.call("s", "m", b"x", deadline=soon()) == b"x"
    assert seen == [1]
    end(near, server)


def test_what_was_begun_and_sent_in_part_is_sent_to_its_end_by_whoever_waits_for_the_answer() -> None:
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
    endpoint = Endpoint(Trunk(near), client_id=1, server_id=2)
    payload = bytes(16_000)
    sent = endpoint.begin("s", "m", payload, soon())
    assert sent is not None, "a part of it is on its way"
    seen: list[int] = []
    server = serve(far, seen)
    assert endpoint.collect(sent) == payload
    assert endpoint.call("s", "m", b"next", deadline=soon()) == b"next"
    assert seen == [len(payload), 4]
    end(endpoint, server)


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
def test_a_write_that_is_interrupted_leaves_the_connection_to_others(half: bool) -> None:
    near, far = socket.socketpair()
    endpoint = Endpoint(Interrupted(near), client_id=1, server_id=2)
    server = serve(far, [])
    with pytest.raises(KeyboardInterrupt):
        endpoint.begin("s", "m", b"", soon()) if half else endpoint.call("s", "m", b"", deadline=soon())
    assert endpoint.call("s", "m", b"next", deadline=soon()) == b"next"
    assert endpoint.poll(), "nobody reads any more"
    assert not endpoint.link.reader.locked()
    end(endpoint, server)


@pytest.mark.pure
def test_a_wait_that_is_interrupted_leaves_no_caller_behind(pairs, monkeypatch: pytest.MonkeyPatch) -> None:
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


def a_request(payload: bytes = b"") -> bytes:
    """A request of the peer, as it is on the wire."""
    return cut(2, *ClientSide().request("s", "m", payload)[1])


def ends(work, what: str) -> list[BaseException]:
    """Run it in a thread, and see that it ends long before a reply is given up."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), f"{what} waits for a peer that does not read its replies"
    return errors


def test_a_caller_does_not_wait_for_a_peer_that_does_not_read_its_replies(deaf) -> None:
    near, far = deaf
    sent = near.begin("s", "m", b"", soon(0.1))
    fill(near)
    far.sendall(a_request())
    (error,) = ends(lambda: near.collect(sent), "the caller")
    assert isinstance(error, DeadlineExceeded)
    assert near.closed is None, "a peer that is slow is not dead"


def test_a_monitor_does_not_wait_for_those_who_write_to_a_peer_that_does_not_read(deaf) -> None:
    near, far = deaf
    fill(near)
    writer = threading.Thread(target=near.reply, args=(Request("s", "m", b"", stream_id=1), b""), daemon=True)
    writer.start()
    deadline = soon()
    while not near.link.sender.locked() and time.monotonic() < deadline:
        time.sleep(0.001)
    far.sendall(a_request())
    ends(near.poll, "the monitor")
    assert near.closed is None, "a peer that is slow is not dead"
    near.close()
    writer.join(PATIENCE_S)


def test_what_is_there_at_the_deadline_is_served_however_late_this_side_is(deaf) -> None:
    near, far = deaf
    far.sendall(a_request())
    done: list[int] = []
    near._answerer._handler = lambda request: done.append(1) or b""
    assert near.serve(lambda: done, time.monotonic() - 5.0) is None
    with pytest.raises(DeadlineExceeded):
        near.serve(lambda: len(done) > 1, time.monotonic() - 5.0)
