"""Requests of the peer: handlers, replies, errors and waits."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from nri.errors import DeadlineExceeded, RpcError
from nri.mux import Trunk
from nri.ttrpc import Code, Endpoint, Request
from nri.ttrpc.endpoint import LATER
from nri.ttrpc.frames import MAX_DATA
from tests.support.endpoints import PATIENCE_S, a_request, end, ends, fill, soon


@pytest.mark.parametrize(
    "reply", [b"raw", bytearray(b"raw"), memoryview(b"raw")], ids=lambda value: type(value).__name__
)
def test_a_handler_can_return_any_bytes_like_object(pairs, reply) -> None:
    assert pairs(lambda request: reply).call() == b"raw"


@pytest.mark.parametrize("reply", [None, "text", 5])
def test_a_handler_with_a_wrong_return_value_fails_only_its_call(pairs, reply) -> None:
    pair = pairs(lambda request: reply if request.payload else b"fine")
    with pytest.raises(RpcError, match=f"m: the handler returned {type(reply).__name__} instead of bytes"):
        pair.call(b"x")
    assert pair.call() == b"fine"


@pytest.mark.parametrize("error", [RpcError(5, None), RpcError("5", "x")], ids=["no text", "no code"])  # type: ignore[arg-type]
def test_a_status_with_wrong_types_is_sent_as_a_status(pairs, error) -> None:
    def fails(request: Request) -> bytes:
        raise error

    with pytest.raises(RpcError):
        pairs(fails).call()


def test_an_empty_reply_is_empty_bytes(pairs) -> None:
    assert pairs(lambda r: b"").call(b"x") == b""


def test_a_handler_receives_service_method_timeout_and_metadata(pairs) -> None:
    calls: list[Request] = []
    pairs(lambda r: calls.append(r) or b"").call(b"x", soon(500), metadata=[("k", "v"), ("k", "w")])
    request = calls[0]
    assert (request.service, request.method, request.metadata) == ("s", "m", (("k", "v"), ("k", "w")))
    assert 400e9 < request.timeout_ns <= 500e9


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
def test_an_exception_of_a_handler_becomes_a_status(pairs, error, code) -> None:
    expected = "ValueError: text" if isinstance(error, ValueError) else "text"  # its code does not name the type

    def fail(request):
        raise error

    with pytest.raises(RpcError) as caught:
        pairs(fail).call()
    assert (caught.value.code, caught.value.message) == (code, expected)


def test_the_text_of_a_status_equals_the_references() -> None:
    assert str(RpcError(2, "boom")) == "rpc error: code = Unknown desc = boom"
    assert str(RpcError(99, "boom")) == "rpc error: code = Code(99) desc = boom"


def test_an_oversized_reply_becomes_a_status_and_leaves_the_connection_usable(pairs) -> None:
    pair = pairs(lambda r: bytes(MAX_DATA + 1) if r.payload == b"big" else b"ok")
    with pytest.raises(RpcError) as caught:
        pair.call(b"big")
    assert caught.value.code == Code.RESOURCE_EXHAUSTED
    assert pair.call(b"x") == b"ok"


def test_a_request_is_served_during_a_call(pairs) -> None:
    calls = []

    def ask_back(request: Request) -> object:
        threading.Thread(target=lambda: replies.append(pair.far.call("t", "back", b"", deadline=soon()))).start()
        until = soon()
        while not calls and time.monotonic() < until:
            time.sleep(0.001)
        return b"done"

    replies: list[bytes] = []
    pair = pairs(ask_back, lambda r: calls.append(r.method) or b"from the caller")
    assert pair.call() == b"done"
    assert calls == ["back"]


def test_a_handler_can_answer_later(pairs) -> None:
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


def test_without_a_handler_every_request_is_unimplemented() -> None:
    local, remote = socket.socketpair()
    caller, mute = Endpoint(Trunk(local), client_id=1, server_id=2), Endpoint(Trunk(remote), client_id=2, server_id=1)
    thread = threading.Thread(target=mute.serve, daemon=True)
    thread.start()
    with pytest.raises(RpcError, match="service s") as caught:
        caller.call("s", "m", deadline=soon())
    assert caught.value.code == Code.UNIMPLEMENTED
    caller.close()
    thread.join(PATIENCE_S)
    for entry in (caller, mute):
        entry.release(soon(1))


def test_a_caller_does_not_wait_for_a_peer_that_does_not_read_its_replies(deaf) -> None:
    local, remote = deaf
    sent = local.begin("s", "m", b"", soon(0.1))
    fill(local)
    remote.sendall(a_request())
    (error,) = ends(lambda: local.collect(sent), "the caller")
    assert isinstance(error, DeadlineExceeded)
    assert local.closed is None, "a peer that is slow is not dead"


def test_a_monitor_does_not_wait_for_blocked_writers(deaf) -> None:
    local, remote = deaf
    fill(local)
    writer = threading.Thread(target=local.reply, args=(Request("s", "m", b"", stream_id=1), b""), daemon=True)
    writer.start()
    deadline = soon()
    while not local.link.sender.locked() and time.monotonic() < deadline:
        time.sleep(0.001)
    remote.sendall(a_request())
    ends(local.poll, "the monitor")
    assert local.closed is None, "a peer that is slow is not dead"
    local.close()
    writer.join(PATIENCE_S)


def test_requests_that_arrived_before_the_deadline_are_served_late() -> None:
    local, remote = socket.socketpair()
    finished: list[int] = []
    endpoint = Endpoint(Trunk(local), client_id=1, server_id=2, on_request=lambda request: finished.append(1) or b"")
    remote.sendall(a_request())
    assert endpoint.serve(lambda: finished, time.monotonic() - 5.0) is None
    with pytest.raises(DeadlineExceeded):
        endpoint.serve(lambda: len(finished) > 1, time.monotonic() - 5.0)
    end(endpoint)
    remote.close()
