"""The received messages of a stream that its user has not yet taken: bounded, filled by the reading thread.

Flow control: the only means that ttRPC has is not reading. So a full inbox stops the reading of its whole connection,
until half of the inbox is taken; the peer's writes wait meanwhile, as with Go's libraries. All messages of one read are
always stored, so an inbox may exceed its bounds by up to one message of 4 MiB. A thread that takes from an empty inbox
reads the connection itself, if no other thread does.
"""

from __future__ import annotations

from _thread import RLock, allocate_lock
from collections import deque
from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError
from nri.signals import check_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.ttrpc.answerer import Answerer
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.halves import Data
    from nri.ttrpc.link import Link

#: With this many messages, an inbox is full and stops the reading of its connection.
MAX_INBOX_MESSAGES = 256
#: With messages of this many bytes, an inbox is full.
MAX_INBOX_BYTES = 1 << 20


class Inbox:
    """The messages of a stream.

    Attributes:
        over: whether the peer's half has ended; stored messages can still be taken.
        error: the error of a failed stream, or None.
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
        """With `single`, the peer sends one message, its response; otherwise an empty response only ends the stream."""
        self._link = link
        self._answerer = answerer
        self._single = single
        self.messages: deque[bytes] = deque()
        self.size_bytes = 0
        self._full = False
        self._lock = RLock()  # reentrant, because the garbage collector may drop a stream anywhere
        self._latch = allocate_lock()  # released to wake the waiting thread
        self._latch.acquire()
        self._waiting = False
        self.over = False
        self.error: RpcError | None = None

    # -- for the reading thread ----------------------------------------------------------------------------------------

    @property
    def response(self) -> Response | None:
        """The response that ends the stream; other waiters have the same attribute."""
        return None

    @response.setter
    def response(self, response: Response) -> None:
        if response.code:
            self.error = RpcError(response.code, response.message)
        elif self._single or response.payload:
            self._put_message(response.payload)
        self._end_half()

    def arrived(self, data: Data) -> None:
        """Store a message, or the end of the peer's half."""
        if data.payload is not None:
            self._put_message(data.payload)
        if data.last:
            self._end_half()
        self.nudge()

    def _end_half(self) -> None:
        """Record the end of the peer's half, and let the connection be read."""
        with self._lock:
            self.over, self._full = True, False
        self._link.make_room(self)

    def _put_message(self, message: bytes) -> None:
        with self._lock:
            if self.over:
                return  # dropped: no thread will take it
            self.messages.append(message)
            self.size_bytes += len(message)
            if len(self.messages) >= MAX_INBOX_MESSAGES or self.size_bytes >= MAX_INBOX_BYTES:
                self._full = True
                self._link.full.add(self)

    def wake(self) -> None:
        """Wake the waiting thread: the response has arrived, or the connection has ended."""
        self.nudge()

    def nudge(self) -> bool:
        """Wake the waiting thread, which becomes the reader if there is no reader. Returns False if no thread waits."""
        if not self._waiting:
            return False
        try:
            self._latch.release()
        except RuntimeError:
            pass  # already woken
        return True

    # -- for the stream's user -----------------------------------------------------------------------------------------

    def take(self, deadline: float | None) -> bytes | None:
        """Return the next message, or wait for it. Returns None at the end of the peer's half.

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
                if (
                    self._full
                    and len(self.messages) <= MAX_INBOX_MESSAGES // 2
                    and self.size_bytes <= MAX_INBOX_BYTES // 2
                ):
                    self._full, made_room = False, True
        if made_room:
            self._link.make_room(self)
        if message is None and self.error is not None:
            raise RpcError(self.error.code, self.error.message)
        return message

    def drop(self) -> None:
        """Drop all messages, because no thread will take them."""
        with self._lock:
            self.messages.clear()
            self.size_bytes, self._full, self.over = 0, False, True
        self._link.make_room(self)

    def _wait(self, deadline: float | None) -> None:
        """Read the connection, or wait while another thread reads, until there is a message."""
        link = self._link
        self._waiting = True  # set before the first check, so that no later nudge is lost
        try:
            while not (self.messages or self.over):
                if link.closed is not None:
                    raise ConnectionClosed(link.closed)
                if link.reader.acquire(False):
                    self._read(deadline)
                    continue
                check_signals()
                remaining_s = -1.0 if deadline is None else max(0.0, deadline - monotonic())
                if not self._latch.acquire(timeout=remaining_s) and not (self.messages or self.over):
                    raise DeadlineExceeded("a message of the stream")
        finally:
            self._waiting = False
            if link.waiters and not link.reader.locked():
                link.hand_over()  # the thread that now leaves may have been woken

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
