"""Streams: many messages in one call, from the client, from the server, or both.

Every wait has a deadline: its own, or the deadline of the whole stream. One thread may send while another receives. A
stream that is received too slowly blocks its connection and does not fill memory (`nri.ttrpc.services.inbox`). ttRPC
does not have a message for "stop": a client that gives up closes its half and drops further messages.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nri.errors import ConnectionClosed, DeadlineExceeded, LocalProtocolError, ProtocolError
from nri.ttrpc.services.codec import WAIT_S, decoded, encoded
from nri.ttrpc.services.inbox import Inbox
from nri.ttrpc.slow_path import send_and_read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final, Self

    from nri.interfaces import Streaming
    from nri.ttrpc.endpoint import Endpoint
    from nri.ttrpc.envelope import Request
    from nri.ttrpc.halves import Data

M = TypeVar("M")

#: A server waits this long for a client that does not read, in seconds.
SEND_S = 30.0
# A client that gives up waits this long for a server that does not read, in seconds.
_CLOSE_S: Final = 1.0
#: As a timeout: the timeout of the stream.
_ITS_OWN: Final[float] = -1.0


class _Stream(Generic[M]):
    """The base of the client's and the server's stream: send and receive messages with deadlines."""

    def __init__(
        self, endpoint: Endpoint, call: Request, kind: Any, wait_s: float | None, send_s: float | None
    ) -> None:
        #: Service and method, as `service/method`.
        self.name = f"{call.service}/{call.method}"
        self._link = endpoint.link
        self._answerer = endpoint._answerer
        self._kind = kind
        self._wait_s, self._send_s = wait_s, send_s
        self._deadline = monotonic() + call.timeout_ns / 1e9 if call.timeout_ns else None
        self.inbox: Inbox

    def receive(self, timeout_s: float | None = _ITS_OWN) -> M | None:
        """Wait for the next message. Returns None after the last message.

        Args:
            timeout_s: seconds; None waits for ever. Default: the stream's `wait_s`.

        Raises: RpcError if the peer failed the stream, DeadlineExceeded, ConnectionClosed.
        """
        try:
            payload = self.inbox.take(self._wait_deadline(timeout_s, self._wait_s))
        except DeadlineExceeded:
            raise DeadlineExceeded(f"a message of {self.name}") from None
        return None if payload is None else decoded(self._kind, payload)

    def __iter__(self) -> Iterator[M]:
        """Yield the messages up to the last, waiting like `receive`."""
        while (message := self.receive()) is not None:
            yield message

    def _wait_deadline(self, timeout_s: float | None, usual_s: float | None) -> float | None:
        """The deadline of a wait: its own, or the deadline of the whole stream."""
        seconds = usual_s if timeout_s == _ITS_OWN else timeout_s
        if seconds is None:
            return self._deadline
        deadline = monotonic() + seconds
        return deadline if self._deadline is None else min(deadline, self._deadline)

    def _write(self, conn_id: int, frame: Callable[[], bytes], deadline: float | None) -> None:
        """Write the result of `frame`, which is called in our turn. Writes nothing if the result is empty."""
        link = self._link
        if not link.sender.acquire(False) and not link.wait_to_send(deadline):
            raise DeadlineExceeded(f"{self.name}: the peer to read")
        try:
            if link.closed is not None:
                raise ConnectionClosed(link.closed)
            data = frame()
            if data:
                send_and_read(link, self._answerer, conn_id, [data], deadline)
        except DeadlineExceeded:
            raise DeadlineExceeded(f"{self.name}: the peer to read") from None
        finally:
            link.sender.release()


class ClientStream(_Stream[M]):
    """A call with many messages, at the client. A context manager that gives up the rest of the stream at its end."""

    def __init__(
        self,
        endpoint: Endpoint,
        call: Request,
        reply_type: Any = None,
        streaming: Streaming = "both",
        wait_s: float | None = WAIT_S,
    ) -> None:
        """Open the stream; see `Client.stream`. `call` is its request, as for a unary call."""
        super().__init__(endpoint, call, reply_type, wait_s, wait_s)
        link = self._link
        sends, receives = streaming != "server", streaming != "client"
        self.inbox = Inbox(link, self._answerer, single=not receives)
        self._id = 0

        def opened() -> bytes:
            self._id, frame = link.client.open(call, sends=sends, receives=receives)
            link.waiters[self._id] = link.client_streams[self._id] = self.inbox
            return b"".join(frame)

        try:
            self._write(link.client_id, opened, self._wait_deadline(_ITS_OWN, self._send_s))
        except BaseException:
            self._forget_stream()
            raise

    def send(self, message: Any, timeout_s: float | None = _ITS_OWN) -> None:
        """Send a message, as soon as the server has read enough of the earlier messages.

        Args:
            message: a protobuf message, or its bytes.
            timeout_s: seconds; None waits for ever. Default: the stream's `wait_s`.

        Raises:
            RpcError: the server has failed the stream.
            LocalProtocolError: the server has ended the stream, or our half of it is closed.
            OversizedMessage: the message is over 4 MiB; nothing was sent, and the stream continues.
            DeadlineExceeded: the server does not read. The message may still reach it, in pieces.
            ConnectionClosed: the connection ended.
        """
        payload = encoded(message)
        self._notice_the_end()
        frame = self._link.client.streams.data
        try:
            self._write(
                self._link.client_id, lambda: frame(self._id, payload), self._wait_deadline(timeout_s, self._send_s)
            )
        except LocalProtocolError as error:
            raise self.inbox.error or LocalProtocolError(f"{self.name}: {error.reason}") from None

    def close_send(self) -> None:
        """Close our half; the server's messages can still be received. Raises the errors of `send`."""
        self._notice_the_end()
        frame = self._link.client.streams.close
        self._write(self._link.client_id, lambda: frame(self._id), self._wait_deadline(_ITS_OWN, self._send_s))

    def result(self, timeout_s: float | None = _ITS_OWN) -> M:
        """Close our half and wait for the only reply of a server that does not stream. Raises like `receive`."""
        try:
            self.close_send()
        except ConnectionClosed:
            pass  # the reply may have come before the end
        reply = self.receive(timeout_s)
        if reply is None:
            raise LocalProtocolError(f"{self.name}: there is no reply, or it was already received")
        return reply

    def _notice_the_end(self) -> None:
        """Process bytes that have arrived, if no other thread does: the server may have ended the stream.

        Data for an ended stream crashes some servers (Go's library, 1.2.7), so we avoid sending it.
        """
        if not self.inbox.over:
            self._answerer.poll()

    def close(self) -> None:
        """Give up: close our half, and drop further messages. Has no effect after the end of the stream."""
        link = self._link
        frame = link.client.streams.close
        try:
            if link.closed is None and self._id in link.client.streams:
                self.inbox.drop()  # so that further messages are read, and the server is not blocked
                self._answerer.poll()
                self._write(link.client_id, lambda: frame(self._id), self._wait_deadline(_CLOSE_S, self._send_s))
        except (DeadlineExceeded, ConnectionClosed, ProtocolError):
            pass  # the server notices the end of the connection, or its own deadline
        finally:
            self._forget_stream()

    def _forget_stream(self) -> None:
        link = self._link
        if link.client_streams.pop(self._id, None) is not None:
            link.forget(self._id)
        self.inbox.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Forget an unread stream, which would block its connection."""
        self._forget_stream()


class ServerStream(_Stream[M]):
    """A call with many messages, at the server: iterates over the client's messages.

    Only the client's own timeout, or the end of the connection, limits a handler's wait for the client.

    Attributes:
        request: the request, with deadline and metadata.
    """

    def __init__(self, endpoint: Endpoint, request: Request, request_type: Any) -> None:
        """Store the messages of this request."""
        super().__init__(endpoint, request, request_type, None, SEND_S)
        self.request = request
        self.inbox = self._link.server_streams[request.stream_id] = Inbox(self._link, self._answerer)

    def begin(self, first: Data) -> None:
        """Store a message that came with the request, or the end of the client's half."""
        self.inbox.arrived(first)

    def send(self, message: Any, timeout_s: float | None = _ITS_OWN) -> None:
        """Send a message. Only for a handler that does not yield its replies.

        Args:
            message: a protobuf message, or its bytes.
            timeout_s: seconds; None waits for ever. Default: 30 s.

        Raises: OversizedMessage, DeadlineExceeded, ConnectionClosed; RpcError if the client broke the rules.
        """
        payload = encoded(message)
        frame, stream_id = self._link.server.streams.data, self.request.stream_id
        try:
            deadline = self._wait_deadline(timeout_s, self._send_s)
            self._write(self._link.server_id, lambda: frame(stream_id, payload), deadline)
        except LocalProtocolError as error:
            raise self.inbox.error or LocalProtocolError(f"{self.name}: {error.reason}") from None

    def end(self) -> None:
        """End the stream after the last message."""
        frame, stream_id = self._link.server.streams.close, self.request.stream_id
        self._write(self._link.server_id, lambda: frame(stream_id), self._wait_deadline(_ITS_OWN, self._send_s))

    def forget(self) -> None:
        """Drop further messages, because the handler has returned."""
        self._link.server_streams.pop(self.request.stream_id, None)
        self.inbox.drop()
