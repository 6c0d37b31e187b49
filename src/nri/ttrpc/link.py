"""One connection as all who use it share it: its two ends, who reads and who writes it, who waits, and its end.

There are two roles, each with one thread at a time: the reader, who hands out everything that comes, and the sender.
The thread that gives up the role of the reader wakes the next caller that waits, or has the monitor watch. Knows no
sockets: those are in the transport. Calls are made in `nri.ttrpc.endpoint`, and answered in `nri.ttrpc.answering`.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from nri.errors import DeadlineExceeded
from nri.signals import check_signals
from nri.ttrpc.connection import ClientSide, ServerSide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.interfaces import Receiving, Transport, Waiting, Watcher

__all__ = ["REPLY_TIMEOUT_S", "Link"]

#: How long a reply may wait for a peer that does not read, in seconds, where nothing else is said.
REPLY_TIMEOUT_S = 30.0


class Link:
    """The state of one connection.

    Attributes:
        transport: bytes in and out.
        fileno: its descriptor; -1 once closed.
        client_id, server_id: connection numbers of the calls that we make, and of the requests that we answer.
        client, server: what is known of the streams of either.
        waiters: who waits for the response of which stream.
        client_streams, server_streams: who gets the data of which stream, of our calls and of the peer's.
        full: streams that hold so much that nothing is read, until they are received from.
        sender: held while stream ids are given out and frames written, so that ids increase on the wire.
        reader: held by the thread that reads.
        behind: the peer has not answered everything, so it may not have read everything.
        watch: where a monitor learns whether this side reads.
        reply_timeout_s: how long a reply may wait for a peer that does not read; then the connection is given up. Not
            less than what the peer has for a request, or one that is merely slow would count as dead.
        closed: the reason why the connection is closed, or None while it is open.
    """

    __slots__ = (
        "_close_lock", "_on_close", "_room", "behind", "client", "client_id", "client_streams", "closed", "fileno",
        "full", "reader", "reply_timeout_s", "sender", "server", "server_id", "server_streams", "transport", "waiters",
        "watch",
    )  # fmt: skip

    def __init__(
        self, transport: Transport, client_id: int, server_id: int, on_close: Callable[[str], None] | None
    ) -> None:
        self.transport = transport
        self.fileno: Callable[[], int] = transport.fileno
        self.client_id, self.server_id = client_id, server_id
        self.client, self.server = ClientSide(), ServerSide()
        self.waiters: dict[int, Waiting] = {}
        self.client_streams: dict[int, Receiving] = {}
        self.server_streams: dict[int, Receiving] = {}
        self.full: set[object] = set()
        self._room = allocate_lock()
        self._room.acquire()
        self.sender = allocate_lock()
        self.reader = allocate_lock()
        self.behind = False
        self.watch: Watcher | None = None
        self.reply_timeout_s = REPLY_TIMEOUT_S
        self.closed: str | None = None
        self._on_close = on_close
        self._close_lock = allocate_lock()

    # -- the roles ----------------------------------------------------------------------------------------------------

    def wait_to_send(self, deadline: float | None) -> bool:
        """Wait until we may write; False if others, for whom the peer does not read, need longer than we have."""
        check_signals()
        if deadline is None:
            return self.sender.acquire()
        left_s = deadline - monotonic()
        return left_s > 0 and self.sender.acquire(timeout=left_s)

    def stop_reading(self, watch: Watcher | None) -> None:
        """Let another caller read, or the monitor watch."""
        self.reader.release()
        if self.waiters:
            self.hand_over()
        if watch is not None and self.closed is None:
            watch.rest(monotonic())

    def hand_over(self) -> None:
        """Wake one waiting caller, which becomes the reader."""
        for waiter in list(self.waiters.values()):
            if waiter.nudge():
                return

    def have_watched(self) -> None:
        """Have the monitor watch at once: we are going to do something else than read."""
        if self.watch is not None and self.closed is None:
            self.watch.idle()

    def forget(self, stream_id: int) -> None:
        """Give up on a call: its answer will be dropped."""
        self.waiters.pop(stream_id, None)
        self.client.forget(stream_id)
        self.behind = True
        self.hand_over()  # a wake-up meant for the caller that now leaves must not be lost

    # -- streams that hold too much ------------------------------------------------------------------------------------

    def await_room(self, deadline: float | None) -> None:
        """Wait, as the reader, while a stream holds so much that nothing must be read. Raises DeadlineExceeded."""
        while self.full and self.closed is None:
            check_signals()
            left_s = -1.0 if deadline is None else max(0.0, deadline - monotonic())
            if not self._room.acquire(timeout=left_s) and self.full:
                raise DeadlineExceeded("a stream to be received from")

    def make_room(self, stream: object) -> None:
        """Let the reading go on, as far as this stream is concerned."""
        if stream in self.full:
            self.full.discard(stream)
            self._reading_goes_on()
            self.have_watched()

    def _reading_goes_on(self) -> None:
        try:
            self._room.release()
        except RuntimeError:
            pass  # woken already

    # -- the end ------------------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> str:
        """End the connection, and every call that waits. Returns why it has ended, which others may have said first."""
        with self._close_lock:
            if self.closed is not None:
                return self.closed
            self.closed = reason
        self.transport.shut()
        for waiter in [*self.waiters.values(), *self.server_streams.values()]:
            waiter.wake()
        self.waiters.clear()
        self._reading_goes_on()
        if self._on_close is not None:
            self._on_close(reason)
        return reason

    def release(self, deadline: float) -> None:
        """Give the descriptor back, once no thread is reading or writing. The connection must be closed already."""
        if not self.reader.acquire(timeout=max(0.0, deadline - monotonic())):
            return  # a thread is still inside; the interpreter closes the socket when it lets go
        try:
            if self.sender.acquire(timeout=max(0.0, deadline - monotonic())):
                try:
                    self.transport.close()
                finally:
                    self.sender.release()
            # An object that remembers this connection need not keep what a peer sent of a message: up to 4 MiB.
            self.client, self.server = ClientSide(), ServerSide()
        finally:
            self.reader.release()
