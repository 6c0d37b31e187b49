"""A ttRPC client for asyncio: the same calls and streams as `nri.ttrpc.Client`, in one event loop.

    async with await AsyncClient.connect("/run/my.sock") as client:
        reply = await client.call("my.Echo", "Echo", request, EchoReply, timeout_s=5)
        async for event in client.stream("my.Events", "Watch", request, Event, streaming="server"):
            ...

Not safe for other threads. A separate task reads the connection. It stops while a stream has too many unread messages,
so the peer's writes wait meanwhile. As in `nri.ttrpc.services.streams`, every wait has a deadline. One task may send
while another receives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload
from weakref import WeakValueDictionary

from nri.errors import ConnectionClosed, DeadlineExceeded, LocalProtocolError, ProtocolError, RpcError
from nri.ttrpc.connection import ClientSide
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.services.codec import (
    DEFAULT_TIMEOUT_S,
    WAIT_S,
    check_streaming,
    decoded,
    encoded,
    request_of,
    unreachable,
)
from nri.ttrpc.services.inbox import MAX_INBOX_BYTES, MAX_INBOX_MESSAGES
from nri.ttrpc.waiters import payload_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from typing import Final, Self

    from nri.interfaces import Message, Streaming
    from nri.ttrpc.halves import Data

# Enough for every ordinary message.
_READ_BYTES: Final = 65536


class Receiver(Protocol):
    """The methods of a stream that its connection needs."""

    def arrived(self, item: Response | Data) -> None:
        """Process a message that was read."""

    def wake(self) -> None:
        """Notice the end of the connection."""


class AsyncConnection:
    """A connected unix socket, in one event loop.

    Attributes:
        side: the state of the streams.
        calls, streams: waiting calls and open streams by stream id; a stream disappears when it is garbage-collected.
        closed: the reason why the connection is closed, or None while it is open.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self._writer = reader, writer
        self.side = ClientSide()
        self.calls: dict[int, asyncio.Future[Response]] = {}
        self.streams: WeakValueDictionary[int, Receiver] = WeakValueDictionary()
        self.closed: str | None = None
        self._full: set[int] = set()
        self.room = asyncio.Event()
        self.room.set()
        self._task = asyncio.create_task(self._read(), name="ttrpc-reader")

    async def _read(self) -> None:
        reason = "closed"
        try:
            while chunk := await self.reader.read(_READ_BYTES):
                for item in self.side.receive(chunk):
                    self._take_message(item)
                await self.room.wait()
        except OSError as error:
            reason = f"closed ({error.strerror or error})"
        except ProtocolError as error:
            reason = error.reason
        finally:
            self._fail(reason)

    def _take_message(self, item: Response | Data) -> None:
        """Pass on a message that was read."""
        call = self.calls.pop(item.stream_id, None)
        if call is None:
            stream = self.streams.get(item.stream_id)
            if stream is not None:
                stream.arrived(item)
        elif isinstance(item, Response) and not call.done():
            call.set_result(item)

    def hold(self, stream_id: int) -> None:
        """Stop reading, because the stream with this id is full."""
        self._full.add(stream_id)
        self.room.clear()

    def go_on(self, stream_id: int) -> None:
        """Continue reading, unless another stream is full."""
        self._full.discard(stream_id)
        if not self._full:
            self.room.set()

    def forget(self, stream_id: int) -> None:
        """Drop further messages of a stream."""
        self.side.forget(stream_id)
        self.streams.pop(stream_id, None)
        self.go_on(stream_id)

    def check(self) -> None:
        """Raise ConnectionClosed if the connection is closed."""
        if self.closed is not None:
            raise ConnectionClosed(self.closed)

    def write(self, frame: bytes) -> None:
        """Write a small frame without waiting."""
        if self.closed is None:
            self._writer.write(frame)

    async def drain(self) -> None:
        """Wait until the peer has read enough."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionClosed(self.closed or f"closed ({error.strerror or error})") from None

    def _fail(self, reason: str) -> None:
        """End the connection, with waiting calls and streams."""
        if self.closed is not None:
            return
        self.closed = reason
        self._writer.close()
        for call in self.calls.values():
            if not call.done():
                call.set_exception(ConnectionClosed(reason))
                call.exception()  # marked as retrieved, so that asyncio does not log it
        for stream in list(self.streams.values()):
            stream.wake()

    async def close(self) -> None:
        """Close the connection. Waiting calls and streams fail with ConnectionClosed."""
        self._fail("closed")
        self._task.cancel()
        await asyncio.gather(self._task, self._writer.wait_closed(), return_exceptions=True)


M = TypeVar("M")

#: As a timeout: the timeout of the stream.
_ITS_OWN: Final = -1.0


class AsyncClientStream(Generic[M]):
    """A call with many messages. A context manager that gives up the rest of the stream at its end."""

    def __init__(
        self, connection: AsyncConnection, call: Request, reply_type: Any, streaming: Streaming, wait_s: float | None
    ) -> None:
        """Open the stream; see `AsyncClient.stream`."""
        #: Service and method, as `service/method`.
        self.name = f"{call.service}/{call.method}"
        self.connection, self._side = connection, connection.side
        self._kind = reply_type
        self._wait_s = wait_s
        self._single = streaming == "client"
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + call.timeout_ns / 1e9 if call.timeout_ns else None
        self.messages: deque[bytes] = deque()
        self.size_bytes = 0
        self._news = asyncio.Event()
        self._over = True  # until the stream is open
        self._error: RpcError | None = None
        self._id, frame = self._side.open(call, sends=streaming != "server", receives=not self._single)
        self._over = False
        connection.streams[self._id] = self
        connection.write(b"".join(frame))

    def arrived(self, item: Response | Data) -> None:
        """Process a message that was read."""
        message = item.payload
        if isinstance(item, Response):
            if item.code:
                self._error = RpcError(item.code, item.message)
            if item.code or not (self._single or message):
                message = None
        if message is not None:
            self.messages.append(message)
            self.size_bytes += len(message)
        if isinstance(item, Response) or item.last:
            self._end_stream()
        elif len(self.messages) >= MAX_INBOX_MESSAGES or self.size_bytes >= MAX_INBOX_BYTES:
            self.connection.hold(self._id)
        self._news.set()

    def wake(self) -> None:
        """Notice the end of the connection."""
        self._news.set()

    def _end_stream(self) -> None:
        self._over = True
        self.connection.streams.pop(self._id, None)
        self.connection.go_on(self._id)

    async def receive(self, timeout_s: float | None = _ITS_OWN) -> M | None:
        """Wait for the next message. Returns None after the last. Arguments and errors are those of `ClientStream`."""
        try:
            async with self._limit(timeout_s):
                while not (self.messages or self._over):
                    self.connection.check()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"a message of {self.name}") from None
        if not self.messages:
            if self._error is not None:
                raise self._error
            return None
        payload = self.messages.popleft()
        self.size_bytes -= len(payload)
        if len(self.messages) <= MAX_INBOX_MESSAGES // 2 and self.size_bytes <= MAX_INBOX_BYTES // 2:
            self.connection.go_on(self._id)
        message: M = decoded(self._kind, payload)
        return message

    async def __aiter__(self) -> AsyncIterator[M]:
        """Yield the messages up to the last, waiting like `receive`."""
        while (message := await self.receive()) is not None:
            yield message

    def _limit(self, timeout_s: float | None) -> asyncio.Timeout:
        """The deadline of a wait: its own, or the deadline of the whole stream."""
        seconds = self._wait_s if timeout_s == _ITS_OWN else timeout_s
        if seconds is None:
            return asyncio.timeout_at(self._deadline)
        until = self._loop.time() + seconds
        return asyncio.timeout_at(until if self._deadline is None else min(until, self._deadline))

    async def send(self, message: Any, timeout_s: float | None = _ITS_OWN) -> None:
        """Send a message, and wait until the server has read enough. See `ClientStream.send`."""
        self.connection.check()
        try:
            frame = self._side.streams.data(self._id, encoded(message))
        except LocalProtocolError as error:
            raise self._error or LocalProtocolError(f"{self.name}: {error.reason}") from None
        await self._write(frame, timeout_s)

    async def _write(self, frame: bytes, timeout_s: float | None) -> None:
        self.connection.write(frame)
        try:
            async with self._limit(timeout_s):
                await self.connection.drain()
        except TimeoutError:
            raise DeadlineExceeded(f"{self.name}: the peer to read") from None

    async def close_send(self) -> None:
        """Close our half; the server's messages can still be received."""
        frame = self._side.streams.close(self._id)
        if frame:
            await self._write(frame, _ITS_OWN)

    async def result(self, timeout_s: float | None = _ITS_OWN) -> M:
        """Close our half and wait for the only reply of a server that does not stream."""
        await self.close_send()
        reply = await self.receive(timeout_s)
        if reply is None:
            raise LocalProtocolError(f"{self.name}: there is no reply, or it was already received")
        return reply

    def close(self) -> None:
        """Give up: close our half, and drop further messages. Has no effect after the end of the stream."""
        self.connection.write(self._side.streams.close(self._id))
        self.connection.forget(self._id)
        self.messages.clear()
        self.size_bytes = 0
        self._over = True
        self._news.set()

    def __del__(self) -> None:
        """Forget an unread stream, which would block its connection. The garbage collector may be in another thread."""
        if not (self._over or self._loop.is_closed()):
            self._loop.call_soon_threadsafe(self.connection.forget, self._id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


T = TypeVar("T", bound="Message")


class AsyncClient:
    """Calls over one connection, from one event loop."""

    def __init__(self, connection: AsyncConnection) -> None:
        if isinstance(connection, str):
            raise TypeError("AsyncClient requires a connection, not a path: write await AsyncClient.connect(path)")
        self.connection = connection

    @classmethod
    async def connect(cls, path: str) -> AsyncClient:
        """Connect to a unix socket. Raises RuntimeUnavailable with the path and the reason."""
        try:
            return cls(AsyncConnection(*await asyncio.open_unix_connection(path)))
        except OSError as error:
            raise unreachable(path, error) from None

    @property
    def closed(self) -> str | None:
        """The reason why the connection is closed, or None while it is open."""
        return self.connection.closed

    @overload
    async def call(
        self, service: str, method: str, request: Message | bytes = b"", reply_type: None = None, *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S, metadata: Iterable[tuple[str, str]] = (),
    ) -> bytes: ...  # fmt: skip

    @overload
    async def call(
        self, service: str, method: str, request: Message | bytes, reply_type: type[T], *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S, metadata: Iterable[tuple[str, str]] = (),
    ) -> T: ...  # fmt: skip

    async def call(
        self,
        service: str,
        method: str,
        request: Any = b"",
        reply_type: Any = None,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> Any:
        """Call and wait, as `Client.call`. Cancelling the task gives up the call."""
        connection, side = self.connection, self.connection.side
        connection.check()
        call = request_of(service, method, request, timeout_s, metadata)
        stream_id, frame, _ = side.request(service, method, call.payload, call.timeout_ns, call.metadata)
        answer = connection.calls[stream_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout_s):
                connection.write(b"".join(frame))
                await connection.drain()
                response = await answer
        except TimeoutError:
            raise DeadlineExceeded(method) from None
        finally:
            connection.calls.pop(stream_id, None)
            side.forget(stream_id)
        return decoded(reply_type, payload_of(response))

    @overload
    def stream(
        self, service: str, method: str, request: Message | bytes | None = None, reply_type: None = None, *,
        streaming: Streaming = "both", timeout_s: float | None = None, wait_s: float | None = WAIT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> AsyncClientStream[bytes]: ...  # fmt: skip

    @overload
    def stream(
        self, service: str, method: str, request: Message | bytes | None, reply_type: type[T], *,
        streaming: Streaming = "both", timeout_s: float | None = None, wait_s: float | None = WAIT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> AsyncClientStream[T]: ...  # fmt: skip

    def stream(
        self,
        service: str,
        method: str,
        request: Any = None,
        reply_type: Any = None,
        *,
        streaming: Streaming = "both",
        timeout_s: float | None = None,
        wait_s: float | None = WAIT_S,
        metadata: Iterable[tuple[str, str]] = (),
    ) -> Any:
        """Open a stream, as `Client.stream`."""
        self.connection.check()
        check_streaming(streaming)
        call = request_of(service, method, request, timeout_s, metadata)
        return AsyncClientStream(self.connection, call, reply_type, streaming, wait_s)

    def service(self, descriptor: Any) -> Any:
        """The methods of a generated service as coroutines, as `Client.service`."""
        from nri.ttrpc.services.descriptors import ServiceClient

        return ServiceClient(self, descriptor)

    async def close(self) -> None:
        """Close the connection. Pending and later calls fail with ConnectionClosed."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
