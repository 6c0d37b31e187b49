"""The blocking front: call and serve over one transport, with deadlines. Knows no sockets: those are in the transport.

There is no reader thread and no queue. Whoever waits for a response reads the transport itself; a response for another
caller met on the way is handed to it, and a caller that is done wakes the next one, which reads on. A request met on
the way goes to `on_request`. So one call costs one write and one read, and no switch between threads.

Three ways to use it, which can be mixed:
- `call()` from any thread, or its two halves `begin()` and `collect()` from two threads;
- `serve()` in one thread: reads until the connection ends and answers requests as they come (a plugin's loop);
- `poll()` when the descriptor is readable: for a monitor that watches idle connections (`nri.ttrpc.monitor`).

Who waits for what is `nri.ttrpc.waiters`, what goes over the wire `nri.ttrpc.connection`; what answers requests is
`nri.ttrpc.service`.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError
from nri.stream import SentInPart
from nri.ttrpc.codes import Code, code_of
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import Request, Response, request_prefix
from nri.ttrpc.waiters import Callback, Reading, Waiter, payload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from nri.ttrpc.interceptors import Interceptor

    class Transport(Protocol):
        """Bytes in and out of numbered connections: `nri.mux.Trunk`, or `SocketTransport` with number 0 only."""

        def fileno(self) -> int: ...
        def send(self, conn_id: int, message: bytes, deadline: float | None) -> None: ...
        def receive(self, deadline: float | None) -> list[tuple[int, bytes]]: ...
        def receive_now(self) -> list[tuple[int, bytes]]: ...
        def flush(self, deadline: float | None) -> None: ...
        def shut(self) -> None: ...
        def shut_reading(self) -> None: ...
        def close(self) -> None: ...

    #: Answers a request: returns the reply's bytes, or LATER and then calls `Endpoint.reply` itself; raises to fail it.
    Handler = Callable[[Request], "bytes | object"]
    #: What a monitor is told: "somebody reads this now", "nobody reads it any more".
    Watch = tuple[Callable[["Endpoint"], None], Callable[["Endpoint"], None]]
    #: A request on its way: stream id, method, deadline, who waits if not the reader, and what went wrong.
    Sent = tuple[int, str, float | None, Waiter | None, DeadlineExceeded | ConnectionClosed | None]


__all__ = ["LATER", "Endpoint"]

#: What a handler returns when it will call `Endpoint.reply` or `reply_error` itself.
LATER = object()

#: How long a reply may wait for a peer that does not read, in seconds; then the connection is given up.
REPLY_TIMEOUT_S = 30.0
#: The same at least, in a thread that has no time: a monitor's, which other connections wait for, or a caller's whose
#: deadline comes first.
READER_REPLY_TIMEOUT_S = 0.02
#: How often `poll` reads at one time, so that a peer that never stops sending does not keep it from the others.
POLL_READS = 16

# A frame of at most so many bytes goes into the empty buffer of a socket without waiting (its default is 208 KiB).
_SURE_TO_FIT = 32768

# A deadline for what must not wait at all.
_NOW = 0.0

_prefixes: dict[tuple[str, str], bytes] = {}


def _prefix(service: str, method: str) -> bytes:
    key = (service, method)
    prefix = _prefixes.get(key)
    if prefix is None:
        if len(_prefixes) > 1024:  # names come from programs; a caller that makes them up must not fill memory
            _prefixes.clear()
        prefix = _prefixes[key] = request_prefix(service, method)
    return prefix


def _left_ns(deadline: float) -> int:
    """What the peer is told: whole milliseconds, because equal timeouts are encoded once, and at least one."""
    left_s = deadline - monotonic()
    return int(left_s * 1e3) * 1_000_000 or 1_000_000 if left_s > 0 else 0


class Endpoint:
    """Client and server of one transport.

    Args:
        transport: `nri.mux.Trunk` or `SocketTransport`.
        client_id: connection number for calls that we make.
        server_id: connection number for requests that we answer.
        on_request: answers a request; None answers everything Unimplemented.
        interceptors: see `nri.ttrpc.interceptors`; the first is outermost.
        on_close: called once, with the reason, when the connection has ended.
    """

    __slots__ = (
        "_behind", "_client", "_client_id", "_close_lock", "_idle", "_interceptors", "_on_close", "_on_request",
        "_reader", "_sender", "_server", "_server_id", "_transport", "_waiters", "closed",
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
        self._idle: Watch | None = None
        #: The reason why the connection is closed, or None while it is open.
        self.closed: str | None = None

    def fileno(self) -> int:
        """The transport's descriptor; -1 once closed."""
        return self._transport.fileno()

    # -- calling ------------------------------------------------------------------------------------------------------

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
            deadline: absolute `time.monotonic()` seconds; the peer is told how much is left. None waits for ever.

        Raises:
            RpcError: the peer answered with a status.
            OversizedMessage: the request is over 4 MiB; nothing was written.
            DeadlineExceeded: no answer in time. The connection stays usable, a late answer is dropped.
            ConnectionClosed: the connection ended.
        """
        if self._interceptors:
            return self._intercepted_call(service, method, payload, deadline, metadata)
        return self._call(service, method, payload, deadline, metadata)

    def _intercepted_call(
        self, service: str, method: str, payload: bytes, deadline: float | None, metadata: Iterable[tuple[str, str]]
    ) -> bytes:
        def proceed(request: Request) -> bytes:
            return self._call(request.service, request.method, request.payload, deadline, request.metadata)

        step: Callable[[Request], Any] = proceed
        for interceptor in reversed(self._interceptors):
            step = _bind(interceptor.call, step)
        reply: bytes = step(Request(service, method, payload, metadata=tuple(metadata)))
        return reply

    def _call(
        self, service: str, method: str, payload: bytes, deadline: float | None, metadata: Iterable[tuple[str, str]]
    ) -> bytes:
        timeout_ns = 0
        if deadline is not None:
            timeout_ns = _left_ns(deadline)
            if timeout_ns <= 0:
                raise DeadlineExceeded(method)
        if not self._sender.acquire(False) and not self._wait_to_send(deadline):
            raise DeadlineExceeded(method)
        return self._collect(self._send(service, method, payload, timeout_ns, deadline, metadata, deadline))

    def begin(self, service: str, method: str, payload: bytes, deadline: float) -> Sent | None:
        """Send a request whose answer another thread reads: with `collect`, to which the result goes, or `abandon`.

        None, with nothing sent, where that might wait, or where the answer might reach somebody else first.
        """
        timeout_ns = _left_ns(deadline)
        if timeout_ns <= 0 or self._interceptors or len(payload) > _SURE_TO_FIT // 2 or not self._sender.acquire(False):
            return None
        if self.closed is not None or self._waiters or self._behind or self._reader.locked():
            self._sender.release()
            return None
        sent = self._send(service, method, payload, timeout_ns, deadline, (), _NOW)
        return sent if sent[4] is None else self._begun_late(sent)

    def _begun_late(self, sent: Sent) -> Sent | None:
        """The peer reads so little that the write would wait: that is not for the thread that only begins."""
        stream_id, method, deadline, waiter, failure = sent
        if isinstance(failure, ConnectionClosed):
            return sent
        if not isinstance(failure, SentInPart):
            self.abandon(sent)
            return None
        if waiter is None:  # while `collect` writes the rest, somebody must go on reading
            waiter = self._waiters[stream_id] = Waiter()
            self._stop_reading(self._idle)
        return stream_id, method, deadline, waiter, failure

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
        waiter: Waiter | None = None
        failure: DeadlineExceeded | ConnectionClosed | None = None
        try:
            if self.closed is not None:
                raise ConnectionClosed(self.closed)
            prefix = _prefixes.get((service, method)) or _prefix(service, method)
            stream_id, frame = self._client.request(prefix, payload, timeout_ns, metadata)
            # To read the answer ourselves, we must be the reader before the peer can answer: else the monitor, which
            # watches until then, gets it, at the price of two switches between threads. Not if the write may have to
            # wait: then somebody must go on reading, or two peers that both write would wait for each other.
            early = len(frame) <= _SURE_TO_FIT and not self._waiters and not self._behind
            if not early or not self._reader.acquire(False):
                waiter = self._waiters[stream_id] = Waiter()
            try:
                if waiter is None:
                    idle = self._idle
                    if idle is not None:
                        idle[0](self)
                self._transport.send(self._client_id, frame, write_by)
            except (DeadlineExceeded, ConnectionClosed) as error:
                failure = error
            except BaseException:  # KeyboardInterrupt in a write that waits: nobody will collect
                self.abandon((stream_id, method, deadline, waiter, None))
                raise
        finally:
            self._sender.release()
        return stream_id, method, deadline, waiter, failure

    def collect(self, sent: Sent) -> bytes:
        """Wait for the reply's bytes to a request that `begin` has sent. Raises what `call` raises.

        An answer that is there counts, also if nobody came to collect it before the deadline.
        """
        stream_id, method, deadline, waiter, failure = sent
        now = monotonic()
        if deadline is not None and deadline < now:
            return self._collect((stream_id, method, now, waiter, failure))
        return self._collect(sent)

    def _collect(self, sent: Sent) -> bytes:
        """Wait for the reply's bytes."""
        stream_id, method, deadline, waiter, failure = sent
        try:
            if waiter is None:
                reply = self._read_reply(stream_id, deadline, failure)
            else:
                reply = self._await_reply(waiter, deadline, failure)
        except DeadlineExceeded:
            self._forget(stream_id)
            raise DeadlineExceeded(method) from None
        except (RpcError, ConnectionClosed):
            raise
        except BaseException:  # KeyboardInterrupt: the turn to read must not be passed to a caller that is gone
            self._forget(stream_id)
            raise
        self._behind = False
        return reply

    def abandon(self, sent: Sent) -> None:
        """Nobody waits for the reply to what `begin` has sent; it will be dropped."""
        stream_id, _, _, waiter, _ = sent
        if waiter is None:
            self._stop_reading(self._idle)
        self._forget(stream_id)

    def _wait_to_send(self, deadline: float | None) -> bool:
        """Wait until we may write; False if others, for whom the peer does not read, need longer than we have."""
        if deadline is None:
            return self._sender.acquire()
        left_s = deadline - monotonic()
        return left_s > 0 and self._sender.acquire(timeout=left_s)

    def _read_reply(
        self, stream_id: int, deadline: float | None, failure: DeadlineExceeded | ConnectionClosed | None
    ) -> bytes:
        """The usual way: we are the reader since before we wrote, and the first thing to come is our reply."""
        idle = self._idle
        waiter: Reading | None = None
        try:
            if failure is not None:
                waiter = self._waiters[stream_id] = Reading()
                self._after_failed_write(failure, deadline, reading=True)
            while waiter is None or waiter.response is None:
                if self.closed is not None:
                    raise ConnectionClosed(self.closed)
                try:
                    chunks = self._transport.receive(deadline)
                    if waiter is None:
                        if len(chunks) == 1 and chunks[0][0] == self._client_id:
                            reply = self._client.receive_sole(stream_id, chunks[0][1])
                            if reply is not None:
                                return reply
                        waiter = self._waiters[stream_id] = Reading()
                    self._dispatch(chunks, deadline)
                except (ConnectionClosed, ProtocolError) as error:
                    self._fail(error.reason)
                    if waiter is None or waiter.response is None:
                        raise ConnectionClosed(self.closed or error.reason) from None
            return payload_of(waiter.response)
        finally:
            self._stop_reading(idle)

    def _await_reply(
        self, waiter: Waiter, deadline: float | None, failure: DeadlineExceeded | ConnectionClosed | None
    ) -> bytes:
        """The other way: others call as well, and whoever reads hands us our response."""
        if failure is not None:
            self._after_failed_write(failure, deadline, reading=False)
        return payload_of(waiter.response or self._wait(waiter, deadline))

    def _after_failed_write(
        self, failure: DeadlineExceeded | ConnectionClosed, deadline: float | None, *, reading: bool
    ) -> None:
        if isinstance(failure, SentInPart) and self._wait_to_send(deadline):
            try:
                self._transport.flush(deadline)
            except ConnectionClosed as error:
                failure = error
            else:
                return
            finally:
                self._sender.release()
        if isinstance(failure, DeadlineExceeded):
            raise failure
        # What the peer wrote before it went may hold the answer, or the reason.
        self._drain_before_close(failure.reason, reading)

    def _forget(self, stream_id: int) -> None:
        self._waiters.pop(stream_id, None)
        self._client.forget(stream_id)
        self._behind = True
        self._hand_over()  # a wake-up meant for the caller that now leaves must not be lost

    def _wait(self, waiter: Waiter, deadline: float | None) -> Response:
        """Read until our response is there; or wait while another thread reads."""
        while waiter.response is None:
            if self.closed is not None:
                raise ConnectionClosed(self.closed)
            if self._reader.acquire(False):
                idle = self._idle
                try:
                    if idle is not None:
                        idle[0](self)
                    while waiter.response is None:
                        self._read(deadline)
                finally:
                    self._stop_reading(idle)
            elif deadline is None:
                waiter.lock.acquire()
            else:
                left_s = deadline - monotonic()
                if (left_s <= 0 or not waiter.lock.acquire(timeout=left_s)) and waiter.response is None:
                    raise DeadlineExceeded("a response")
        return waiter.response

    def _stop_reading(self, idle: Watch | None) -> None:
        """Let another caller read, or the monitor watch."""
        self._reader.release()
        if self._waiters:
            self._hand_over()
        if idle is not None and self.closed is None:
            idle[1](self)

    def _hand_over(self) -> None:
        """Wake one waiting caller, which becomes the reader."""
        if self._waiters:
            for waiter in list(self._waiters.values()):
                if waiter.nudge():
                    return

    def start(
        self, service: str, method: str, payload: bytes, deadline: float, done: Callable[[Response | None], None]
    ) -> None:
        """Send a request and return; whoever reads later hands the response to `done`, or None if the connection ends.

        For loops that read anyway, such as `serve`. `deadline` is for the write; the peer is told what is left of it.
        Raises what `call` raises, but for RpcError.
        """
        timeout_ns = _left_ns(deadline)
        if timeout_ns <= 0:
            raise DeadlineExceeded(method)
        if not self._wait_to_send(deadline):
            raise DeadlineExceeded(method)
        try:
            if self.closed is not None:
                raise ConnectionClosed(self.closed)
            stream_id, frame = self._client.request(_prefix(service, method), payload, timeout_ns)
            self._waiters[stream_id] = Callback(done)
            try:
                self._transport.send(self._client_id, frame, deadline)
            except (DeadlineExceeded, ConnectionClosed):
                self._waiters.pop(stream_id, None)
                self._client.forget(stream_id)
                raise
        finally:
            self._sender.release()

    def _drain_before_close(self, reason: str, reading: bool) -> None:
        """The write failed: take in what had already arrived, then close."""
        if reading or self._reader.acquire(False):
            try:
                while self.closed is None:
                    self._dispatch(self._transport.receive_now())
            except (DeadlineExceeded, ConnectionClosed, ProtocolError):
                pass
            finally:
                if not reading:
                    self._reader.release()
        self._fail(reason)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _read(self, deadline: float | None) -> None:
        """One read of the transport and all that follows from it. The caller has the reading role."""
        try:
            self._dispatch(self._transport.receive(deadline), deadline)
        except (ConnectionClosed, ProtocolError) as error:
            self._fail(error.reason)
            raise ConnectionClosed(error.reason) from None

    def _dispatch(self, chunks: list[tuple[int, bytes]], until: float | None = None) -> None:
        """Hand out what was read; replies that go out at once wait no longer than `until`, as far as that is fair."""
        for conn_id, chunk in chunks:
            if conn_id == self._client_id and (conn_id != self._server_id or self._on_request is None):
                for response in self._client.receive(chunk):
                    waiter = self._waiters.pop(response.stream_id, None)
                    if waiter is not None:
                        waiter.response = response
                        waiter.wake()
            elif conn_id == self._server_id:
                for request in self._server.receive(chunk):
                    if isinstance(request, Request):
                        self._answer(request, until)
                    else:
                        self._refuse(request, request.code, request.message, until)

    def _answer(self, request: Request, until: float | None) -> None:
        if self._on_request is None:
            self._refuse(request, Code.UNIMPLEMENTED, f"service {request.service}", until)
            return
        handler = self._on_request
        for interceptor in reversed(self._interceptors):
            handler = _bind(interceptor.serve, handler)
        try:
            reply = handler(request)
        except RpcError as error:
            self._refuse(request, error.code, error.message, until)
        except Exception as error:  # noqa: BLE001 - the caller gets an answer, whatever the handler raises
            self._refuse(request, code_of(error), str(error) or type(error).__name__, until)
        else:
            if reply is not LATER:
                self._send_reply(self._server.respond(request.stream_id, reply), until)  # type: ignore[arg-type]

    def _refuse(self, request: Request | Response, code: int, message: str, until: float | None) -> None:
        self._send_reply(self._server.respond(request.stream_id, b"", code, message), until)

    def serve(self, until: Callable[[], bool] | None = None, deadline: float | None = None) -> str | None:
        """Read and answer until the connection ends, and return why; or until `until()` holds, and return None.

        Requests are answered in order, in this thread. DeadlineExceeded if `deadline` passes first.
        """
        with self._reader:
            while self.closed is None:
                if until is not None and until():
                    return None
                try:
                    self._dispatch(self._transport.receive(deadline))
                except (ConnectionClosed, ProtocolError) as error:
                    self._fail(error.reason)
        return self.closed

    def poll(self) -> bool:
        """Read what is there, if nobody else is reading; False once the connection has ended.

        Does not wait, and does not stay for a peer that never stops sending: a monitor is told to look again.
        """
        if not self._reader.acquire(False):
            return self.closed is None  # a caller is reading, and takes it
        try:
            for _ in range(POLL_READS):
                if self.closed is not None:
                    break
                self._dispatch(self._transport.receive_now(), _NOW)
        except DeadlineExceeded:
            pass
        except (ConnectionClosed, ProtocolError) as error:
            self._fail(error.reason)
        finally:
            self._stop_reading(self._idle)
        return self.closed is None

    def watch_idle(self, busy: Callable[[Endpoint], None], idle: Callable[[Endpoint], None]) -> None:
        """Let a monitor watch the descriptor between calls: `busy` is called before this side reads, `idle` after."""
        self._idle = (busy, idle)

    # -- answering ----------------------------------------------------------------------------------------------------

    def reply(self, request: Request, payload: bytes) -> None:
        """Answer a request that the handler left for LATER. Nothing happens if the connection has ended."""
        self._send_reply(self._server.respond(request.stream_id, payload))

    def reply_error(self, request: Request, code: int, message: str) -> None:
        """Answer a request with a status."""
        self._send_reply(self._server.respond(request.stream_id, b"", code, message))

    def _send_reply(self, frame: bytes, until: float | None = None) -> None:
        """Send it, or close the connection. `until` is when a thread that reads for itself wants to go on."""
        sender = self._sender
        now = monotonic()
        deadline = now + REPLY_TIMEOUT_S
        if until is not None and until < deadline:
            deadline = max(until, now + READER_REPLY_TIMEOUT_S)
        try:
            if not sender.acquire(False) and not self._wait_to_send(deadline):
                raise DeadlineExceeded("the peer to read")
            try:
                if self.closed is None:
                    self._transport.send(self._server_id, frame, deadline)
            finally:
                sender.release()
        except ConnectionClosed as error:
            self._fail(error.reason)
        except DeadlineExceeded:
            self._fail("closed (the peer does not read its replies)")

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


def _bind(
    intercept: Callable[[Request, Callable[[Request], Any]], Any], step: Callable[[Request], Any]
) -> Callable[[Request], object]:
    return lambda request: intercept(request, step)
