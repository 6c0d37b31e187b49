"""ttRPC frames: a 10-byte header (data length, stream id, type, flags; big-endian) and the data.

The data has at most 4 MiB. The data of a longer frame is dropped as it comes, and the frame is reported without data,
so that only its stream fails.
"""

from __future__ import annotations

from struct import Struct

from nri.errors import OversizedMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The length of a frame's header in bytes.
HEADER_LENGTH: Final = 10
#: The longest data of a frame in bytes, without the header.
MAX_DATA: Final = 4 << 20

# Chunks of at least this many bytes are stored without a copy.
_MIN_BIG_CHUNK: Final = 16384

#: Message types.
REQUEST, RESPONSE, DATA = 1, 2, 3
#: Flags: the sender will not send more; it will send more on this stream; there is no data.
REMOTE_CLOSED, REMOTE_OPEN, NO_DATA = 1, 2, 4

#: Encode a header from data length, stream id, message type and flags.
pack_header: Final = Struct(">IIBB").pack
#: Decode data length, stream id, message type and flags from bytes at an offset.
unpack_header: Final = Struct(">IIBB").unpack_from


def pack(stream_id: int, kind: int, data: bytes, flags: int = 0) -> bytes:
    """Encode a frame. Raises OversizedMessage for more than 4 MiB of data."""
    length = len(data)
    if length > MAX_DATA:
        raise OversizedMessage(length, MAX_DATA)
    return pack_header(length, stream_id, kind, flags) + data


class FrameReader:
    """Joins chunks of a logical connection to frames. Buffers at most one frame of 4 MiB."""

    __slots__ = ("_header", "_header_part", "_missing", "between", "data")

    def __init__(self) -> None:
        self._header_part = b""  # the start of a header
        self._header: tuple[int, int, int, int] | None = None  # the header of the frame whose data is incomplete
        #: The received part of its data. Big chunks are stored as they came, small chunks joined, because a peer may
        #: send single bytes.
        self.data: list[bytes | bytearray] = []
        self._missing = 0
        #: Whether the next byte begins a frame.
        self.between = True

    def receive(self, chunk: bytes) -> list[tuple[int, int, int, bytes | None, int]]:
        """Return (stream id, type, flags, data, length) of each complete frame; data is None if it was too long."""
        end = len(chunk)
        header = self._header
        if self.between and end >= HEADER_LENGTH:
            length, stream_id, kind, flags = unpack_header(chunk)
            if end == HEADER_LENGTH + length:  # one frame, the usual case
                return [(stream_id, kind, flags, chunk[HEADER_LENGTH:] if length <= MAX_DATA else None, length)]
        out: list[tuple[int, int, int, bytes | None, int]] = []
        position = 0
        if header is not None:
            take = min(self._missing, end)
            if header[0] <= MAX_DATA:
                self._start_pause_process(chunk if take == end else chunk[:take])
            self._missing -= take
            if self._missing:
                return out  # not between frames, as before
            length, stream_id, kind, flags = header
            out.append((stream_id, kind, flags, b"".join(self.data) if length <= MAX_DATA else None, length))
            self._header = None
            self.data = []
            position = take
        elif self._header_part:
            chunk = self._header_part + chunk
            self._header_part = b""
            end = len(chunk)
        while end - position >= HEADER_LENGTH:
            length, stream_id, kind, flags = unpack_header(chunk, position)
            position += HEADER_LENGTH
            stop = position + length
            if stop > end:
                self._header = (length, stream_id, kind, flags)
                self._missing = stop - end
                if length <= MAX_DATA:
                    self._start_pause_process(chunk[position:])
                self.between = False
                return out
            out.append((stream_id, kind, flags, chunk[position:stop] if length <= MAX_DATA else None, length))
            position = stop
        if position < end:
            self._header_part = chunk[position:]
        self.between = position == end
        return out

    def _start_pause_process(self, chunk: bytes) -> None:
        """Store a chunk of an incomplete frame."""
        data = self.data
        if len(chunk) >= _MIN_BIG_CHUNK:
            data.append(chunk)
        elif data and isinstance(data[-1], bytearray):
            data[-1] += chunk
        else:
            data.append(bytearray(chunk))
