"""The answering side of a connection: pass on the messages that were read, and answer the peer's requests.

Runs in the thread that has the role of the reader: a caller that waits for its response, `serve`, or a monitor's
`poll`. Only `serve` may wait for a peer that does not read; replies of the other threads go to `nri.ttrpc.outbox`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError
from nri.stream import SentInPart
from nri.ttrpc.codes import Code, status_of
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.frames import REMOTE_CLOSED, REMOTE_OPEN
from nri.ttrpc.halves import Data
from nri.ttrpc.interceptors import around_serving
from nri.ttrpc.outbox import Outbox
from nri.ttrpc.waiters import ARRIVALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.interfaces import Receiving
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.link import Link

    #: A function that answers a request: it returns the reply's bytes, or returns LATER and calls `Endpoint.reply`
    #: itself later. An exception fails the request.
    Handler = Callable[[Request], "bytes | object"]

#: Returned by a handler that will call `Endpoint.reply` or `reply_error` itself.
LATER = object()

#: A reply waits at most this long for a peer that does not read, regardless of its request's timeout, in seconds.
MAX_REPLY_WAIT_S = 300.0
#: A `poll` reads at most this often, so that a peer that never stops sending does not block the other connections.
MAX_READS_PER_POLL = 16
#: The deadline of operations that must not wait.
NOW = 0.0


class Answerer:
    """Passes received responses to waiting callers, and received requests to the handler."""

    __slots__ = ("_handler", "_link", "_outbox", "_streams")

    def __init__(
        self, link: Link, on_request: Handler | None, interceptors: Sequence[Interceptor], *, streams: bool
    ) -> None:
        self._link = link
        self._outbox = Outbox(link)
        self._streams = streams
        self._handler = None if on_request is None else around_serving(interceptors, on_request)

    # -- reading ------------------------------------------------------------------------------------------------------

    def dispatch(self, chunks: list[tuple[int, bytes]], *, patient: bool = False) -> None:
        """Pass on the chunks that were read. The caller has the role of the reader.

        With `patient`, wait until the peer reads the replies; otherwise they are written as soon as it reads.
        """
        link = self._link
        for conn_id, chunk in chunks:
            if conn_id == link.client_id and (conn_id != link.server_id or self._handler is None):
                for response in link.client.receive(chunk):
                    if isinstance(response, Data):
                        self._stream(link.client_streams, response)
                        continue
                    waiter = link.waiters.pop(response.stream_id, None)
                    if link.client_streams:
                        link.client_streams.pop(response.stream_id, None)
                    if waiter is not None:
                        response.arrival = next(ARRIVALS)
                        waiter.response = response
                        waiter.wake()
            elif conn_id == link.server_id:
                for request in link.server.receive(chunk):
                    if isinstance(request, Request):
                        self._answer_request(request, patient)
                    elif isinstance(request, Data):
                        self._stream(link.server_streams, request)
                    else:
                        self._refuse_frame(request, patient)

    def _stream(self, streams: dict[int, Receiving], data: Data) -> None:
        """Pass a message of a stream to its receiver."""
        stream = streams.get(data.stream_id)
        if stream is not None:
            stream.arrived(data)
            if data.last and streams is self._link.client_streams:  # both directions have ended
                streams.pop(data.stream_id, None)
                self._link.waiters.pop(data.stream_id, None)

    def serve(self, until: Callable[[], object] | None, deadline: float | None) -> str | None:
        """Read and answer until the connection ends (returns the reason), or until `until()` is true (returns None)."""
        link = self._link
        with link.reader:
            while link.closed is None:
                if until is not None and until():
                    return None
                try:
                    if link.full:
                        link.await_room(deadline)
                    self.dispatch(link.transport.receive(deadline), patient=True)
                except (ConnectionClosed, ProtocolError) as error:
                    link.fail(error.reason)
                except DeadlineExceeded:
                    if until is None or not self._read_arrived(until):
                        raise
        return link.closed

    def _read_arrived(self, until: Callable[[], object]) -> bool:
        """Process arrived bytes at the deadline, because this side may be late. Returns whether `until()` is true then.

        Also returns True if the connection has ended.
        """
        link = self._link
        try:
            for _ in range(MAX_READS_PER_POLL):
                if until() or link.closed is not None:
                    return True
                self.dispatch(link.transport.receive_now(), patient=True)
        except DeadlineExceeded:
            pass  # all bytes are read
        except (ConnectionClosed, ProtocolError) as error:
            link.fail(error.reason)
        return bool(until()) or link.closed is not None

    def poll(self, wait_s: float = 0.0) -> None:
        """Process arrived bytes, unless another thread reads for all of `wait_s` and processes them."""
        link = self._link
        if not link.reader.acquire(timeout=wait_s):
            return
        try:
            for _ in range(MAX_READS_PER_POLL):
                if link.closed is not None or link.full:
                    break
                self.dispatch(link.transport.receive_now())
        except DeadlineExceeded:
            pass
        except (ConnectionClosed, ProtocolError) as error:
            link.fail(error.reason)
        finally:
            link.stop_reading(None)
            if not link.full:
                link.watch_now()

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answer_request(self, request: Request, patient: bool) -> None:
        if self._handler is None:
            self._refuse(request, Code.UNIMPLEMENTED, f"service {request.service}", patient)
            return
        if request.flags and not self._streams and request.flags & (REMOTE_OPEN | REMOTE_CLOSED):
            text = f"streaming is not supported: {request.service}/{request.method}"
            self._refuse(request, Code.UNIMPLEMENTED, text, patient)
            return
        try:
            reply = self._handler(request)
        except Exception as error:  # noqa: BLE001 - the caller must get an answer
            self._refuse(request, *status_of(error), patient)
            return
        if reply is LATER:
            return
        if isinstance(reply, (bytearray, memoryview)):
            reply = bytes(reply)
        if isinstance(reply, bytes):
            self._send(self._link.server.respond(request.stream_id, reply), patient, request.timeout_ns)
        else:
            wrong = f"{request.method}: the handler returned {type(reply).__name__} instead of bytes"
            self._refuse(request, Code.INTERNAL, wrong, patient)

    def _refuse_frame(self, refusal: Response, patient: bool) -> None:
        """Answer an invalid frame, and end its stream if there is a stream."""
        stream = self._link.server_streams.pop(refusal.stream_id, None)
        if stream is not None:
            stream.response = refusal
            stream.wake()
        self._refuse(refusal, refusal.code, refusal.message, patient)

    def _refuse(self, request: Request | Response, code: int, message: str, patient: bool) -> None:
        self._send(self._link.server.respond(request.stream_id, b"", code, message), patient)

    def reply(self, request: Request, payload: bytes, code: int, message: str, patient: bool) -> None:
        """Answer a request for which the handler returned LATER. Has no effect after the end of the connection."""
        self._send(self._link.server.respond(request.stream_id, payload, code, message), patient, request.timeout_ns)

    def _send(self, frame: bytes, patient: bool, timeout_ns: int = 0) -> None:
        """Send a frame now, or wait, or leave it to the outbox. `timeout_ns` is the timeout in the peer's request."""
        link = self._link
        sender = link.sender
        deadline = monotonic() + max(link.reply_timeout_s, min(timeout_ns * 1e-9, MAX_REPLY_WAIT_S))
        try:
            if not sender.acquire(False):
                if not patient:
                    self._defer_reply(frame, deadline)
                    return
                if not link.wait_to_send(deadline):
                    raise DeadlineExceeded("the peer to read")
            try:
                if link.closed is None:
                    link.transport.send(link.server_id, [frame], deadline if patient else NOW)
            finally:
                sender.release()
        except ConnectionClosed as error:
            link.fail(error.reason)
        except DeadlineExceeded as error:
            if patient:
                link.fail("closed (the peer does not read its replies)")
            else:  # a partly written frame must be completed
                self._defer_reply(b"" if isinstance(error, SentInPart) else frame, deadline)

    def _defer_reply(self, frame: bytes, deadline: float) -> None:
        """Leave a reply to the outbox."""
        self._link.behind = True  # callers must not stop reading for a write that may wait
        self._outbox.put(frame, deadline)
