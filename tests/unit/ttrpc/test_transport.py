"""A plain socket as a transport: one connection without the multiplexer's header."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nri.errors import ConnectionClosed
from nri.ttrpc.transport import SocketTransport
from tests.support.endpoints import soon


def test_frames_are_written_and_read_without_a_header(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        transport = SocketTransport.connect(path)
        peer, _ = listener.accept()
        transport.send(0, [b"ab", b"cd"], soon())
        assert peer.recv(100) == b"abcd"
        peer.sendall(b"xyz")
        assert transport.receive(soon()) == [(0, b"xyz")]
        peer.sendall(b"123")
        assert transport.receive_now() == [(0, b"123")]
        peer.close()
        with pytest.raises(ConnectionClosed):
            transport.receive(soon())
        transport.close()


def test_a_missing_socket_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SocketTransport.connect(str(tmp_path / "none.sock"))
