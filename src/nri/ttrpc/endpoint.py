"""The blocking interface: call and serve over a transport, with deadlines.

There are three ways to use it, which can be combined:

- `call()` from any thread, or its two halves `begin()` and `collect()` from two threads;
- `serve()` in one thread: reads until the connection ends and answers requests as they come (a plugin's loop);
- `poll()` when the descriptor is readable: for a monitor that watches idle connections (`nri.ttrpc.monitor`).

There is no reader thread and no queue. A caller that waits for its response reads the transport itself. It passes
responses of other callers on, and when it is done it wakes the next caller, which continues reading. So a call costs
one write and one read, and no switch between threads. This file has the usual path of a call: its thread becomes the
reader before the write, and its response arrives first. Other paths are in `nri.ttrpc.slow_path`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError
from nri.ttrpc.answerer import LATER, NOW, Answerer
from nri.ttrpc.envelope import Request
from nri.ttrpc.interceptors import around
from nri.ttrpc.link import Link
from nri.ttrpc.slow_path import abandon, await_response, continue_write_later, send_and_read, start
from nri.ttrpc.waiters import ARRIVALS, Waiter, payload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from nri.interfaces import Transport, Watcher
    from nri.ttrpc.answerer import Handler
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.waiters import Sent

__all__ = ["LATER", "Endpoint"]

# A frame of at most this size fits into the empty buffer of a socket without waiting (its default is 208 KiB).
_MAX_UNBLOCKED_BYTES: Final = 32768


def _remaining_ns(deadline: float, method: str) -> int:
    """The remaining time for the peer, at least 1 ms: whole milliseconds, because equal timeouts are encoded once."""
    remaining_s = deadline - monotonic()
    if remaining_s <= 0:
        raise DeadlineExceeded(method)
    return int(remaining_s * 1e3) * 1_000_000 or 1_000_000


class Endpoint:
    """Client and server of a transport.

    Args:
        transport: `nri.mux.Trunk` or `SocketTransport`.
        client_id: the connection number for calls that we make.
        server_id: the connection number for requests that we answer.
        on_request: answers a request; None answers all requests Unimplemented.
        interceptors: see `nri.ttrpc.interceptors`; the first is outermost.
        on_close: called once, with the reason, when the connection has ended.
        streams: `on_request` also handles requests of streams; otherwise they are answered Unimplemented.
    """

    __slots__ = ("_answerer", "_interceptors", "link")

    def __init__(
        self,
        transport: Transport,
        *,
        client_id: int = 0,
        server_id: int = 0,
        on_request: Handler | None = None,
        interceptors: Sequence[Interceptor] = (),
        on_close: Callable[[str], None] | None = None,
        streams: bool = False,
    ) -> None:
        #: The state of the connection, for monitors and streams.
        self.link = Link(transport, client_id, server_id, on_close)
        self._answerer = Answerer(self.link, on_request, interceptors, streams=streams)
        self._interceptors = tuple(interceptors)

    @property
    def closed(self) -> str | None:
        """The reason why the connection is closed, or None while it is open."""
        return self.link.closed

    def fileno(self) -> int:
        """The transport's descriptor; -1 once closed."""
        return self.link.fileno()

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(
        self,
        service: str,
        method: str,
        payload: bytes = b"",
        *,
        deadline: float | None = None,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> bytes:
        """Call and wait for the reply's bytes.

        Args:
            deadline: absolute `time.monotonic()` seconds; the remaining time is sent to the peer. None waits for ever.

        Raises:
            RpcError: the peer answered with a status.
            OversizedMessage: the request is over 4 MiB; nothing was written.
            DeadlineExceeded: no answer in time. The connection stays usable, a late answer is dropped.
            ConnectionClosed: the connection ended.
        """
        return self.call_in_order(service, method, payload, deadline, metadata)[1]

    def call_in_order(
        self,
        service: str,
        method: str,
        payload: bytes,
        deadline: float | None,
        metadata: Iterable[tuple[str, str]] = (),
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[int, bytes]:
        """Call like `call`. Returns the reply's number in the order of arrival, and its bytes.

        `meanwhile` is called after the request is written, while the peer works. If interceptors write the request
        several times, it is called once for each write.
        """
        if not self._interceptors:
            sent_request = self._begin_in_turn(service, method, payload, deadline, metadata)
            return (
                self.collect_in_order(sent_request)
                if meanwhile is None
                else self._collect_after(sent_request, meanwhile)
            )
        arrivals: list[int] = []

        def proceed(request: Request) -> bytes:
            sent_request = self._begin_in_turn(
                request.service, request.method, request.payload, deadline, request.metadata
            )
            arrival, reply = self._collect_after(sent_request, meanwhile)
            arrivals.append(arrival)
            return reply

        reply = around(self._interceptors, proceed)(Request(service, method, payload, metadata=tuple(metadata)))
        arrival = arrivals[-1] if arrivals else next(ARRIVALS)  # an interceptor may answer instead of the peer
        return arrival, bytes(reply) if isinstance(reply, (bytearray, memoryview)) else reply

    def _collect_after(self, sent_request: Sent, meanwhile: Callable[[], None] | None) -> tuple[int, bytes]:
        """Call `meanwhile`, then collect as `collect_in_order`."""
        if meanwhile is not None:
            try:
                meanwhile()
            except BaseException:
                abandon(self.link, sent_request)
                raise
        return self.collect_in_order(sent_request)

    def _begin_in_turn(
        self, service: str, method: str, payload: bytes, deadline: float | None, metadata: Iterable[tuple[str, str]]
    ) -> Sent:
        """Send a request, after the requests of other threads."""
        timeout_ns = 0 if deadline is None else _remaining_ns(deadline, method)
        link = self.link
        if not link.sender.acquire(False) and not link.wait_to_send(deadline):
            raise DeadlineExceeded(method)
        return self._send(service, method, payload, timeout_ns, deadline, metadata, deadline)

    def begin(self, service: str, method: str, payload: bytes, deadline: float) -> Sent | None:
        """Send a request whose answer another thread reads. Pass the result to `collect` or `abandon`.

        Returns None and sends nothing if the write might wait, or if the answer might reach another caller first.
        """
        remaining_s = deadline - monotonic()
        link = self.link
        if (
            remaining_s <= 0
            or self._interceptors
            or len(payload) > _MAX_UNBLOCKED_BYTES // 2
            or not link.sender.acquire(False)
        ):
            return None
        if link.closed is not None or link.waiters or link.behind or link.reader.locked():
            link.sender.release()
            return None
        timeout_ns = int(remaining_s * 1e3) * 1_000_000 or 1_000_000
        sent = self._send(service, method, payload, timeout_ns, deadline, (), NOW)
        return sent if sent[4] is None else continue_write_later(link, sent)

    def _send(
        self,
        service: str,
        method: str,
        payload: bytes,
        timeout_ns: int,
        deadline: float | None,
        metadata: Iterable[tuple[str, str]],
        write_by: float | None,
    ) -> Sent:
        """Send a request, and take the role of the reader if it is free. Gives up the caller's role of the sender."""
        link = self.link
        waiter: Waiter | None = None
        failure: DeadlineExceeded | ConnectionClosed | None = None
        try:
            if link.closed is not None:
                raise ConnectionClosed(link.closed)
            stream_id, frame, length = link.client.request(service, method, payload, timeout_ns, metadata)
            # To read the answer, this thread must be the reader before the peer can answer. Otherwise the monitor gets
            # the answer, which costs two switches between threads. But if the write may wait, another thread must
            # continue reading, or two peers that both write would wait for each other.
            early = length <= _MAX_UNBLOCKED_BYTES and not link.waiters and not link.behind
            if not early or not link.reader.acquire(False):
                waiter = link.waiters[stream_id] = Waiter()
                if not early:
                    link.watch_now()
            try:
                if waiter is None:
                    watch = link.watch
                    if watch is not None and watch.armed:
                        watch.busy()
                if waiter is None or link.watch is not None:
                    link.transport.send(link.client_id, frame, write_by)
                else:
                    send_and_read(link, self._answerer, link.client_id, frame, write_by)
            except (DeadlineExceeded, ConnectionClosed) as error:
                failure = error
                failure.__traceback__ = failure.__context__ = (
                    None  # they refer to this frame: break the reference cycle
                )
            except BaseException:  # KeyboardInterrupt in a waiting write: no thread will collect
                abandon(link, (stream_id, method, deadline, waiter, None))
                raise
        finally:
            link.sender.release()
        return stream_id, method, deadline, waiter, failure

    def collect(self, sent: Sent) -> bytes:
        """Wait for the reply's bytes to a request of `begin`. Raises the errors of `call`.

        An answer that arrived in time is valid, even if it is collected after the deadline.
        """
        return self.collect_in_order(sent)[1]

    def collect_in_order(self, sent: Sent) -> tuple[int, bytes]:
        """Collect like `collect`. Returns the reply's number in the order of arrival, and its bytes.

        The reply is numbered before another thread can read, so the peer's next message gets a greater number.
        """
        link = self.link
        stream_id, method, deadline, waiter, failure = sent
        watch = link.watch
        if deadline is not None and deadline < (now := monotonic()):
            deadline = now
        chunks: list[tuple[int, bytes]] = []
        try:
            if waiter is None and failure is None:
                chunks = link.transport.receive(deadline)
                if len(chunks) == 1 and chunks[0][0] == link.client_id:
                    reply = link.client.receive_sole(stream_id, chunks[0][1])
                    if reply is not None:
                        link.behind = False
                        return next(ARRIVALS), reply
            response = await_response(link, self._answerer, sent, deadline, chunks)
        except DeadlineExceeded:
            link.forget(stream_id)
            raise DeadlineExceeded(method) from None
        except (ConnectionClosed, ProtocolError) as error:
            raise ConnectionClosed(link.fail(error.reason)) from None
        except BaseException:  # also catches KeyboardInterrupt: this caller must not become the reader later
            link.forget(stream_id)
            raise
        finally:
            if waiter is None:
                self._stop_reading(watch)
        link.behind = False
        return response.arrival, payload_of(response)

    def _stop_reading(self, watch: Watcher | None) -> None:
        """Let another caller read, or the monitor watch: a faster `Link.stop_reading` for calls in quick succession."""
        link = self.link
        link.reader.release()
        if link.waiters:
            link.hand_over()
        if watch is not None:
            now = monotonic()
            if watch.resting and now - watch.used < watch.close_s:  # the next call may follow as quickly
                watch.used = now
            elif link.closed is None:
                watch.release(now)

    def abandon(self, sent: Sent) -> None:
        """Drop the reply to a request of `begin` when it comes."""
        abandon(self.link, sent)

    def start(
        self, service: str, method: str, payload: bytes, deadline: float, callback: Callable[[Response | None], None]
    ) -> None:
        """Send a request and return. The reading thread calls `callback` with the response, or None without a response.

        For loops that read anyway, as `serve`. `deadline` is for the write; the peer gets the remaining time.
        Raises as `call`, except RpcError.
        """
        start(self.link, service, method, payload, _remaining_ns(deadline, method), deadline, callback)

    # -- requests of the peer -----------------------------------------------------------------------------------------

    def serve(self, until: Callable[[], object] | None = None, deadline: float | None = None) -> str | None:
        """Read and answer until the connection ends (returns the reason), or until `until()` is true (returns None).

        Requests are answered in order, in this thread. Raises DeadlineExceeded if `deadline` passes first.
        """
        return self._answerer.serve(until, deadline)

    def poll(self, wait_s: float = 0.0) -> bool:
        """Process arrived bytes, unless another thread reads for all of `wait_s`. Returns False after the end.

        The number of reads is limited, in case a peer never stops sending: a monitor calls it again.
        """
        self._answerer.poll(wait_s)
        return self.link.closed is None

    def reply(self, request: Request, payload: bytes, *, patient: bool = True) -> None:
        """Answer a request for which the handler returned LATER. Has no effect after the end of the connection.

        With `patient`, wait until the peer reads; otherwise the reply is written as soon as the peer reads.
        """
        self._answerer.reply(request, payload, 0, "", patient)

    def reply_error(self, request: Request, code: int, message: str, *, patient: bool = True) -> None:
        """Answer a request with a status."""
        self._answerer.reply(request, b"", code, message, patient)

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Stop reading. The current request is still answered, then `serve` returns. Safe in a signal handler."""
        self.link.transport.shut_reading()

    def close(self, reason: str = "closed") -> None:
        """Close the connection. Every pending and later call fails with ConnectionClosed."""
        self.link.fail(reason)

    def release(self, deadline: float) -> None:
        """Close the descriptor once no thread reads or writes. Call `close` before."""
        self.link.release(deadline)
