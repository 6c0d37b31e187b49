"""The shared state of a connection: its two sides, the reading and writing threads, the waiting callers, its end.

There are two roles, each with one thread at a time: the reader, which passes on all bytes that arrive, and the sender.
The thread that gives up the role of the reader wakes the next waiting caller, or lets the monitor watch.
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

#: A reply waits this long by default for a peer that does not read, in seconds.
REPLY_TIMEOUT_S = 30.0


class Link:
    """The state of a connection.

    Attributes:
        transport: sends and receives bytes.
        fileno: the descriptor of the connection; -1 once closed.
        client_id, server_id: the connection numbers of our calls, and of the requests that we answer.
        client, server: the states of the streams of our calls, and of the peer's calls.
        waiters: the waiting calls by stream id.
        client_streams, server_streams: the receivers of data by stream id, for our calls and for the peer's.
        full: streams with too many unread messages: nothing is read until they are received.
        sender: a lock that is held while stream ids are assigned and frames written, so that ids increase on the wire.
        reader: a lock that is held by the thread that reads.
        behind: whether the peer may have unread requests.
        watch: informs a monitor whether this side reads.
        reply_timeout_s: how long a reply waits for a peer that does not read, before the connection is closed. It is
            not less than the peer's timeout for a request, or a slow peer would count as dead.
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
        """Wait for the role of the sender. Returns False at the deadline."""
        check_signals()
        if deadline is None:
            return self.sender.acquire()
        remaining_s = deadline - monotonic()
        return remaining_s > 0 and self.sender.acquire(timeout=remaining_s)

    def stop_reading(self, watch: Watcher | None) -> None:
        """Let another caller read, or the monitor watch."""
        self.reader.release()
        if self.waiters:
            self.hand_over()
        if watch is not None and self.closed is None:
            watch.release(monotonic())

    def hand_over(self) -> None:
        """Wake a waiting caller, which becomes the reader."""
        for waiter in list(self.waiters.values()):
            if waiter.nudge():
                return

    def watch_now(self) -> None:
        """Let the monitor watch at once, because this thread is not going to read."""
        if self.watch is not None and self.closed is None:
            self.watch.idle()

    def forget(self, stream_id: int) -> None:
        """Give up a call. Its answer is dropped."""
        self.waiters.pop(stream_id, None)
        self.client.forget(stream_id)
        self.behind = True
        self.hand_over()  # the caller that now leaves may have been woken

    # -- streams with too many unread messages -------------------------------------------------------------------------

    def await_room(self, deadline: float | None) -> None:
        """Wait, as the reader, while a stream has too many unread messages. Raises DeadlineExceeded."""
        while self.full and self.closed is None:
            check_signals()
            remaining_s = -1.0 if deadline is None else max(0.0, deadline - monotonic())
            if not self._room.acquire(timeout=remaining_s) and self.full:
                raise DeadlineExceeded("a stream to be received from")

    def make_room(self, stream: object) -> None:
        """Continue reading, unless another stream is full."""
        if stream in self.full:
            self.full.discard(stream)
            self._resume_reading()
            self.watch_now()

    def _resume_reading(self) -> None:
        try:
            self._room.release()
        except RuntimeError:
            pass  # already woken

    # -- the end ------------------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> str:
        """End the connection and every waiting call. Returns the reason of the end, perhaps an earlier one."""
        with self._close_lock:
            if self.closed is not None:
                return self.closed
            self.closed = reason
        self.transport.shut()
        for waiter in [*self.waiters.values(), *self.server_streams.values()]:
            waiter.wake()
        self.waiters.clear()
        self._resume_reading()
        if self._on_close is not None:
            self._on_close(reason)
        return reason

    def release(self, deadline: float) -> None:
        """Close the descriptor once no thread reads or writes. Call `fail` before."""
        if not self.reader.acquire(timeout=max(0.0, deadline - monotonic())):
            return  # a thread still uses the socket; the interpreter closes it later
        try:
            if self.sender.acquire(timeout=max(0.0, deadline - monotonic())):
                try:
                    self.transport.close()
                finally:
                    self.sender.release()
            # Free a partly received message of up to 4 MiB, because other objects may keep this object.
            self.client, self.server = ClientSide(), ServerSide()
        finally:
            self.reader.release()
