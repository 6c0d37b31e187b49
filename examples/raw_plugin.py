"""An NRI plugin with nothing but a socket: all that the protocol asks for, to be written in any language.

python raw_plugin.py /var/run/nri/nri.sock

It tells every container the name of its pod. A library does more: reconnecting, events of your own, updates.
"""

import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

PLUGIN, RUNTIME = 1, 2  # logical connections of the mux, by whose service is on them
REQUEST, RESPONSE = 1, 2  # types of ttRPC messages
CREATE_CONTAINER = 1 << (4 - 1)  # the bit of event 4


# -- protobuf: varints, and fields that are a varint or have a length


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(data: bytes) -> dict[int, Any]:
    """Field number -> its last value. (Enough here: no repeated field is read.)"""
    values: dict[int, Any] = {}
    position = 0

    def read() -> int:
        nonlocal position
        number = shift = 0
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while position < len(data):
        key = read()
        if key & 7 == 0:
            values[key >> 3] = read()
        elif key & 7 == 2:
            length = read()
            values[key >> 3] = data[position : position + length]
            position += length
        else:
            position += 8 if key & 7 == 1 else 4  # fixed64 and fixed32; NRI has none
    return values


# -- mux and ttRPC


class Wire:
    """One socket: messages in and out, each on a logical connection."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.sock.settimeout(5.0)  # until we are configured
        self.streams = {PLUGIN: b"", RUNTIME: b""}  # both are open from the start

    def send(self, conn: int, stream: int, kind: int, data: bytes) -> None:
        message = struct.pack(">IIBB", len(data), stream, kind, 0) + data
        frames = b""
        for part in (message[:4096], message[4096:]):  # the rule of 4096 bytes
            if part:
                frames += struct.pack(">II", conn, len(part)) + part
        self.sock.sendall(frames)

    def messages(self) -> Iterator[tuple[int, int, int, bytes]]:
        """(connection, stream, type, data) of every message, until the connection ends."""
        while head := self.read(8):
            conn, length = struct.unpack(">II", head)
            if length > 10 + (4 << 20):
                raise ConnectionError(f"frame of {length} bytes")
            payload = self.read(length)
            if conn not in self.streams:
                continue  # not open: dropped
            self.streams[conn] += payload
            while len(buffer := self.streams[conn]) >= 10:
                size, stream, kind, _ = struct.unpack(">IIBB", buffer[:10])
                if len(buffer) < 10 + size:
                    break
                self.streams[conn] = buffer[10 + size :]
                yield conn, stream, kind, buffer[10 : 10 + size]

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = self.sock.recv(length - len(data))
            if not piece:
                return b""
            data += piece
        return data


# -- NRI


def answer(method: str, payload: bytes) -> bytes | None:
    """The reply to one request; None for a method that we do not know."""
    request = fields(payload)
    if method == "Configure":
        return field(2, CREATE_CONTAINER)  # events; never 0
    if method == "Synchronize":
        return field(2, 1) if request.get(3) else b""  # more: echoed
    if method == "CreateContainer":
        pod = fields(request[1])
        variable = field(1, "POD_NAME") + field(2, pod.get(2, b""))  # KeyValue
        return field(1, field(4, variable))  # adjust.env
    if method in ("Shutdown", "StateChange"):
        return b""
    return None


def run(path: str) -> None:
    """Register, then answer until the runtime goes away."""
    wire = Wire(path)
    registration = field(1, "raw") + field(2, "10") + field(3, "v0.12.5")
    envelope = field(1, "nri.pkg.api.v1alpha1.Runtime") + field(2, "RegisterPlugin") + field(3, registration)
    wire.send(RUNTIME, 1, REQUEST, envelope + field(4, 5_000_000_000))
    for conn, stream, kind, data in wire.messages():
        message = fields(data)
        if conn == RUNTIME and kind == RESPONSE:
            if 1 in message:  # a status: we are refused
                raise SystemExit(f"refused: {fields(message[1]).get(2, b'').decode()}")
        elif conn == PLUGIN and kind == REQUEST:
            method = message[2].decode()
            reply = answer(method, message.get(3, b""))
            if reply is None:
                status = field(1, 12) + field(2, f"method {method}")
                wire.send(PLUGIN, stream, RESPONSE, field(1, status))
            else:
                wire.send(PLUGIN, stream, RESPONSE, field(2, reply) if reply else b"")
            if method == "Configure":
                wire.sock.settimeout(None)


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "/var/run/nri/nri.sock")
