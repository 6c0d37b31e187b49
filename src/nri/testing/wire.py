"""A connection between two sockets with faults: it can delay, cut, corrupt, split or drop bytes in each direction.

    link = Link()
    runtime.add(plugin, link=link)
    link.to_plugin.cut_after(100)          # 100 more bytes arrive, then the connection ends

A fault applies from the moment when it is set, and counts the bytes after that. Close the link at the end, or use it as
a context manager.
"""

from __future__ import annotations

import socket
import threading
from time import sleep
from typing import Self


class Direction:
    """A direction of a link, with its faults, which may be combined.

    Attributes:
        passed: the number of bytes forwarded so far.
        dropped: the number of bytes dropped so far.
    """

    def __init__(self, name: str, source: socket.socket, target: socket.socket) -> None:
        self.passed = self.dropped = 0
        self._source, self._target = source, target
        self._lock = threading.Lock()
        self._delay_s = 0.0
        self._cut_at: int | None = None
        self._corrupt_at: dict[int, int] = {}
        self._piece = 0
        self._stops_reading = False
        self._thread = threading.Thread(target=self._forward_bytes, name=f"nri-link-{name}", daemon=True)

    def delay(self, seconds: float) -> None:
        """Delay all bytes by this many seconds."""
        self._delay_s = seconds

    def cut_after(self, count: int) -> None:
        """Close the connection in both directions after `count` more bytes."""
        with self._lock:
            self._cut_at = self.passed + count

    def corrupt(self, after: int, mask: int = 0xFF) -> None:
        """Change a byte after `after` more bytes. `mask` has the bits to flip."""
        with self._lock:
            self._corrupt_at[self.passed + after] = mask

    def split(self, size: int) -> None:
        """Forward bytes in pieces of at most `size` bytes. 0 ends that."""
        self._piece = size

    def drop(self, deaf: bool = True) -> None:
        """Drop all bytes. The sender does not notice it."""
        self._stops_reading = deaf

    def half_close(self) -> None:
        """Close only this direction."""
        _shut_down(self._target, socket.SHUT_WR)

    def _forward_bytes(self) -> None:
        while True:
            try:
                data = self._source.recv(65536)
            except OSError:
                break
            if not data:
                break
            if self._delay_s:
                sleep(self._delay_s)
            if self._stops_reading:
                self.dropped += len(data)
                continue
            with self._lock:
                data, ends = self._with_faults(data)
            try:
                for start in range(0, len(data), self._piece or len(data) or 1):
                    self._target.sendall(data[start : start + (self._piece or len(data))])
            except OSError:
                break
            if ends:
                _shut_down(self._source, socket.SHUT_RDWR)
                _shut_down(self._target, socket.SHUT_RDWR)
                return
        _shut_down(self._target, socket.SHUT_WR)

    def _with_faults(self, data: bytes) -> tuple[bytes, bool]:
        """Apply the faults to some bytes. Returns the bytes to forward, and whether the connection ends after them."""
        start, end = self.passed, self.passed + len(data)
        for place, mask in list(self._corrupt_at.items()):
            if start <= place < end:
                del self._corrupt_at[place]
                at = place - start
                data = data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]
        ends = self._cut_at is not None and end >= self._cut_at
        if ends and self._cut_at is not None:
            data = data[: self._cut_at - start]
        self.passed += len(data)
        return data, ends


class Link:
    """Two connected sockets with faults in between.

    Attributes:
        plugin, runtime: the sockets of the two sides; each is closed by the side that uses it.
        to_plugin, to_runtime: the two directions.
    """

    def __init__(self) -> None:
        self.plugin, near_plugin = socket.socketpair()
        self.runtime, near_runtime = socket.socketpair()
        self._inner = (near_plugin, near_runtime)
        self.to_plugin = Direction("to-plugin", near_runtime, near_plugin)
        self.to_runtime = Direction("to-runtime", near_plugin, near_runtime)
        for direction in (self.to_plugin, self.to_runtime):
            direction._thread.start()

    def cut(self) -> None:
        """Close the connection in both directions at once."""
        for sock in self._inner:
            _shut_down(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection, the threads, and all four sockets."""
        self.cut()
        for direction in (self.to_plugin, self.to_runtime):
            direction._thread.join(5.0)
        for sock in (*self._inner, self.plugin, self.runtime):
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shut_down(sock: socket.socket, how: int) -> None:
    try:
        sock.shutdown(how)
    except OSError:
        pass  # closed already
