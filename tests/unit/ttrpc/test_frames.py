"""ttRPC frames: complete frames from parts of any size, with bounded memory."""

from __future__ import annotations

import itertools
import struct
import sys

import pytest

from nri.errors import OversizedMessage
from nri.ttrpc import frames


def test_an_oversized_message_is_discarded_while_it_arrives() -> None:
    reader = frames.FrameReader()
    length = frames.MAX_DATA + 5
    out = reader.receive(struct.pack(">IIBB", length, 1, frames.REQUEST, 0))
    for _ in range(length // 65536):
        out += reader.receive(bytes(65536))
        assert len(reader.data) == 0, "bytes of a refused message are kept"
    out += reader.receive(bytes(length % 65536) + frames.pack(3, frames.RESPONSE, b"x"))
    assert out == [(1, frames.REQUEST, 0, None, length), (3, frames.RESPONSE, 0, b"x", 1)]


def test_the_limit_is_exactly_four_mebibytes() -> None:
    assert len(frames.pack(1, frames.REQUEST, bytes(frames.MAX_DATA))) == frames.MAX_DATA + 10
    with pytest.raises(
        OversizedMessage, match="message length 4194305 exceed maximum message size of 4194304"
    ) as caught:
        frames.pack(1, frames.REQUEST, bytes(frames.MAX_DATA + 1))
    assert (caught.value.length_bytes, caught.value.maximum_bytes) == (4194305, 4194304)


def test_a_frame_has_length_stream_type_flags_and_data() -> None:
    expected = b"\x00\x00\x00\x02\x00\x00\x00\x05\x01\x02ab"
    assert frames.pack(5, frames.REQUEST, b"ab", frames.REMOTE_OPEN) == expected


def test_frames_are_complete_for_any_split_of_the_bytes() -> None:
    data = frames.pack(1, frames.REQUEST, b"abc") + frames.pack(3, frames.DATA, b"", frames.REMOTE_CLOSED)
    expected = [(1, frames.REQUEST, 0, b"abc", 3), (3, frames.DATA, frames.REMOTE_CLOSED, b"", 0)]
    for size in range(1, len(data) + 1):
        reader = frames.FrameReader()
        out = [frame for at in range(0, len(data), size) for frame in reader.receive(data[at : at + size])]
        assert out == expected, f"in pieces of {size} bytes"
        assert reader.between


@pytest.mark.parametrize(
    "sizes", [(20_000,), (20_000, 1), (1, 20_000), (1, 1, 1, 20_000, 30_000, 1, 1), (16_383, 16_384), (60_010,)]
)
def test_a_long_frame_is_assembled_from_parts_of_any_size(sizes: tuple[int, ...]) -> None:
    content = bytes(range(256)) * 400
    data = frames.pack(1, frames.REQUEST, content) + frames.pack(3, frames.DATA, b"next")
    reader, out, at = frames.FrameReader(), [], 0
    for size in itertools.cycle(sizes):
        if at >= len(data):
            break
        out += reader.receive(data[at : at + size])
        at += size
    assert out == [(1, frames.REQUEST, 0, content, len(content)), (3, frames.DATA, 0, b"next", 4)]
    assert reader.between
    assert not reader.data


def test_bytes_that_arrive_one_by_one_use_no_more_memory_than_their_number() -> None:
    reader = frames.FrameReader()
    for byte in frames.pack(1, frames.REQUEST, bytes(5000))[:-1]:
        reader.receive(bytes((byte,)))
    assert sum(map(sys.getsizeof, reader.data)) < 10_000


def test_a_reader_reports_an_incomplete_frame() -> None:
    reader = frames.FrameReader()
    data = frames.pack(1, frames.REQUEST, b"abc")
    for piece in (data[:4], data[4:11]):
        reader.receive(piece)
        assert not reader.between
    reader.receive(data[11:])
    assert reader.between


def test_an_oversized_frame_is_reported_without_its_data() -> None:
    length = frames.MAX_DATA + 1
    complete = frames.pack_header(length, 1, frames.REQUEST, 0) + bytes(length)
    assert frames.FrameReader().receive(complete) == [(1, frames.REQUEST, 0, None, length)]
    following = complete + frames.pack(3, frames.REQUEST, b"x")
    assert frames.FrameReader().receive(following) == [
        (1, frames.REQUEST, 0, None, length),
        (3, frames.REQUEST, 0, b"x", 1),
    ]
