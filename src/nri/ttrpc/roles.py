"""Who reads and who writes one transport, and its end. Knows no sockets: those are in the transport.

There are two roles, each with one thread at a time: the reader, who hands out everything that comes, and the sender.
Whoever gives up the role of the reader wakes the next caller that waits, or has the monitor watch. What the reader does
with what it reads is `nri.ttrpc.answering`.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from nri.signals import heed
from nri.ttrpc.connection import ClientSide, ServerSide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.interfaces import Transport, Watcher
    from nri.ttrpc.envelope import Request
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.waiters import Callback, Reading, Waiter

    #: Answers a request: returns the reply's bytes, or LATER and then calls `Endpoint.reply` itself; raises to fail it.
    Handler = Callable[[Request], "bytes | object"]

__all__ = ["Roles"]


class Roles:
    """The state of an endpoint, its two roles and its end. Its arguments are those of `nri.ttrpc.Endpoint`."""

    __slots__ = (
        "_behind", "_client", "_client_id", "_close_lock", "_interceptors", "_on_close", "_on_request", "_reader",
        "_sender", "_server", "_server_id", "_transport", "_waiters", "_watch", "closed",
    )  # fmt: skip

    def __init__(
        self,
        transport: Transport,
        *,
        client_id: int = 0,
        server_id: int = 0,
        on_request: Handler | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_close: Callable[[str], None] | None = None,
    ) -> None:
        self._transport = transport
        self._client_id, self._server_id = client_id, server_id
        self._client, self._server = ClientSide(), ServerSide()
        self._on_request = on_request
        self._interceptors = tuple(interceptors)
        self._on_close = on_close
        self._waiters: dict[int, Waiter | Reading | Callback] = {}
        # Held while stream ids are given out and frames written, so ids increase on the wire.
        self._sender = allocate_lock()
        self._reader = allocate_lock()  # the reading role
        self._close_lock = allocate_lock()
        self._behind = False  # the peer has not answered everything, so it may not have read everything
        self._watch: Watcher | None = None
        #: The reason why the connection is closed, or None while it is open.
        self.closed: str | None = None

    def fileno(self) -> int:
        """The transport's descriptor; -1 once closed."""
        return self._transport.fileno()

    # -- the roles ----------------------------------------------------------------------------------------------------

    def watched_by(self, watch: Watcher | None) -> None:
        """Let a monitor watch the descriptor between calls; it is told when this side reads."""
        self._watch = watch

    def read_while_idle(self) -> bool:
        """Take the role of the reader for a moment, if no thread has it; False if one has. For `nri.ttrpc.monitor`."""
        return self._reader.acquire(False)

    def stop_reading_while_idle(self) -> None:
        """Give it up again."""
        self._reader.release()
        if self._waiters:
            self._hand_over()

    def _stop_reading(self, watch: Watcher | None) -> None:
        """Let another caller read, or the monitor watch."""
        self._reader.release()
        if self._waiters:
            self._hand_over()
        if watch is not None and self.closed is None:
            watch.rest()

    def _have_watched(self) -> None:
        """Have the monitor watch at once: we are going to do something else than read."""
        if self._watch is not None and self.closed is None:
            self._watch.idle()

    def _hand_over(self) -> None:
        """Wake one waiting caller, which becomes the reader."""
        if self._waiters:
            for waiter in list(self._waiters.values()):
                if waiter.nudge():
                    return

    def _wait_to_send(self, deadline: float | None) -> bool:
        """Wait until we may write; False if others, for whom the peer does not read, need longer than we have."""
        heed()
        if deadline is None:
            return self._sender.acquire()
        left_s = deadline - monotonic()
        return left_s > 0 and self._sender.acquire(timeout=left_s)

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Stop reading; the request at hand is still answered, then `serve` returns. Safe in a signal handler."""
        self._transport.shut_reading()

    def close(self, reason: str = "closed") -> None:
        """Close the connection; every pending and later call fails with ConnectionClosed."""
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        with self._close_lock:
            if self.closed is not None:
                return
            self.closed = reason
        self._transport.shut()
        for waiter in list(self._waiters.values()):
            waiter.wake()
        self._waiters.clear()
        if self._on_close is not None:
            self._on_close(reason)

    def _end(self, otherwise: str) -> str:
        """Why the connection has ended, by now."""
        return self.closed or otherwise

    def release(self, deadline: float) -> None:
        """Give the descriptor back, once no thread is reading or writing. The connection must be closed already."""
        if not self._reader.acquire(timeout=max(0.0, deadline - monotonic())):
            return  # a thread is still inside; the interpreter closes the socket when it lets go
        try:
            if self._sender.acquire(timeout=max(0.0, deadline - monotonic())):
                try:
                    self._transport.close()
                finally:
                    self._sender.release()
            # Whoever remembers this connection need not keep what a peer sent of a message: up to 4 MiB.
            self._client, self._server = ClientSide(), ServerSide()
        finally:
            self._reader.release()
