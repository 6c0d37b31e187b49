"""SPDY frames: parse a stream of bytes into frames, and build frames.

A control frame is stored until it is complete, so its length is limited. The bytes of a data frame are returned as they
arrive.
Source: the SPDY/3.1 draft, section 2.2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from nri.errors import RemoteProtocolError

SYN_STREAM: Final = 1
SYN_REPLY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PING: Final = 6
GOAWAY: Final = 7
HEADERS: Final = 8
WINDOW_UPDATE: Final = 9

FIN: Final = 1
UNIDIRECTIONAL: Final = 2

PROTOCOL_ERROR: Final = 1
INVALID_STREAM: Final = 2
REFUSED_STREAM: Final = 3
CANCEL: Final = 5
INTERNAL_ERROR: Final = 6

#: The initial window of a stream and of a connection, in bytes.
WINDOW: Final = 65536
#: The maximum length of a control frame in bytes. The control frames of Kubernetes are shorter than 200 bytes.
MAX_CONTROL_BYTES: Final = 16384

_VERSION: Final = 3
_HEAD: Final = struct.Struct("!II")
_CONTROL: Final = 1 << 31


class Control(NamedTuple):
    """A complete control frame."""

    kind: int
    flags: int
    payload: bytes

    def number(self, offset: int) -> int:
        """The 32-bit number at an offset of the payload. Raises RemoteProtocolError if the frame is too short."""
        if len(self.payload) < offset + 4:
            raise RemoteProtocolError(f"SPDY control frame {self.kind} of {len(self.payload)} bytes is too short")
        return int.from_bytes(self.payload[offset : offset + 4], "big")

    def stream(self) -> int:
        """The id of the frame's stream."""
        return self.number(0) & ~_CONTROL


class Payload(NamedTuple):
    """A part of a data frame. `fin` is true for the last part of a stream."""

    stream: int
    data: bytes
    fin: bool


class FrameReader:
    """A parser of the bytes of a peer. After a RemoteProtocolError it cannot be used again."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._stream = self._remaining = 0
        self._fin = False

    def receive(self, data: bytes) -> Iterator[Control | Payload]:
        """Read bytes of the peer and yield complete frames, in order."""
        buffer = self._buffer
        buffer += data
        while buffer:
            if self._remaining:
                yield self._payload_piece()
                continue
            if len(buffer) < 8:
                return
            first, second = _HEAD.unpack_from(buffer)
            flags, length = second >> 24, second & 0xFFFFFF
            if not first & _CONTROL:
                del buffer[:8]
                self._stream, self._remaining, self._fin = first, length, bool(flags & FIN)
                if not length:
                    yield Payload(first, b"", self._fin)
                continue
            if first >> 16 & 0x7FFF != _VERSION:
                raise RemoteProtocolError(f"SPDY version {first >> 16 & 0x7FFF}, not {_VERSION}")
            if length > MAX_CONTROL_BYTES:
                raise RemoteProtocolError(
                    f"SPDY control frame of {length} bytes, at most {MAX_CONTROL_BYTES} are allowed"
                )
            if len(buffer) < 8 + length:
                return
            frame = Control(first & 0xFFFF, flags, bytes(buffer[8 : 8 + length]))
            del buffer[: 8 + length]
            yield frame

    def _payload_piece(self) -> Payload:
        data = bytes(self._buffer[: self._remaining])
        del self._buffer[: self._remaining]
        self._remaining -= len(data)
        return Payload(self._stream, data, self._fin and not self._remaining)


def control(kind: int, *numbers: int, tail: bytes = b"", flags: int = 0) -> bytes:
    """Build a control frame: 32-bit numbers, then the bytes of `tail`."""
    payload = b"".join(number.to_bytes(4, "big") for number in numbers) + tail
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, flags << 24 | len(payload)) + payload


def data_frame(stream: int, data: bytes, *, fin: bool = False) -> bytes:
    """Build a data frame. `data` must be shorter than 16 MiB."""
    return _HEAD.pack(stream, (FIN if fin else 0) << 24 | len(data)) + data
