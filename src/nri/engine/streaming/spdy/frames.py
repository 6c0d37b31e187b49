"""SPDY frames: bytes in any pieces become control frames and pieces of data, and back.

A control frame is kept until it is whole, so its length is bounded; of a data frame nothing is kept, its payload
is handed on as it comes. Source: the SPDY/3.1 draft, section 2.2.
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
#: The largest control frame that is taken, in bytes; those of Kubernetes are below 200.
CONTROL_LIMIT: Final = 16384

_VERSION: Final = 3
_HEAD: Final = struct.Struct("!II")
_CONTROL: Final = 1 << 31


class Control(NamedTuple):
    """A whole control frame."""

    kind: int
    flags: int
    payload: bytes

    def number(self, at: int) -> int:
        """The 32-bit number at an offset of the payload. Raises RemoteProtocolError if the frame is too short."""
        if len(self.payload) < at + 4:
            raise RemoteProtocolError(f"SPDY control frame {self.kind} of {len(self.payload)} bytes is too short")
        return int.from_bytes(self.payload[at : at + 4], "big")

    def stream(self) -> int:
        """The stream that the frame is about."""
        return self.number(0) & ~_CONTROL


class Payload(NamedTuple):
    """A piece of a data frame. `fin`: it is the last one of its stream."""

    stream: int
    data: bytes
    fin: bool


class FrameReader:
    """Cuts what comes from a peer into frames. Raises RemoteProtocolError, after which it is of no more use."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._stream = self._left = 0
        self._fin = False

    def receive(self, data: bytes) -> Iterator[Control | Payload]:
        """Take bytes; yields what they complete, in order."""
        kept = self._kept
        kept += data
        while kept:
            if self._left:
                yield self._piece()
                continue
            if len(kept) < 8:
                return
            first, second = _HEAD.unpack_from(kept)
            flags, length = second >> 24, second & 0xFFFFFF
            if not first & _CONTROL:
                del kept[:8]
                self._stream, self._left, self._fin = first, length, bool(flags & FIN)
                if not length:
                    yield Payload(first, b"", self._fin)
                continue
            if first >> 16 & 0x7FFF != _VERSION:
                raise RemoteProtocolError(f"SPDY version {first >> 16 & 0x7FFF}, not {_VERSION}")
            if length > CONTROL_LIMIT:
                raise RemoteProtocolError(f"SPDY control frame of {length} bytes, at most {CONTROL_LIMIT} are taken")
            if len(kept) < 8 + length:
                return
            frame = Control(first & 0xFFFF, flags, bytes(kept[8 : 8 + length]))
            del kept[: 8 + length]
            yield frame

    def _piece(self) -> Payload:
        data = bytes(self._kept[: self._left])
        del self._kept[: self._left]
        self._left -= len(data)
        return Payload(self._stream, data, self._fin and not self._left)


def control(kind: int, *numbers: int, rest: bytes = b"", flags: int = 0) -> bytes:
    """A control frame of 32-bit numbers and more bytes."""
    payload = b"".join(number.to_bytes(4, "big") for number in numbers) + rest
    return _HEAD.pack(_CONTROL | _VERSION << 16 | kind, flags << 24 | len(payload)) + payload


def data_frame(stream: int, data: bytes, *, fin: bool = False) -> bytes:
    """A data frame; `data` is shorter than 16 MiB."""
    return _HEAD.pack(stream, (FIN if fin else 0) << 24 | len(data)) + data
