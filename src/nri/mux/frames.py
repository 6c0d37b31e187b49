"""Mux frames as bytes: an 8-byte header (connection id, payload length; both uint32, big-endian), then the payload.

The rule that keeps Go peers alive: the first frame of a message has at most 4096 bytes and a second frame has the rest.
A longer first frame does not fit into the read buffer of a Go peer, which then stops reading. Many small frames
overflow its queue of 256 frames.
"""

from __future__ import annotations

from struct import Struct

from nri.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The length of a frame's header in bytes.
HEADER_LENGTH: Final = 8
#: The longest payload of one frame in bytes: a ttRPC message of 4 MiB and its header.
MAX_PAYLOAD: Final = 10 + (4 << 20)
#: The size of the buffer into which a Go peer reads the start of a message, in bytes.
MAX_FIRST_FRAME: Final = 4096

#: Encode a header from connection id and payload length.
pack_header: Final = Struct(">II").pack
#: Decode connection id and payload length from bytes at an offset.
unpack_header: Final = Struct(">II").unpack_from


def pack(conn_id: int, payload: bytes) -> bytes:
    """Encode a frame. Use `cut` for messages."""
    if conn_id == 0:
        raise LocalProtocolError("ConnID 0 is reserved")
    if len(payload) > MAX_PAYLOAD:
        raise LocalProtocolError(f"frame payload {len(payload)} bytes, maximum is {MAX_PAYLOAD}")
    return pack_header(conn_id, len(payload)) + payload


def cut(conn_id: int, *message: bytes) -> bytes:
    """Encode a message: in one frame up to 4096 bytes, else in a frame of 4096 bytes and a frame with the rest.

    The message may come in pieces.
    """
    if conn_id == 0:
        raise LocalProtocolError("ConnID 0 is reserved")
    joined = b"".join(message)  # no copy for a single piece
    length = len(joined)
    if length <= MAX_FIRST_FRAME:
        return pack_header(conn_id, length) + joined
    if length - MAX_FIRST_FRAME > MAX_PAYLOAD:
        raise LocalProtocolError(f"message {length} bytes, maximum is {MAX_PAYLOAD}")
    view = memoryview(joined)
    begin, second = pack_header(conn_id, MAX_FIRST_FRAME), pack_header(conn_id, length - MAX_FIRST_FRAME)
    return b"".join((begin, view[:MAX_FIRST_FRAME], second, view[MAX_FIRST_FRAME:]))
