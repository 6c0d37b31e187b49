"""The answering side of a connection: hand out what was read, and answer the requests among it.

Runs in whichever thread has the role of the reader: a caller that waits for its response, `serve`, or a monitor's
`poll`. Only `serve` has the time to wait for a peer that does not read; the replies of the others are left to
`nri.ttrpc.outbox` then. Requests are answered by `nri.ttrpc.services.service`; calls are `nri.ttrpc.endpoint`.
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

    #: Answers a request: returns the reply's bytes, or LATER and then calls `Endpoint.reply` itself; raises to fail it.
    Handler = Callable[[Request], "bytes | object"]

__all__ = ["LATER", "NOW", "Answerer", "Handler"]

#: Returned by a handler that will call `Endpoint.reply` or `reply_error` itself.
LATER = object()

#: A peer that tells a longer timeout with a request has a reply wait no longer than this, in seconds.
TOLD_TIMEOUT_S = 300.0
#: How often `poll` reads at one time, so that a peer that never stops sending does not keep it from the others.
POLL_READS = 16
#: A deadline for what must not wait at all.
NOW = 0.0


class Answerer:
    """Hands out what comes over a link: responses to the callers that wait for them, requests to the handler."""

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
        """Hand out what was read. The caller has the role of the reader.

        `patient`: it waits until the peer reads the replies; else they are written as soon as it does.
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
                        self._answer(request, patient)
                    elif isinstance(request, Data):
                        self._stream(link.server_streams, request)
                    else:
                        self._refuse_frame(request, patient)

    def _stream(self, streams: dict[int, Receiving], data: Data) -> None:
        """Hand a message of a stream to its receiver."""
        stream = streams.get(data.stream_id)
        if stream is not None:
            stream.arrived(data)
            if data.last and streams is self._link.client_streams:  # the whole stream is over
                streams.pop(data.stream_id, None)
                self._link.waiters.pop(data.stream_id, None)

    def serve(self, until: Callable[[], object] | None, deadline: float | None) -> str | None:
        """Read and answer until the connection ends, and return why; or until `until()` holds, and return None."""
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
                    if until is None or not self._catch_up(until):
                        raise
        return link.closed

    def _catch_up(self, until: Callable[[], object]) -> bool:
        """Take what is there at the deadline, because it may be this side that is late; whether `until()` holds then.

        True also if the connection has ended.
        """
        link = self._link
        try:
            for _ in range(POLL_READS):
                if until() or link.closed is not None:
                    return True
                self.dispatch(link.transport.receive_now(), patient=True)
        except DeadlineExceeded:
            pass  # there is nothing more
        except (ConnectionClosed, ProtocolError) as error:
            link.fail(error.reason)
        return bool(until()) or link.closed is not None

    def poll(self, wait_s: float = 0.0) -> None:
        """Read what is there; nothing if another thread is reading, which then takes it, and does so for `wait_s`."""
        link = self._link
        if not link.reader.acquire(timeout=wait_s):
            return
        try:
            for _ in range(POLL_READS):
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
                link.have_watched()

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, patient: bool) -> None:
        if self._handler is None:
            self._refuse(request, Code.UNIMPLEMENTED, f"service {request.service}", patient)
            return
        if request.flags and not self._streams and request.flags & (REMOTE_OPEN | REMOTE_CLOSED):
            text = f"streaming is not supported: {request.service}/{request.method}"
            self._refuse(request, Code.UNIMPLEMENTED, text, patient)
            return
        try:
            reply = self._handler(request)
        except Exception as error:  # noqa: BLE001 - the caller gets an answer, whatever the handler raises
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
        """Answer a frame that broke a rule; its stream, if it has one, is over."""
        stream = self._link.server_streams.pop(refusal.stream_id, None)
        if stream is not None:
            stream.response = refusal
            stream.wake()
        self._refuse(refusal, refusal.code, refusal.message, patient)

    def _refuse(self, request: Request | Response, code: int, message: str, patient: bool) -> None:
        self._send(self._link.server.respond(request.stream_id, b"", code, message), patient)

    def reply(self, request: Request, payload: bytes, code: int, message: str, patient: bool) -> None:
        """Answer a request that the handler left for LATER. Nothing happens if the connection has ended."""
        self._send(self._link.server.respond(request.stream_id, payload, code, message), patient, request.timeout_ns)

    def _send(self, frame: bytes, patient: bool, timeout_ns: int = 0) -> None:
        """Send it now, or wait, or leave it to the outbox. `timeout_ns`: how long the peer itself would wait for it."""
        link = self._link
        sender = link.sender
        deadline = monotonic() + max(link.reply_timeout_s, min(timeout_ns * 1e-9, TOLD_TIMEOUT_S))
        try:
            if not sender.acquire(False):
                if not patient:
                    self._leave(frame, deadline)
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
            else:  # what was written in part has to be written to its end, also if nothing else is
                self._leave(b"" if isinstance(error, SentInPart) else frame, deadline)

    def _leave(self, frame: bytes, deadline: float) -> None:
        """Have a reply written later."""
        self._link.behind = True  # callers must not stop reading for a write that may have to wait
        self._outbox.put(frame, deadline)
