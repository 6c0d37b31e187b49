"""SPDY frames are read from any split of the bytes, with bounded lengths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.engine.streaming.spdy import frames
from nri.engine.streaming.spdy.frames import Control, FrameReader, Payload, control, data_frame
from nri.errors import RemoteProtocolError

CONTROLS = st.builds(Control, st.integers(1, 20), st.integers(0, 255), st.binary(max_size=60))
PAYLOADS = st.builds(Payload, st.integers(0, (1 << 31) - 1), st.binary(max_size=60), st.booleans())


def packed(frame: Control | Payload) -> bytes:
    if isinstance(frame, Payload):
        return data_frame(frame.stream, frame.data, fin=frame.fin)
    return control(frame.kind, tail=frame.payload, flags=frame.flags)


def joined(control: list[Control | Payload]) -> list[Control | Payload]:
    """Join the pieces of each data frame, as far as the boundaries of frames are visible."""
    frames_: list[Control | Payload] = []
    for frame in control:
        last = frames_[-1] if frames_ else None
        if isinstance(frame, Payload) and isinstance(last, Payload) and last.stream == frame.stream and not last.fin:
            frames_[-1] = Payload(frame.stream, last.data + frame.data, frame.fin)
        else:
            frames_.append(frame)
    return frames_


@given(st.lists(CONTROLS | PAYLOADS, max_size=5), st.integers(1, 30))
def test_frames_are_equal_for_any_split_of_the_bytes(sent: list[Control | Payload], size: int) -> None:
    data, reader = b"".join(packed(frame) for frame in sent), FrameReader()
    events = [frame for at in range(0, len(data), size) for frame in reader.receive(data[at : at + size])]
    assert joined(events) == joined(sent)


def test_a_part_of_a_data_frame_is_returned_at_once() -> None:
    reader, data = FrameReader(), data_frame(5, b"x" * 1000, fin=True)
    assert [*reader.receive(data[:10])] == [Payload(5, b"xx", False)]
    assert [*reader.receive(data[10:])] == [Payload(5, b"x" * 998, True)]


def test_the_bytes_equal_those_of_the_draft() -> None:
    assert control(frames.PING, 7) == bytes.fromhex("80030006 00000004 00000007")
    assert control(frames.RST_STREAM, 1, frames.CANCEL) == bytes.fromhex("80030003 00000008 00000001 00000005")
    assert data_frame(3, b"hi", fin=True) == bytes.fromhex("00000003 01000002 6869")


def test_an_oversized_control_frame_is_refused_by_its_header() -> None:
    head = bytes.fromhex("80030001 00") + (frames.MAX_CONTROL_BYTES + 1).to_bytes(3, "big")
    with pytest.raises(RemoteProtocolError, match="16385 bytes"):
        [*FrameReader().receive(head)]


def test_another_version_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="version 2"):
        [*FrameReader().receive(bytes.fromhex("80020006 00000004"))]


def test_a_control_frame_that_is_too_short_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="too short"):
        Control(frames.PING, 0, b"abc").stream()
