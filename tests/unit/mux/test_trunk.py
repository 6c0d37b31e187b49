"""One socket that carries several logical connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from nri.errors import ConnectionClosed, LocalProtocolError
from nri.mux import Trunk
from nri.mux.frames import cut, pack
from tests.support.endpoints import soon


@pytest.fixture
def ends() -> Iterator[tuple[Trunk, socket.socket]]:
    local, remote = socket.socketpair()
    trunk = Trunk(local)
    yield trunk, remote
    trunk.close()
    remote.close()


def test_a_short_message_is_one_frame(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    trunk.send(2, [b"ab", b"cd"], soon())
    assert remote.recv(100) == pack(2, b"abcd")


def test_a_long_message_is_split_for_go_peers(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    trunk.send(1, [bytes(5000), b"x"], soon())
    assert remote.recv(6000) == cut(1, bytes(5000), b"x")


def test_sending_on_connection_0_is_refused(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, _ = ends
    with pytest.raises(LocalProtocolError):
        trunk.send(0, [bytes(5000)], soon())


def test_complete_and_split_frames_arrive(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    remote.sendall(pack(1, b"one"))
    assert trunk.receive(soon()) == [(1, b"one")]
    remote.sendall(pack(2, b"two")[:9])
    assert trunk.receive(soon()) == [(2, b"t")]
    remote.sendall(b"wo")
    assert trunk.receive(soon()) == [(2, b"wo")]


def test_a_frame_of_a_closed_connection_is_dropped(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    remote.sendall(pack(9, b"not ours"))
    assert trunk.receive(soon()) == []


def test_inside_a_large_frame_reads_are_larger(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    remote.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    data = pack(1, bytes(1 << 21))
    sender = threading.Thread(target=remote.sendall, args=(data,))
    sender.start()
    lengths: list[int] = []
    while sum(lengths) < 1 << 21:
        lengths += [len(chunk) for _, chunk in trunk.receive(soon())]
    sender.join()
    assert max(lengths) > 65536, "a large message is read in small pieces"


def test_receive_now_returns_arrived_frames_without_waiting(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    remote.sendall(pack(1, b"now") + pack(2, b"too"))
    assert trunk.receive_now() == [(1, b"now"), (2, b"too")]


def test_a_disconnect_ends_the_read(ends: tuple[Trunk, socket.socket]) -> None:
    trunk, remote = ends
    remote.close()
    with pytest.raises(ConnectionClosed):
        trunk.receive(soon())
