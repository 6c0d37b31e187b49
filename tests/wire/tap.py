"""A tap on a unix socket: passes bytes on both ways and keeps them, cut into messages and paired by stream.

It reads the wire with code of its own, on purpose: what it keeps is what the implementation under test must read.
"""

import contextlib
import socket
import struct
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.wire.frames import Frame


@dataclass(slots=True)
class Exchange:
    """One call: the frames of its request, and of its answer if there was one."""

    service: str
    method: str
    request: list[Frame]
    reply: list[Frame] = field(default_factory=list)


class Tap:
    """Listens at `path` for one connection and joins it to `upstream`. The one that connects is called `caller`."""

    def __init__(self, path: Path, upstream: Path, caller: str, callee: str, *, mux: bool = True) -> None:
        self._upstream = upstream
        self._mux = mux
        self._bytes = {f"{caller}->{callee}": bytearray(), f"{callee}->{caller}": bytearray()}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._threads = [threading.Thread(target=self._join, daemon=True)]
        self._threads[0].start()

    def _join(self) -> None:
        local, _ = self._listener.accept()
        remote = socket.socket(socket.AF_UNIX)
        remote.connect(str(self._upstream))
        forth, back = self._bytes.values()
        other = threading.Thread(target=_copy, args=(remote, local, back), daemon=True)
        self._threads.append(other)
        other.start()
        _copy(local, remote, forth)

    def close(self) -> None:
        """Wait until both sides have closed."""
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def exchanges(self) -> list[Exchange]:
        """All calls, in the order in which they were made on each connection."""
        replies: dict[tuple[str, int, int], list[Frame]] = {}
        requests: list[tuple[tuple[str, int, int], list[Frame]]] = []
        for direction, data in self._bytes.items():
            for conn, frames in self._messages(direction, bytes(data)):
                stream, kind = struct.unpack_from(">IB", frames[0].data, 4 + 8 * self._mux)
                if kind == 1:
                    requests.append(((direction, conn, stream), frames))
                else:
                    replies[(direction, conn, stream)] = frames
        matches = []
        for (direction, conn, stream), frames in requests:
            service, method = _names(b"".join(frame.data[8 * self._mux :] for frame in frames)[10:])
            back = direction[3] + "->" + direction[0]
            matches.append(Exchange(service, method, frames, replies.get((back, conn, stream), [])))
        return matches

    def _messages(self, direction: str, data: bytes) -> list[tuple[int, list[Frame]]]:
        """Cut one direction into messages: each is its connection and its frames."""
        messages: list[tuple[int, list[Frame]]] = []
        missing: defaultdict[int, int] = defaultdict(int)
        open_: dict[int, list[Frame]] = {}
        at = 0
        while at < len(data):
            conn, length = struct.unpack_from(">II", data, at) if self._mux else (0, 10 + _length(data, at))
            frame = Frame(direction, data[at : at + 8 * self._mux + length])
            if not missing[conn]:
                missing[conn] = 10 + _length(frame.data, 8 * self._mux)
                open_[conn] = []
                messages.append((conn, open_[conn]))
            open_[conn].append(frame)
            missing[conn] -= length
            at += len(frame.data)
        return messages


def _length(data: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">I", data, at)
    return int(length)


def _names(request: bytes) -> tuple[str, str]:
    """Service and method: the first two fields, both shorter than 128 bytes."""
    texts = []
    at = 0
    for _ in range(2):
        size = request[at + 1]
        texts.append(request[at + 2 : at + 2 + size].decode())
        at += 2 + size
    return texts[0], texts[1]


def _copy(source: socket.socket, target: socket.socket, record: bytearray) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 20):
            record += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
