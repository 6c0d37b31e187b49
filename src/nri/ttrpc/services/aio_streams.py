"""Streams of the asyncio client: many messages in one call. Opened by `AsyncClient.stream`.

The rules are those of `nri.ttrpc.services.streams`: every wait has a deadline, and a stream that is received too slowly
holds up its connection. One task may send while another one receives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nri.errors import DeadlineExceeded, LocalProtocolError, RpcError
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.services.codec import decoded, encoded
from nri.ttrpc.services.inbox import ROOM_BYTES, ROOM_MESSAGES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Final, Self

    from nri.interfaces import Streaming
    from nri.ttrpc.halves import Data
    from nri.ttrpc.services.aio_connection import AsyncConnection

__all__ = ["AsyncClientStream"]

M = TypeVar("M")

#: As a timeout: that of the stream.
_ITS_OWN: Final = -1.0


class AsyncClientStream(Generic[M]):
    """A call with many messages. A context manager: leaving it gives up what is left of the stream."""

    def __init__(
        self, connection: AsyncConnection, call: Request, reply_type: Any, streaming: Streaming, wait_s: float | None
    ) -> None:
        """Open the stream; see `AsyncClient.stream`."""
        #: Service and method, as `service/method`.
        self.name = f"{call.service}/{call.method}"
        self._connection, self._side = connection, connection.side
        self._kind = reply_type
        self._wait_s = wait_s
        self._single = streaming == "client"
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + call.timeout_ns / 1e9 if call.timeout_ns else None
        self._messages: deque[bytes] = deque()
        self._size_bytes = 0
        self._news = asyncio.Event()
        self._over = True  # until it is open
        self._error: RpcError | None = None
        self._id, frame = self._side.open(call, sends=streaming != "server", receives=not self._single)
        self._over = False
        connection.streams[self._id] = self
        connection.write(b"".join(frame))

    def arrived(self, item: Response | Data) -> None:
        """Take in what was read."""
        message = item.payload
        if isinstance(item, Response):
            if item.code:
                self._error = RpcError(item.code, item.message)
            if item.code or not (self._single or message):
                message = None
        if message is not None:
            self._messages.append(message)
            self._size_bytes += len(message)
        if isinstance(item, Response) or item.last:
            self._end()
        elif len(self._messages) >= ROOM_MESSAGES or self._size_bytes >= ROOM_BYTES:
            self._connection.hold(self._id)
        self._news.set()

    def wake(self) -> None:
        """Take note that the connection has ended."""
        self._news.set()

    def _end(self) -> None:
        self._over = True
        self._connection.streams.pop(self._id, None)
        self._connection.go_on(self._id)

    async def receive(self, timeout_s: float | None = _ITS_OWN) -> M | None:
        """Wait for the next message; None after the last one. Arguments and errors are those of `ClientStream`."""
        try:
            async with self._limit(timeout_s):
                while not (self._messages or self._over):
                    self._connection.check()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"a message of {self.name}") from None
        if not self._messages:
            if self._error is not None:
                raise self._error
            return None
        payload = self._messages.popleft()
        self._size_bytes -= len(payload)
        if len(self._messages) <= ROOM_MESSAGES // 2 and self._size_bytes <= ROOM_BYTES // 2:
            self._connection.go_on(self._id)
        message: M = decoded(self._kind, payload)
        return message

    async def __aiter__(self) -> AsyncIterator[M]:
        """The messages up to the last one, each waited for as by `receive`."""
        while (message := await self.receive()) is not None:
            yield message

    def _limit(self, timeout_s: float | None) -> asyncio.Timeout:
        """The deadline of a wait: its own, or that of the whole stream."""
        seconds = self._wait_s if timeout_s == _ITS_OWN else timeout_s
        if seconds is None:
            return asyncio.timeout_at(self._deadline)
        until = self._loop.time() + seconds
        return asyncio.timeout_at(until if self._deadline is None else min(until, self._deadline))

    async def send(self, message: Any, timeout_s: float | None = _ITS_OWN) -> None:
        """Send a message, and wait until the server has read enough; arguments and errors as of `ClientStream.send`."""
        self._connection.check()
        try:
            frame = self._side.streams.data(self._id, encoded(message))
        except LocalProtocolError as error:
            raise self._error or LocalProtocolError(f"{self.name}: {error.reason}") from None
        await self._write(frame, timeout_s)

    async def _write(self, frame: bytes, timeout_s: float | None) -> None:
        self._connection.write(frame)
        try:
            async with self._limit(timeout_s):
                await self._connection.drain()
        except TimeoutError:
            raise DeadlineExceeded(f"{self.name}: the peer to read") from None

    async def close_send(self) -> None:
        """Say that we send nothing more; the server's messages can still be received."""
        frame = self._side.streams.close(self._id)
        if frame:
            await self._write(frame, _ITS_OWN)

    async def result(self, timeout_s: float | None = _ITS_OWN) -> M:
        """Close our half and wait for the only reply of a server that does not stream."""
        await self.close_send()
        reply = await self.receive(timeout_s)
        if reply is None:
            raise LocalProtocolError(f"{self.name}: there is no reply, or it was received already")
        return reply

    def close(self) -> None:
        """Give up: our half is closed, and what still comes is dropped. Nothing happens if the stream has ended."""
        self._connection.write(self._side.streams.close(self._id))
        self._connection.forget(self._id)
        self._messages.clear()
        self._size_bytes = 0
        self._over = True
        self._news.set()

    def __del__(self) -> None:
        """A stream that is dropped unread must not hold up its connection. The collector may be in another thread."""
        if not (self._over or self._loop.is_closed()):
            self._loop.call_soon_threadsafe(self._connection.forget, self._id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
