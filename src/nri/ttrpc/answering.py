"""The reading half of an endpoint: hand out what comes, and answer the requests among it.

Runs in whichever thread has the role of the reader: a caller that waits for its response, `serve`, or a monitor's
`poll`. So a reply waits for a peer that does not read only as long as that thread has time. What answers requests is
`nri.ttrpc.service`; callers are `nri.ttrpc.collecting`.
"""

from __future__ import annotations

from time import monotonic

from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError
from nri.ttrpc.codes import Code, code_of
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.roles import Roles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LATER", "NOW", "Answering", "bind"]

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


def bind(
    intercept: Callable[[Request, Callable[[Request], Any]], Any], step: Callable[[Request], Any]
) -> Callable[[Request], object]:
    """One step of a request's way, with an interceptor around it."""
    return lambda request: intercept(request, step)


def _status(error: Exception) -> tuple[int, str]:
    """Code and text of what a handler has raised."""
    if isinstance(error, RpcError):
        return error.code, error.message
    return code_of(error), str(error) or type(error).__name__


class Answering(Roles):
    """Reads, and answers requests."""

    __slots__ = ()

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

    def serve(self, until: Callable[[], object] | None = None, deadline: float | None = None) -> str | None:
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
                self._dispatch(self._transport.receive_now(), NOW)
        except DeadlineExceeded:
            pass
        except (ConnectionClosed, ProtocolError) as error:
            self._fail(error.reason)
        finally:
            self._stop_reading(None)
            self._have_watched()
        return self.closed is None

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, until: float | None) -> None:
        if self._on_request is None:
            self._refuse(request, Code.UNIMPLEMENTED, f"service {request.service}", until)
            return
        handler = self._on_request
        if self._interceptors:
            for interceptor in reversed(self._interceptors):
                handler = bind(interceptor.serve, handler)
        try:
            reply = handler(request)
        except Exception as error:  # noqa: BLE001 - the caller gets an answer, whatever the handler raises
            self._refuse(request, *_status(error), until)
            return
        if reply is LATER:
            return
        if isinstance(reply, (bytearray, memoryview)):
            reply = bytes(reply)
        if isinstance(reply, bytes):
            self._send_reply(self._server.respond(request.stream_id, reply), until)
        else:
            wrong = f"{request.method}: the handler returned {type(reply).__name__} instead of bytes"
            self._refuse(request, Code.INTERNAL, wrong, until)

    def _refuse(self, request: Request | Response, code: int, message: str, until: float | None) -> None:
        self._send_reply(self._server.respond(request.stream_id, b"", code, message), until)

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
                    self._transport.send(self._server_id, [frame], deadline)
            finally:
                sender.release()
        except ConnectionClosed as error:
            self._fail(error.reason)
        except DeadlineExceeded:
            self._fail("closed (the peer does not read its replies)")
