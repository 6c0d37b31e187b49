"""Replies that the peer did not read at once. A thread writes them, as long as there are any.

A reading thread must not wait for the peer, because other threads wait for the messages that it reads. A write that
would wait does not mean that the peer is dead: it may be stopped for a moment, or another of our threads may be in the
middle of a write on a busy machine. So such a reply is stored here, and only `Link.reply_timeout_s` ends a connection.
A peer that sends requests and does not read replies cannot fill memory: reading stops while too many replies wait.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from threading import Thread

from nri.errors import ConnectionClosed, DeadlineExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from nri.ttrpc.link import Link

#: Reading stops when this many replies wait.
MAX_WAITING_FRAMES: Final = 256
#: Reading stops when replies of this many bytes wait.
MAX_WAITING_BYTES: Final = 1 << 20


class Outbox:
    """The waiting replies of a connection."""

    __slots__ = ("_frames", "_link", "_lock", "_size_bytes", "_writing")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._frames: deque[tuple[bytes, float]] = deque()
        self._size_bytes = 0
        self._writing = False
        self._lock = allocate_lock()

    def put(self, frame: bytes, deadline: float) -> None:
        """Add a frame to write. An empty frame stands for the rest of a partly written frame."""
        with self._lock:
            self._frames.append((frame, deadline))
            self._size_bytes += len(frame)
            if len(self._frames) >= MAX_WAITING_FRAMES or self._size_bytes >= MAX_WAITING_BYTES:
                self._link.full.add(self)
            begin = not self._writing
            self._writing = True
        if begin:
            try:
                Thread(target=self._write, name="ttrpc-outbox", daemon=True).start()
            except RuntimeError:  # no thread could be started: the next waiting reply tries again
                self._writing = False

    def _write(self) -> None:
        """Write all frames."""
        while True:
            with self._lock:
                if not self._frames:
                    self._writing = False
                    return
                frame, deadline = self._frames[0]
            self._write_one(frame, deadline)
            with self._lock:
                self._frames.popleft()
                self._size_bytes -= len(frame)
                room = len(self._frames) <= MAX_WAITING_FRAMES // 2 and self._size_bytes <= MAX_WAITING_BYTES // 2
            if room:
                self._link.make_room(self)

    def _write_one(self, frame: bytes, deadline: float) -> None:
        """Write a frame, or end the connection."""
        link = self._link
        try:
            if not link.wait_to_send(deadline):
                raise DeadlineExceeded("the peer to read")
            try:
                if link.closed is None and frame:
                    link.transport.send(link.server_id, [frame], deadline)
                elif link.closed is None:
                    link.transport.flush(deadline)
            finally:
                link.sender.release()
        except ConnectionClosed as error:
            link.fail(error.reason)
        except DeadlineExceeded:
            link.fail("closed (the peer does not read its replies)")
        except Exception as error:  # noqa: BLE001 - otherwise later frames would wait for ever
            link.fail(f"closed (a reply could not be written: {error})")
