"""Delayed replies arrive completely and in order when the peer reads again, and are bounded."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from nri.errors import DeadlineExceeded, RpcError
from nri.ttrpc import Code, Endpoint, Request, SocketTransport, frames
from nri.ttrpc.connection import ClientSide
from nri.ttrpc.envelope import Response
from nri.ttrpc.outbox import MAX_WAITING_BYTES, MAX_WAITING_FRAMES
from tests.support.endpoints import responses
from tests.support.waiting import PATIENCE_S, wait_for


def soon(seconds: float = PATIENCE_S) -> float:
    return time.monotonic() + seconds


class Peer:
    """The far end, which reads only when a test has it read; `answer` is the near end's handler."""

    answer: Callable[[Request], bytes] = staticmethod(lambda request: request.payload)

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(PATIENCE_S)
        self.side = ClientSide()

    def ask(self, payload: bytes = b"") -> int:
        stream_id, frame, _ = self.side.request("s", "m", payload)
        self.sock.sendall(b"".join(frame))
        return stream_id

    def responses(self, count: int) -> list[Response]:
        """Read until `count` responses have come; the frames of `fill` belong to no stream and are dropped."""
        return responses(self.sock, self.side, count)


@pytest.fixture
def ends() -> Iterator[tuple[Endpoint, Peer]]:
    local, remote = socket.socketpair()
    peer = Peer(remote)
    endpoint = Endpoint(SocketTransport(local), on_request=lambda request: peer.answer(request))  # noqa: PLW0108 - a test sets it later
    yield endpoint, peer
    endpoint.close()
    endpoint.release(soon(1))
    remote.close()


def fill(local: Endpoint) -> None:
    """Fill the way to the peer with responses of no stream."""
    sock = socket.socket(fileno=os.dup(local.fileno()))
    frame = frames.pack(2, frames.RESPONSE, bytes(90))
    try:
        while sock.send(frame, socket.MSG_DONTWAIT) == len(frame):
            pass
        raise AssertionError("a frame was written in part")
    except BlockingIOError:
        pass
    finally:
        sock.close()


def test_a_delayed_reply_arrives_when_the_peer_reads_again(ends) -> None:
    local, peer = ends
    fill(local)
    stream_ids = [peer.ask(b"%d" % n) for n in range(3)]
    assert local.poll(), "the reader does not wait"
    time.sleep(0.3)
    assert local.closed is None
    answers = peer.responses(3)
    assert [(answer.stream_id, answer.payload) for answer in answers] == [
        (stream_id, b"%d" % n) for n, stream_id in enumerate(stream_ids)
    ]
    assert local.poll()
    peer.ask(b"next")
    assert local.poll()
    assert peer.responses(1)[0].payload == b"next"


def test_a_reply_waits_until_another_thread_has_written_its_frame(ends) -> None:
    local, peer = ends
    local.link.sender.acquire()
    peer.ask(b"x")
    assert local.poll()
    time.sleep(0.1)
    assert local.closed is None
    local.link.sender.release()
    assert peer.responses(1)[0].payload == b"x"


def test_a_partly_written_reply_is_completed(ends) -> None:
    local, peer = ends
    peer.answer = lambda request: bytes(500_000)
    peer.ask()
    assert local.poll()
    assert local.link.transport.unsent, "it was written at once"
    assert len(peer.responses(1)[0].payload) == 500_000


def test_requests_of_a_peer_that_does_not_read_are_not_read_beyond_a_limit(ends) -> None:
    local, peer = ends
    fill(local)
    requests = 0
    until = soon(20)
    while not local.link.full:
        assert time.monotonic() < until, "its replies pile up"
        peer.ask(bytes(100))
        requests += 1
        local.poll()
    assert requests <= MAX_WAITING_FRAMES + 1
    assert local.poll(), "it stays open"
    assert [len(answer.payload) for answer in peer.responses(requests)] == [100] * requests
    wait_for(lambda: not local.link.full, "it is read again")


def test_the_limit_of_waiting_replies_counts_bytes(ends) -> None:
    local, peer = ends
    peer.answer = lambda request: bytes(MAX_WAITING_BYTES // 2)
    fill(local)
    for _ in range(3):
        peer.ask()
    local.poll()
    assert local.link.full
    assert len(peer.responses(3)) == 3


def test_error_replies_wait_like_other_replies(ends) -> None:
    local, peer = ends

    def refuses(_: object) -> bytes:
        raise RpcError(Code.NOT_FOUND, "no")

    peer.answer = refuses
    fill(local)
    peer.ask()
    assert local.poll()
    assert peer.responses(1)[0].code == Code.NOT_FOUND


def test_a_peer_that_does_not_read_is_disconnected_after_the_reply_timeout(ends) -> None:
    local, peer = ends
    local.link.reply_timeout_s = 0.1
    fill(local)
    peer.ask()
    assert local.poll()
    wait_for(lambda: local.closed == "closed (the peer does not read its replies)", "it waits for ever")


def test_a_reply_waits_at_least_for_the_timeout_of_its_request(ends) -> None:
    local, peer = ends
    local.link.reply_timeout_s = 0.05
    fill(local)
    _, frame, _ = peer.side.request("s", "m", b"patient", 20_000_000_000)
    peer.sock.sendall(b"".join(frame))
    assert local.poll()
    time.sleep(0.3)
    assert local.closed is None
    assert peer.responses(1)[0].payload == b"patient"


def test_a_closed_connection_leaves_no_writing_thread(ends) -> None:
    local, peer = ends
    before = threading.active_count()
    fill(local)
    peer.ask()
    local.poll()
    local.close()
    wait_for(lambda: threading.active_count() <= before, "the end of the writing thread")
    with pytest.raises(Exception):  # noqa: B017, PT011 - closed, in any way
        local.call("s", "m", deadline=soon())


def test_a_call_waits_while_delayed_replies_are_written(ends) -> None:
    local, peer = ends
    fill(local)
    peer.ask(b"late")
    local.poll()
    with pytest.raises(DeadlineExceeded):
        local.call("s", "m", deadline=soon(0.1))
    assert local.closed is None
    assert peer.responses(1)[0].payload == b"late"
