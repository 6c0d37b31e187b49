"""Decode captured bytes of NRI or ttRPC. No input causes an error.

Broken bytes become a frame too, and decoding continues at the next bytes that look like a frame. The payloads of mux
frames are joined per connection, so a ttRPC message may begin in one mux frame and end in another.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from nri.errors import CODE_NAMES, RemoteProtocolError
from nri.mux import frames as mux
from nri.trace.catalog import parse, raw_fields
from nri.ttrpc import frames
from nri.ttrpc.envelope import decode_request, decode_response

if TYPE_CHECKING:
    from nri.trace.catalog import Catalog, Method

_KINDS = {frames.REQUEST: "request", frames.RESPONSE: "response", frames.DATA: "data"}
_WAYS = {1: "the runtime calls the plugin", 2: "the plugin calls the runtime"}

#: A frame, or broken bytes, as a dictionary. It always has ``offset`` and ``kind`` (mux, request, response, data,
#: broken), and if known ``connection``, ``length``, ``stream``, ``flags``, ``service``, ``method``, ``message``,
#: ``problem`` and other keys.
Frame = dict[str, Any]


class _Stream:
    """The pending bytes of a logical connection, with the offset of each piece in the input."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces: list[tuple[int, int]] = []  # (position in `data`, offset in the input)

    def add(self, payload: bytes, offset: int) -> None:
        self.pieces.append((len(self.data), offset))
        self.data += payload

    def offset(self, position: int) -> int:
        """Return the offset in the input of a position in `data`."""
        begin, offset = next(piece for piece in reversed(self.pieces) if piece[0] <= position)
        return offset + position - begin

    def drop(self, length: int) -> None:
        """Remove the first bytes."""
        next_offset = self.offset(length) if length < len(self.data) else 0
        later = [(begin - length, offset) for begin, offset in self.pieces if begin > length]
        del self.data[:length]
        self.pieces = [(0, next_offset), *later] if self.data else []


class Dissector:
    """Decodes a capture. `assume` is the method of responses whose request is not in the capture."""

    def __init__(self, catalog: Catalog, assume: Method | None = None) -> None:
        self.found: list[Frame] = []
        self._catalog = catalog
        self._assume = assume
        self._streams: dict[int, _Stream] = {}
        self._calls: dict[tuple[int, int], Method | None] = {}

    def run(self, data: bytes, *, with_mux: bool | None = None) -> list[Frame]:
        """Return all frames in the order of the input. With `with_mux` None, the first bytes decide."""
        if with_mux is None:
            with_mux = begins_with_mux(data)
        if with_mux:
            self._mux(data)
        else:
            self._add_payload(0, data, 0)
        for conn, stream in self._streams.items():
            if stream.data:
                self._add_broken_frame(
                    stream.offset(0), f"{len(stream.data)} bytes of an incomplete ttRPC message", conn
                )
        self.found.sort(key=lambda frame: frame["offset"])
        return self.found

    def _mux(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            head = data[position : position + mux.HEADER_LENGTH]
            if len(head) < mux.HEADER_LENGTH:
                self._add_broken_frame(position, f"{len(head)} bytes of an incomplete mux header")
                return
            conn, length = struct.unpack(">II", head)
            if not looks_like_mux(data, position):
                position = self._next_frame_position(
                    data, position, f"not a mux frame (connection {conn}, {length} bytes)"
                )
                continue
            payload = data[position + 8 : position + 8 + length]
            self.found.append({"offset": position, "kind": "mux", "connection": conn, "length": length})
            self._add_payload(conn, payload, position + 8)
            if len(payload) < length:
                self._add_broken_frame(
                    position, f"the mux frame announces {length} bytes; {len(payload)} are present", conn
                )
            position += 8 + length

    def _next_frame_position(self, data: bytes, position: int, reason: str) -> int:
        """Return the next position that looks like a mux frame, and add a frame for the bytes before it."""
        for place in range(position + 1, len(data) - mux.HEADER_LENGTH + 1):
            if data[place : place + 3] == b"\0\0\0" and looks_like_mux(data, place, strict=True):
                self._add_broken_frame(position, f"{reason}; {place - position} bytes left out")
                return place
        self._add_broken_frame(position, f"{reason}; the remaining {len(data) - position} bytes left out")
        return len(data)

    def _add_payload(self, conn: int, payload: bytes, offset: int) -> None:
        stream = self._streams.setdefault(conn, _Stream())
        stream.add(payload, offset)
        while len(stream.data) >= frames.HEADER_LENGTH:
            length, stream_id, kind, flags = struct.unpack(">IIBB", stream.data[: frames.HEADER_LENGTH])
            if length > frames.MAX_DATA or kind not in _KINDS:
                reason = f"not a ttRPC header: {length} bytes of type {kind}"
                self._add_broken_frame(stream.offset(0), f"{reason}; {len(stream.data)} bytes left out", conn)
                stream.drop(len(stream.data))
                return
            if len(stream.data) < frames.HEADER_LENGTH + length:
                return
            body = bytes(stream.data[frames.HEADER_LENGTH : frames.HEADER_LENGTH + length])
            self._message(conn, stream.offset(0), stream_id, kind, flags, body)
            stream.drop(frames.HEADER_LENGTH + length)

    def _message(self, conn: int, offset: int, stream_id: int, kind: int, flags: int, body: bytes) -> None:
        frame: Frame = {"offset": offset, "kind": _KINDS[kind], "connection": conn, "stream": stream_id, "flags": flags}
        frame["length"] = len(body)
        self.found.append(frame)
        try:
            if kind == frames.REQUEST:
                self._request(frame, body)
            elif kind == frames.RESPONSE:
                self._response(frame, body)
            else:
                frame["message"], _ = raw_fields(body)
        except RemoteProtocolError as error:
            frame["problem"] = f"not a ttRPC {_KINDS[kind]}: {error.reason}"
            frame["message"] = body.hex()

    def _request(self, frame: Frame, body: bytes) -> None:
        request = decode_request(body)
        method = self._catalog.find(request.service, request.method)
        self._calls[frame["connection"], frame["stream"]] = method
        frame |= {"service": request.service, "method": request.method}
        if request.timeout_ns:
            frame["timeout_s"] = request.timeout_ns / 1e9
        if request.metadata:
            frame["metadata"] = [list(pair) for pair in request.metadata]
        self._payload(frame, method.request if method else None, request.payload)

    def _response(self, frame: Frame, body: bytes) -> None:
        response = decode_response(body)
        method = self._calls.get((frame["connection"], frame["stream"]), self._assume)
        if method is not None:
            frame |= {"service": method.service, "method": method.name}
        if response.code:
            name = CODE_NAMES[response.code] if response.code < len(CODE_NAMES) else str(response.code)
            frame["status"] = {"code": response.code, "name": name, "message": response.message}
            return
        self._payload(frame, method.reply if method else None, response.payload)

    def _payload(self, frame: Frame, kind: Any, payload: bytes) -> None:
        if kind is None:
            frame["fields"], problem = raw_fields(payload)
        else:
            frame["type"] = kind.DESCRIPTOR.name
            frame["message"], problem = parse(kind, payload)
        if problem:
            frame["problem"] = problem

    def _add_broken_frame(self, offset: int, problem: str, conn: int | None = None) -> None:
        frame: Frame = {"offset": offset, "kind": "broken", "problem": problem}
        self.found.append(frame if conn is None else frame | {"connection": conn})


def begins_with_mux(data: bytes) -> bool:
    """Whether a capture has NRI's mux headers, and is not plain ttRPC."""
    plain = len(data) >= frames.HEADER_LENGTH and data[8] in _KINDS and data[9] < 8
    return looks_like_mux(data, 0, strict=True) or (looks_like_mux(data, 0) and not plain)


def looks_like_mux(data: bytes, position: int, *, strict: bool = False) -> bool:
    """Whether the bytes are a mux header: a small connection id, a valid length; if strict, also a ttRPC header."""
    if len(data) - position < mux.HEADER_LENGTH:
        return False
    conn, length = struct.unpack_from(">II", data, position)
    if not 0 < conn <= 16 or length > mux.MAX_PAYLOAD:
        return False
    if not strict:
        return True
    return length >= frames.HEADER_LENGTH and len(data) - position >= 18 and data[position + 16] in _KINDS


def way_of(conn: int) -> str:
    """Describe what a connection of the multiplexer carries."""
    return _WAYS.get(conn, "not one of NRI's")
