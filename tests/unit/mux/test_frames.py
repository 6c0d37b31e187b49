"""Mux frames: bytes that a Go peer can read, and limits."""

from __future__ import annotations

import pytest

from nri.errors import LocalProtocolError
from nri.mux import frames


def test_a_frame_has_connection_length_and_payload() -> None:
    assert frames.pack(3, b"abc") == b"\x00\x00\x00\x03\x00\x00\x00\x03abc"


def test_connection_0_is_reserved() -> None:
    with pytest.raises(LocalProtocolError, match="ConnID 0 is reserved"):
        frames.pack(0, b"")


def test_the_limit_of_a_frame_is_a_complete_ttrpc_message() -> None:
    assert len(frames.pack(1, bytes(frames.MAX_PAYLOAD))) == frames.MAX_PAYLOAD + frames.HEADER_LENGTH
    with pytest.raises(LocalProtocolError, match="frame payload 4194315 bytes, maximum is 4194314"):
        frames.pack(1, bytes(frames.MAX_PAYLOAD + 1))


def test_a_message_that_two_frames_cannot_hold_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="message 4198411 bytes, maximum is 4194314"):
        frames.cut(1, bytes(frames.MAX_PAYLOAD + frames.MAX_FIRST_FRAME + 1))
