"""A small websocket client for kubelet's exec, attach and port-forward: channels of bytes over one connection.

Rules: written from RFC 6455 and Kubernetes' ``channel.k8s.io`` protocol, not from what answers it here; the first byte
of each message names its channel; what is against the RFC is an error. Next: `node`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import socket
import struct
from types import TracebackType
from typing import Self

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_BINARY, _CLOSE, _PING, _PONG = 2, 8, 9, 10
_LONG, _LONGER = 126, 127


class RefusedError(Exception):
    """The server did not switch protocols; the text has its status and its words."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status = status


class WebSocket:
    """A connection that has been switched; `receive` gives (channel, bytes) until the server closes."""

    def __init__(self, connection: socket.socket, host: str, target: str, *protocols: str) -> None:
        self._connection = connection
        self._read = connection.makefile("rb")
        self.protocol = ""
        try:
            self._switch(host, target, protocols)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, without a word if the other side is gone."""
        with contextlib.suppress(OSError):
            self._frame(_CLOSE, struct.pack(">H", 1000))
        self._read.close()
        self._connection.close()

    def send(self, channel: int, data: bytes) -> None:
        """Send bytes on a channel."""
        self._frame(_BINARY, bytes([channel]) + data)

    def end(self, channel: int) -> None:
        """Say that no more bytes come on a channel (v5 only)."""
        assert self.protocol.startswith("v5"), f"{self.protocol} has no way to end one channel"
        self.send(CLOSE, bytes([channel]))

    def receive(self) -> tuple[int, bytes] | None:
        """The next message as its channel and bytes; None when the server closes. TimeoutError as the socket has it."""
        while True:
            kind, data = self._next_frame()
            if kind == _CLOSE:
                return None
            if kind == _PING:
                self._frame(_PONG, data)
            elif kind != _PONG:
                return data[0], data[1:]

    def _switch(self, host: str, target: str, protocols: tuple[str, ...]) -> None:
        """The opening handshake."""
        key = base64.b64encode(os.urandom(16))
        lines = (
            f"GET {target} HTTP/1.1",
            f"Host: {host}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key.decode()}",
            f"Sec-WebSocket-Protocol: {', '.join(protocols)}",
        )
        self._connection.sendall("\r\n".join((*lines, "", "")).encode())
        words = self._read.readline().decode().split(maxsplit=2)
        headers = {}
        while (line := self._read.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if words[1:2] != ["101"]:
            length = int(headers.get("content-length", "0"))
            raise RefusedError(int(words[1]), self._read.read(length).decode(errors="replace").strip())
        accept = base64.b64encode(hashlib.sha1(key + GUID, usedforsecurity=False).digest()).decode()
        assert headers.get("sec-websocket-accept") == accept, f"not an answer to our key: {headers}"
        self.protocol = headers.get("sec-websocket-protocol", "")
        assert self.protocol in protocols, f"the server chose {self.protocol!r}, offered were {protocols}"

    def _frame(self, kind: int, data: bytes) -> None:
        """Send one whole message; a client's are masked."""
        size = len(data)
        if size < _LONG:
            head = struct.pack(">BB", 0x80 | kind, 0x80 | size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | kind, 0x80 | _LONG, size)
        else:
            head = struct.pack(">BBQ", 0x80 | kind, 0x80 | _LONGER, size)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
        self._connection.sendall(head + mask + masked)

    def _next_frame(self) -> tuple[int, bytes]:
        """One message, put together from its fragments; an end without a closing frame is one, too."""
        kind, total = 0, b""
        while True:
            head = self._read.read(2)
            if len(head) < 2:
                return _CLOSE, b""
            assert not head[1] & 0x80, "a server's frames are not masked"
            assert not head[0] & 0x70, "no extension was agreed on"
            size = head[1] & 0x7F
            if size == _LONG:
                (size,) = struct.unpack(">H", self._read.read(2))
            elif size == _LONGER:
                (size,) = struct.unpack(">Q", self._read.read(8))
            data = self._read.read(size)
            if head[0] & 0x0F >= _CLOSE:
                return head[0] & 0x0F, data
            kind, total = kind or head[0] & 0x0F, total + data
            if head[0] & 0x80:
                return kind, total
