"""The messages that a stream has received and its user has not taken: bounded, filled by the thread that reads.

Flow: ttRPC has no word for "not so fast" but not reading. So an inbox that holds too much stops the reading of its
whole connection, until half of it is taken; the peer's writes wait meanwhile, as with the reference's libraries. What
was read at one time is always taken in, so an inbox may hold a little more than its bounds, up to one message of 4 MiB.

A thread that takes from an empty inbox reads the connection itself, if no other thread does, as a caller does. The
streams that people use are in `nri.ttrpc.services.streams`.
"""

from __future__ import annotations

from _thread import RLock, allocate_lock
from collections import deque
from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError
from nri.signals import check_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.ttrpc.answering import Answerer
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.halves import Data
    from nri.ttrpc.link import Link

__all__ = ["ROOM_BYTES", "ROOM_MESSAGES", "Inbox"]

#: An inbox that holds so many messages, or bytes, stops the reading of its connection.
ROOM_MESSAGES = 256
ROOM_BYTES = 1 << 20


class Inbox:
    """The messages of one stream.

    Attributes:
        over: the peer's half has ended; what is here may still be taken.
        error: why the stream has failed, or None.
    """

    __slots__ = (
        "_answerer",
        "_full",
        "_latch",
        "_link",
        "_lock",
        "_single",
        "_waiting",
        "error",
        "messages",
        "over",
        "size_bytes",
    )  # fmt: skip

    def __init__(self, link: Link, answerer: Answerer, *, single: bool = False) -> None:
        """`single`: the peer sends one message, as its response; else a response without one only ends the stream."""
        self._link = link
        self._answerer = answerer
        self._single = single
        self.messages: deque[bytes] = deque()
        self.size_bytes = 0
        self._full = False
        self._lock = RLock()  # of what is held; the collector may drop a stream anywhere
        self._latch = allocate_lock()  # released to wake the thread that waits
        self._latch.acquire()
        self._waiting = False
        self.over = False
        self.error: RpcError | None = None

    # -- for the thread that reads the connection ----------------------------------------------------------------------

    @property
    def response(self) -> Response | None:
        """The response that ends the stream, under the name that other waiters have for theirs."""
        return None

    @response.setter
    def response(self, response: Response) -> None:
        if response.code:
            self.error = RpcError(response.code, response.message)
        elif self._single or response.payload:
            self._put(response.payload)
        self._end()

    def arrived(self, data: Data) -> None:
        """Take in a message, or the end of the peer's half."""
        if data.payload is not None:
            self._put(data.payload)
        if data.last:
            self._end()
        self.nudge()

    def _end(self) -> None:
        """Note that nothing more will come, so there is nothing to hold up."""
        with self._lock:
            self.over, self._full = True, False
        self._link.make_room(self)

    def _put(self, message: bytes) -> None:
        with self._lock:
            if self.over:
                return  # dropped: no thread will take it
            self.messages.append(message)
            self.size_bytes += len(message)
            if len(self.messages) >= ROOM_MESSAGES or self.size_bytes >= ROOM_BYTES:
                self._full = True
                self._link.full.add(self)

    def wake(self) -> None:
        """Wake the thread that waits: the response is there, or the connection has ended."""
        self.nudge()

    def nudge(self) -> bool:
        """Have the thread that waits look again: perhaps no thread is reading now. False if none waits."""
        if not self._waiting:
            return False
        try:
            self._latch.release()
        except RuntimeError:
            pass  # woken already
        return True

    # -- for the thread that uses the stream ---------------------------------------------------------------------------

    def take(self, deadline: float | None) -> bytes | None:
        """Take the next message, or wait for it; None at the end of the peer's half.

        Raises RpcError if the stream has failed, DeadlineExceeded, ConnectionClosed.
        """
        if not (self.messages or self.over):
            self._wait(deadline)
        made_room = False
        message: bytes | None = None
        with self._lock:
            if self.messages:
                message = self.messages.popleft()
                self.size_bytes -= len(message)
                if self._full and len(self.messages) <= ROOM_MESSAGES // 2 and self.size_bytes <= ROOM_BYTES // 2:
                    self._full, made_room = False, True
        if made_room:
            self._link.make_room(self)
        if message is None and self.error is not None:
            raise RpcError(self.error.code, self.error.message)
        return message

    def drop(self) -> None:
        """Throw away what is here, because no thread will take it."""
        with self._lock:
            self.messages.clear()
            self.size_bytes, self._full, self.over = 0, False, True
        self._link.make_room(self)

    def _wait(self, deadline: float | None) -> None:
        """Read the connection, or wait while another thread does, until there is something to take."""
        link = self._link
        self._waiting = True  # before we look: a nudge from now on counts
        try:
            while not (self.messages or self.over):
                if link.closed is not None:
                    raise ConnectionClosed(link.closed)
                if link.reader.acquire(False):
                    self._read(deadline)
                    continue
                check_signals()
                left_s = -1.0 if deadline is None else max(0.0, deadline - monotonic())
                if not self._latch.acquire(timeout=left_s) and not (self.messages or self.over):
                    raise DeadlineExceeded("a message of the stream")
        finally:
            self._waiting = False
            if link.waiters and not link.reader.locked():
                link.hand_over()  # a wake-up meant for the thread that now leaves must not be lost

    def _read(self, deadline: float | None) -> None:
        """Read as the reader, and give up that role."""
        link = self._link
        watch = link.watch
        try:
            if watch is not None:
                watch.busy()
            while not (self.messages or self.over) and link.closed is None:
                link.await_room(deadline)
                self._answerer.dispatch(link.transport.receive(deadline))
        except (ConnectionClosed, ProtocolError) as error:
            link.fail(error.reason)
        except DeadlineExceeded:
            raise DeadlineExceeded("a message of the stream") from None
        finally:
            link.stop_reading(watch)
