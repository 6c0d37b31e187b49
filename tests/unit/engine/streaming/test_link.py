"""A client's socket: waiting bytes and its end."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator

import pytest

from nri.engine.streaming.link import Link, Poller, Stopped, read_some


@pytest.fixture
def pair() -> Iterator[tuple[Link, socket.socket]]:
    own_end, peer = socket.socketpair()
    with own_end, peer:
        yield Link(own_end), peer


@pytest.fixture
def bell() -> Iterator[int]:
    eventfd = os.eventfd(0)
    yield eventfd
    os.close(eventfd)


def test_bytes_wait_until_they_are_sent(pair: tuple[Link, socket.socket]) -> None:
    link, peer = pair
    link.send(bytes(10 << 20))
    assert 0 < link.waiting < 10 << 20 and link.mask(read=True) == select.POLLIN | select.POLLOUT
    while link.waiting:
        peer.recv(1 << 20)
        link.send(b"")
    assert link.mask(read=True) == select.POLLIN and not link.lost


def test_a_disconnect_is_noticed_in_reads_writes_and_waits(pair: tuple[Link, socket.socket]) -> None:
    link, peer = pair
    assert link.read() == b"" and not link.lost, "nothing has come yet"
    peer.sendall(b"last words")
    peer.close()
    assert link.receive({link.fileno(): select.POLLIN | select.POLLHUP}, read=True) == b"last words" and not link.lost
    assert link.receive({link.fileno(): select.POLLRDHUP}, read=False) == b"" and link.lost
    link.lost = False
    link.send(b"x")
    assert link.lost and link.waiting == 0
    link.lost = False
    assert link.read() == b"" and link.lost


def test_a_wait_ends_by_events_timeout_or_stop(pair: tuple[Link, socket.socket], bell: int) -> None:
    link, peer = pair
    poller, requests = Poller(bell), {link.fileno(): link.mask(read=True)}
    assert poller.wait(requests, 0.01) == {} == poller.wait({}, -1)
    peer.sendall(b"x")
    assert poller.wait(requests, 20) == {link.fileno(): select.POLLIN}
    assert poller.wait({}, 0.01) == {}, "what is not asked for is not waited for"
    os.eventfd_write(bell, 1)
    with pytest.raises(Stopped):
        poller.wait(requests, 20)


def test_at_the_end_all_bytes_are_sent(pair: tuple[Link, socket.socket], bell: int) -> None:
    link, peer = pair
    peer.sendall(b"never read by anybody")
    link.send(b"goodbye")
    peer.shutdown(socket.SHUT_WR)
    link.finish(Poller(bell), 20)
    assert peer.recv(100) == b"goodbye" and peer.recv(100) == b""


def test_at_the_end_a_blocked_client_is_disconnected(pair: tuple[Link, socket.socket], bell: int) -> None:
    link, _ = pair
    link.send(bytes(10 << 20))
    link.finish(Poller(bell), 0.1)
    assert link.waiting and not link.lost


def test_a_read_of_a_pipe_returns_bytes_none_or_the_end() -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    try:
        assert read_some(read, 10) is None
        os.write(write, b"x")
        assert read_some(read, 10) == b"x"
    finally:
        os.close(write)
    assert read_some(read, 10) == b""
    os.close(read)
    assert read_some(read, 10) == b"", "as a terminal whose other side is gone"
