"""Replies that the peer was not ready to read at once: a thread writes them, for as long as there are any.

A thread that reads has no time to wait for the peer: others wait for what it reads. And that a write would have to wait
does not say that the peer is dead: it may be stopped for a moment, or another thread of ours may be in the middle of a
write on a busy machine. So such a reply is left here, and only `Link.reply_timeout_s` ends a connection. A peer that
sends requests and reads no replies fills no memory: reading stops while too much is here.
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

__all__ = ["Outbox"]

#: So many replies, or bytes, stop the reading of requests.
ROOM_FRAMES: Final = 256
ROOM_BYTES: Final = 1 << 20


class Outbox:
    """The late replies of one connection."""

    __slots__ = ("_frames", "_link", "_lock", "_size_bytes", "_writing")

    def __init__(self, link: Link) -> None:
        self._link = link
        self._frames: deque[tuple[bytes, float]] = deque()
        self._size_bytes = 0
        self._writing = False
        self._lock = allocate_lock()

    def put(self, frame: bytes, deadline: float) -> None:
        """Have a frame written; an empty one means the rest of one that was written in part."""
        with self._lock:
            self._frames.append((frame, deadline))
            self._size_bytes += len(frame)
            if len(self._frames) >= ROOM_FRAMES or self._size_bytes >= ROOM_BYTES:
                self._link.full.add(self)
            begin = not self._writing
            self._writing = True
        if begin:
            try:
                Thread(target=self._write, name="ttrpc-outbox", daemon=True).start()
            except RuntimeError:  # no threads are left for now: the next late reply tries again
                self._writing = False

    def _write(self) -> None:
        """Write until nothing is left."""
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
                room = len(self._frames) <= ROOM_FRAMES // 2 and self._size_bytes <= ROOM_BYTES // 2
            if room:
                self._link.make_room(self)

    def _write_one(self, frame: bytes, deadline: float) -> None:
        """Write one frame, or end the connection."""
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
        except Exception as error:  # noqa: BLE001 - else the frames after it would wait for ever
            link.fail(f"closed (a reply could not be written: {error})")
