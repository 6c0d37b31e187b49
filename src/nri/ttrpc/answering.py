"""The answering side of a connection: hand out what was read, and answer the requests among it.

Runs in whichever thread has the role of the reader: a caller that waits for its response, `serve`, or a monitor's
`poll`. So a reply waits for a peer that does not read only as long as that thread has time. What answers requests is
`nri.ttrpc.services.service`; calls are `nri.ttrpc.endpoint`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError
from nri.ttrpc.codes import Code, code_of
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.frames import REMOTE_CLOSED, REMOTE_OPEN
from nri.ttrpc.halves import Data
from nri.ttrpc.interceptors import around_serving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.interfaces import Receiving
    from nri.ttrpc.interceptors import Interceptor
    from nri.ttrpc.link import Link

    #: Answers a request: returns the reply's bytes, or LATER and then calls `Endpoint.reply` itself; raises to fail it.
    Handler = Callable[[Request], "bytes | object"]

__all__ = ["LATER", "NOW", "Answerer", "Handler"]

#: What a handler returns when it will call `Endpoint.reply` or `reply_error` itself.
LATER = object()

#: How long a reply may wait for a peer that does not read, in seconds; then the connection is given up.
REPLY_TIMEOUT_S = 30.0
#: The same at least, in a thread that has no time: a monitor's, which other connections wait for, or a caller's whose
#: deadline comes first.
READER_REPLY_TIMEOUT_S = 0.02
#: How often `poll` reads at one time, so that a peer that never stops sending does not keep it from the others.
POLL_READS = 16

#: A deadline for what must not wait at all.
NOW = 0.0


def _status(error: Exception) -> tuple[int, str]:
    """Code and text of what a handler has raised."""
    if isinstance(error, RpcError):
        return error.code, error.message
    return code_of(error), str(error) or type(error).__name__


class Answerer:
    """Hands out what comes over a link: responses to those who wait for them, requests to the handler."""

    __slots__ = ("_handler", "_link", "_streams")

    def __init__(
        self, link: Link, on_request: Handler | None, interceptors: Sequence[Interceptor], *, streams: bool
    ) -> None:
        self._link = link
        self._streams = streams
        self._handler = None if on_request is None else around_serving(interceptors, on_request)

    # -- reading ------------------------------------------------------------------------------------------------------

    def dispatch(self, chunks: list[tuple[int, bytes]], until: float | None = None) -> None:
        """Hand out what was read; replies that go out at once wait no longer than `until`, as far as that is fair.

        The caller has the role of the reader.
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
                        waiter.response = response
                        waiter.wake()
            elif conn_id == link.server_id:
                for request in link.server.receive(chunk):
                    if isinstance(request, Request):
                        self._answer(request, until)
                    elif isinstance(request, Data):
                        self._stream(link.server_streams, request)
                    else:
                        self._refuse_frame(request, until)

    def _stream(self, streams: dict[int, Receiving], data: Data) -> None:
        """Hand a message of a stream to who receives it."""
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
                    self.dispatch(link.transport.receive(deadline))
                except (ConnectionClosed, ProtocolError) as error:
                    link.fail(error.reason)
        return link.closed

    def poll(self) -> None:
        """Read what is there, without waiting, if no other thread is reading, which then takes it."""
        link = self._link
        if not link.reader.acquire(False):
            return
        try:
            for _ in range(POLL_READS):
                if link.closed is not None or link.full:
                    break
                self.dispatch(link.transport.receive_now(), NOW)
        except DeadlineExceeded:
            pass
        except (ConnectionClosed, ProtocolError) as error:
            link.fail(error.reason)
        finally:
            link.stop_reading(None)
            if not link.full:
                link.have_watched()

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, until: float | None) -> None:
        if self._handler is None:
            self._refuse(request, Code.UNIMPLEMENTED, f"service {request.service}", until)
            return
        if request.flags and not self._streams and request.flags & (REMOTE_OPEN | REMOTE_CLOSED):
            text = f"streaming is not supported: {request.service}/{request.method}"
            self._refuse(request, Code.UNIMPLEMENTED, text, until)
            return
        try:
            reply = self._handler(request)
        except Exception as error:  # noqa: BLE001 - the caller gets an answer, whatever the handler raises
            self._refuse(request, *_status(error), until)
            return
        if reply is LATER:
            return
        if isinstance(reply, (bytearray, memoryview)):
            reply = bytes(reply)
        if isinstance(reply, bytes):
            self._send(self._link.server.respond(request.stream_id, reply), until)
        else:
            wrong = f"{request.method}: the handler returned {type(reply).__name__} instead of bytes"
            self._refuse(request, Code.INTERNAL, wrong, until)

    def _refuse_frame(self, refusal: Response, until: float | None) -> None:
        """Answer a frame that broke a rule; its stream, if it has one, is over."""
        stream = self._link.server_streams.pop(refusal.stream_id, None)
        if stream is not None:
            stream.response = refusal
            stream.wake()
        self._refuse(refusal, refusal.code, refusal.message, until)

    def _refuse(self, request: Request | Response, code: int, message: str, until: float | None) -> None:
        self._send(self._link.server.respond(request.stream_id, b"", code, message), until)

    def reply(self, request: Request, payload: bytes, code: int, message: str) -> None:
        """Answer a request that the handler left for LATER. Nothing happens if the connection has ended."""
        self._send(self._link.server.respond(request.stream_id, payload, code, message))

    def _send(self, frame: bytes, until: float | None = None) -> None:
        """Send it, or close the connection. `until` is when a thread that reads for itself wants to go on."""
        link = self._link
        sender = link.sender
        now = monotonic()
        deadline = now + REPLY_TIMEOUT_S
        if until is not None and until < deadline:
            deadline = max(until, now + READER_REPLY_TIMEOUT_S)
        try:
            if not sender.acquire(False) and not link.wait_to_send(deadline):
                raise DeadlineExceeded("the peer to read")
            try:
                if link.closed is None:
                    link.transport.send(link.server_id, [frame], deadline)
            finally:
                sender.release()
        except ConnectionClosed as error:
            link.fail(error.reason)
        except DeadlineExceeded:
            link.fail("closed (the peer does not read its replies)")
