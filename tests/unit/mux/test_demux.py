"""Bytes of a socket are split into chunks of its logical connections."""

from __future__ import annotations

import struct

import pytest

from nri.errors import RemoteProtocolError
from nri.mux import Demux
from nri.mux import frames as mux


def test_an_oversized_header_ends_the_trunk_without_allocation() -> None:
    with pytest.raises(RemoteProtocolError, match="conn 1: frame payload 4294967295 bytes, maximum is 4194314"):
        Demux((1,)).receive(struct.pack(">II", 1, 2**32 - 1))


def test_an_oversized_complete_frame_ends_the_trunk() -> None:
    frame = struct.pack(">II", 1, mux.MAX_PAYLOAD + 1) + bytes(mux.MAX_PAYLOAD + 1)
    with pytest.raises(RemoteProtocolError, match="conn 1: frame payload 4194315 bytes, maximum is 4194314"):
        Demux((1,)).receive(frame)


def chunks(demux: Demux, *data: bytes) -> list[tuple[int, bytes]]:
    return [chunk for piece in data for chunk in demux.receive(piece)]


def test_a_message_in_two_frames_is_one_chunk() -> None:
    message = bytes(range(256)) * 20
    assert Demux((2,)).receive(mux.cut(2, message)) == [(2, message)]


def test_frames_of_several_connections_come_in_order() -> None:
    data = mux.pack(1, b"a") + mux.pack(2, b"b") + mux.pack(1, b"c")
    assert Demux((1, 2)).receive(data) == [(1, b"a"), (2, b"b"), (1, b"c")]


def test_a_payload_is_returned_as_it_arrives() -> None:
    data = mux.pack(1, b"abcdef")
    demux = Demux((1,))
    assert chunks(demux, data[:3], data[3:10], data[10:]) == [(1, b"ab"), (1, b"cdef")]
    assert demux.between


def test_the_number_of_missing_bytes_is_known() -> None:
    demux = Demux((1,))
    demux.receive(mux.pack(1, bytes(100))[:-30])
    assert (demux.missing, demux.between) == (30, False)


def test_chunks_of_a_closed_connection_are_dropped() -> None:
    data = mux.pack(7, bytes(9000))
    demux = Demux((1,))
    assert chunks(demux, mux.cut(7, b"whole"), data[:100], data[100:], mux.pack(1, b"mine")) == [(1, b"mine")]


def test_empty_frames_are_ignored() -> None:
    assert Demux((1,)).receive(mux.pack(1, b"") + mux.pack(1, b"x") + mux.pack(1, b"")) == [(1, b"x")]
