"""Mux frames as bytes: 8-byte header (connection id, payload length; both uint32, big-endian), then the payload.

The rule that keeps Go peers alive: the first frame of a message holds at most 4096 bytes and one second frame holds all
the rest. A longer first frame does not fit the buffer that a Go peer reads through, and its connection goes deaf; many
small frames overflow its queue of 256. Reading has no such rule: see `nri.mux.demux`.
"""

from __future__ import annotations

from struct import Struct

from nri.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["FIRST_FRAME", "HEADER_LENGTH", "MAX_PAYLOAD", "cut", "pack", "pack_header", "unpack_header"]

#: Length of a frame's header in bytes.
HEADER_LENGTH: Final = 8
#: The longest payload of one frame in bytes: a ttRPC message of 4 MiB and its header.
MAX_PAYLOAD: Final = 10 + (4 << 20)
#: A Go peer reads the start of a message through a buffer of this many bytes.
FIRST_FRAME: Final = 4096

#: A header as bytes: of connection id and payload length.
pack_header: Final = Struct(">II").pack
#: The same two numbers, of the bytes of a frame, from an offset.
unpack_header: Final = Struct(">II").unpack_from


def pack(conn_id: int, payload: bytes) -> bytes:
    """One frame, whatever it holds. For whole messages use `cut`."""
    if conn_id == 0:
        raise LocalProtocolError("ConnID 0 is reserved")
    if len(payload) > MAX_PAYLOAD:
        raise LocalProtocolError(f"frame payload {len(payload)} bytes, maximum is {MAX_PAYLOAD}")
    return pack_header(conn_id, len(payload)) + payload


def cut(conn_id: int, *message: bytes) -> bytes:
    """The frames of one message, joined: one frame up to 4096 bytes, else one of 4096 and one with the rest.

    The message may come in pieces.
    """
    if conn_id == 0:
        raise LocalProtocolError("ConnID 0 is reserved")
    whole = b"".join(message)  # of one piece that is no copy
    length = len(whole)
    if length <= FIRST_FRAME:
        return pack_header(conn_id, length) + whole
    if length - FIRST_FRAME > MAX_PAYLOAD:
        raise LocalProtocolError(f"message {length} bytes, maximum is {MAX_PAYLOAD}")
    view = memoryview(whole)
    begin, rest = pack_header(conn_id, FIRST_FRAME), pack_header(conn_id, length - FIRST_FRAME)
    return b"".join((begin, view[:FIRST_FRAME], rest, view[FIRST_FRAME:]))
