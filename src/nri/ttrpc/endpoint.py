"""The blocking front: call and serve over one transport, with deadlines. Knows no sockets: those are in the transport.

Three ways to use it, which can be mixed:
- `call()` from any thread, or its two halves `begin()` and `collect()` from two threads;
- `serve()` in one thread: reads until the connection ends and answers requests as they come (a plugin's loop);
- `poll()` when the descriptor is readable: for a monitor that watches idle connections (`nri.ttrpc.monitor`).

There is no reader thread and no queue. A caller that waits for its response reads the transport itself; a response for
another caller met on the way is handed to it, and a caller that is done wakes the next one, which reads on. So one call
costs one write and one read, and no switch between threads. This file is the usual way of a call, from the request to
the reply: we are the reader since before we wrote, and the first thing to come is our response. The rare ways are in
`nri.ttrpc.waiting`, answers to the peer's requests in `nri.ttrpc.answering`, and what goes over the wire is
`nri.ttrpc.connection`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError
from nri.ttrpc.answering import LATER, NOW, Answerer
from nri.ttrpc.envelope import Request
from nri.ttrpc.interceptors import around
from nri.ttrpc.link import Link
from nri.ttrpc.waiters import ARRIVALS, Waiter, payload_of
from nri.ttrpc.waiting import abandon, await_response, begun_late, send_and_read, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from nri.interfaces import Transport, Watcher
    from nri.ttrpc.answering import Handler
    from nri.ttrpc.envelope import Response
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.waiters import Sent

__all__ = ["LATER", "Endpoint"]

# A frame of at most so many bytes goes into the empty buffer of a socket without waiting (its default is 208 KiB).
_SURE_TO_FIT: Final = 32768


def _left_ns(deadline: float, method: str) -> int:
    """The time left, as the peer gets it: whole milliseconds, because equal timeouts are encoded once; at least one."""
    left_s = deadline - monotonic()
    if left_s <= 0:
        raise DeadlineExceeded(method)
    return int(left_s * 1e3) * 1_000_000 or 1_000_000


class Endpoint:
    """Client and server of one transport.

    Args:
        transport: `nri.mux.Trunk` or `SocketTransport`.
        client_id: connection number for calls that we make.
        server_id: connection number for requests that we answer.
        on_request: answers a request; None answers everything Unimplemented.
        interceptors: see `nri.ttrpc.interceptors`; the first is outermost.
        on_close: called once, with the reason, when the connection has ended.
        streams: `on_request` takes requests of streams too; else they are answered Unimplemented.
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
        #: Its state, for monitors and others who know what they do.
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
            deadline: absolute `time.monotonic()` seconds; how much is left is sent to the peer. None waits for ever.

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
        """Call as `call` does; returns the reply's place among all that was read, and its bytes.

        `meanwhile` is called when the request is written, while the peer is at work: as often as interceptors let it
        be written.
        """
        if not self._interceptors:
            begun = self._begin_in_turn(service, method, payload, deadline, metadata)
            return self.collect_in_order(begun) if meanwhile is None else self._collect_after(begun, meanwhile)
        arrivals: list[int] = []

        def proceed(asked: Request) -> bytes:
            begun = self._begin_in_turn(asked.service, asked.method, asked.payload, deadline, asked.metadata)
            arrival, reply = self._collect_after(begun, meanwhile)
            arrivals.append(arrival)
            return reply

        reply = around(self._interceptors, proceed)(Request(service, method, payload, metadata=tuple(metadata)))
        arrival = arrivals[-1] if arrivals else next(ARRIVALS)  # an interceptor may answer in the peer's place
        return arrival, bytes(reply) if isinstance(reply, (bytearray, memoryview)) else reply

    def _collect_after(self, begun: Sent, meanwhile: Callable[[], None] | None) -> tuple[int, bytes]:
        """Collect as `collect_in_order` does, after `meanwhile` was called."""
        if meanwhile is not None:
            try:
                meanwhile()
            except BaseException:
                abandon(self.link, begun)
                raise
        return self.collect_in_order(begun)

    def _begin_in_turn(
        self, service: str, method: str, payload: bytes, deadline: float | None, metadata: Iterable[tuple[str, str]]
    ) -> Sent:
        """Send a request, once others have sent theirs."""
        timeout_ns = 0 if deadline is None else _left_ns(deadline, method)
        link = self.link
        if not link.sender.acquire(False) and not link.wait_to_send(deadline):
            raise DeadlineExceeded(method)
        return self._send(service, method, payload, timeout_ns, deadline, metadata, deadline)

    def begin(self, service: str, method: str, payload: bytes, deadline: float) -> Sent | None:
        """Send a request whose answer another thread reads: with `collect`, to which the result goes, or `abandon`.

        None, with nothing sent, where that might wait, or where the answer might reach another caller first.
        """
        left_s = deadline - monotonic()
        link = self.link
        if left_s <= 0 or self._interceptors or len(payload) > _SURE_TO_FIT // 2 or not link.sender.acquire(False):
            return None
        if link.closed is not None or link.waiters or link.behind or link.reader.locked():
            link.sender.release()
            return None
        timeout_ns = int(left_s * 1e3) * 1_000_000 or 1_000_000
        sent = self._send(service, method, payload, timeout_ns, deadline, (), NOW)
        return sent if sent[4] is None else begun_late(link, sent)

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
        """Send a request, and take the role of the reader if that is free. The sender's role is held, and given up."""
        link = self.link
        waiter: Waiter | None = None
        failure: DeadlineExceeded | ConnectionClosed | None = None
        try:
            if link.closed is not None:
                raise ConnectionClosed(link.closed)
            stream_id, frame, length = link.client.request(service, method, payload, timeout_ns, metadata)
            # To read the answer ourselves, we must be the reader before the peer can answer: else the monitor, which
            # watches until then, gets it, at the price of two switches between threads. Not if the write may have to
            # wait: then a thread must go on reading, or two peers that both write would wait for each other.
            early = length <= _SURE_TO_FIT and not link.waiters and not link.behind
            if not early or not link.reader.acquire(False):
                waiter = link.waiters[stream_id] = Waiter()
                if not early:
                    link.have_watched()
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
                failure.__traceback__ = failure.__context__ = None  # they have this frame: each would keep the other
            except BaseException:  # KeyboardInterrupt in a write that waits: no thread will collect
                abandon(link, (stream_id, method, deadline, waiter, None))
                raise
        finally:
            link.sender.release()
        return stream_id, method, deadline, waiter, failure

    def collect(self, sent: Sent) -> bytes:
        """Wait for the reply's bytes to a request that `begin` has sent. Raises what `call` raises.

        An answer that is there counts, also if it was not collected before the deadline.
        """
        return self.collect_in_order(sent)[1]

    def collect_in_order(self, sent: Sent) -> tuple[int, bytes]:
        """Collect as `collect` does; returns the reply's place among all that was read, and its bytes.

        The place is taken as long as no other thread can read on: the peer's next word comes behind it.
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
        except BaseException:  # KeyboardInterrupt: the turn to read must not be passed to a caller that is gone
            link.forget(stream_id)
            raise
        finally:
            if waiter is None:
                self._stop_reading(watch)
        link.behind = False
        return response.arrival, payload_of(response)

    def _stop_reading(self, watch: Watcher | None) -> None:
        """Let another caller read, or the monitor watch: `Link.stop_reading`, for calls that follow each other."""
        link = self.link
        link.reader.release()
        if link.waiters:
            link.hand_over()
        if watch is not None:
            now = monotonic()
            if watch.resting and now - watch.used < watch.close_s:  # the next one may be as close behind
                watch.used = now
            elif link.closed is None:
                watch.rest(now)

    def abandon(self, sent: Sent) -> None:
        """Drop the reply to what `begin` has sent, when it comes."""
        abandon(self.link, sent)

    def start(
        self, service: str, method: str, payload: bytes, deadline: float, done: Callable[[Response | None], None]
    ) -> None:
        """Send a request and return; the thread that reads its response hands that to `done`, or None if there is none.

        For loops that read anyway, such as `serve`. `deadline` is for the write; the peer gets what is left of it.
        Raises what `call` raises, but for RpcError.
        """
        start(self.link, service, method, payload, _left_ns(deadline, method), deadline, done)

    # -- requests of the peer -----------------------------------------------------------------------------------------

    def serve(self, until: Callable[[], object] | None = None, deadline: float | None = None) -> str | None:
        """Read and answer until the connection ends, and return why; or until `until()` holds, and return None.

        Requests are answered in order, in this thread. DeadlineExceeded if `deadline` passes first.
        """
        return self._answerer.serve(until, deadline)

    def poll(self, wait_s: float = 0.0) -> bool:
        """Read what is there, unless another thread is reading for `wait_s`; False once the connection has ended.

        Does not stay for a peer that never stops sending: a monitor looks again.
        """
        self._answerer.poll(wait_s)
        return self.link.closed is None

    def reply(self, request: Request, payload: bytes, *, patient: bool = True) -> None:
        """Answer a request that the handler left for LATER. Nothing happens if the connection has ended.

        `patient`: wait until the peer reads; else what it does not take at once is written as soon as it does.
        """
        self._answerer.reply(request, payload, 0, "", patient)

    def reply_error(self, request: Request, code: int, message: str, *, patient: bool = True) -> None:
        """Answer a request with a status."""
        self._answerer.reply(request, b"", code, message, patient)

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Stop reading; the request at hand is still answered, then `serve` returns. Safe in a signal handler."""
        self.link.transport.shut_reading()

    def close(self, reason: str = "closed") -> None:
        """Close the connection; every pending and later call fails with ConnectionClosed."""
        self.link.fail(reason)

    def release(self, deadline: float) -> None:
        """Give the descriptor back, once no thread is reading or writing. The connection must be closed already."""
        self.link.release(deadline)
