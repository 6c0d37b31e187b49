"""One connection of the asyncio client: a task that reads, and who waits for what. Pure `ClientSide` beneath it.

The task stops reading while a stream holds too much that was not received yet, so the peer's writes wait meanwhile.
Not safe for other threads. Calls are in `nri.ttrpc.services.aio`, streams in `nri.ttrpc.services.aio_streams`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from weakref import WeakValueDictionary

from nri.errors import ConnectionClosed, ProtocolError
from nri.ttrpc.connection import ClientSide
from nri.ttrpc.envelope import Response

if TYPE_CHECKING:
    from typing import Final

    from nri.ttrpc.halves import Data

__all__ = ["AsyncConnection"]

# Enough for every ordinary message in one read.
_READ: Final = 65536


class Receiver(Protocol):
    """A stream, as far as the connection knows it."""

    def arrived(self, item: Response | Data) -> None:
        """Take in what was read."""

    def wake(self) -> None:
        """Take note that the connection has ended."""


class AsyncConnection:
    """A connected unix socket, in one event loop.

    Attributes:
        side: what is known of the streams.
        calls, streams: who waits for what comes on which stream; a stream that is dropped unread is no more there.
        closed: the reason why the connection is closed, or None while it is open.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.side = ClientSide()
        self.calls: dict[int, asyncio.Future[Response]] = {}
        self.streams: WeakValueDictionary[int, Receiver] = WeakValueDictionary()
        self.closed: str | None = None
        self._full: set[int] = set()
        self._room = asyncio.Event()
        self._room.set()
        self._task = asyncio.create_task(self._read(), name="ttrpc-reader")

    async def _read(self) -> None:
        reason = "closed"
        try:
            while chunk := await self._reader.read(_READ):
                for item in self.side.receive(chunk):
                    self._take(item)
                await self._room.wait()
        except OSError as error:
            reason = f"closed ({error.strerror or error})"
        except ProtocolError as error:
            reason = error.reason
        finally:
            self._fail(reason)

    def _take(self, item: Response | Data) -> None:
        """Hand out what was read."""
        call = self.calls.pop(item.stream_id, None)
        if call is None:
            stream = self.streams.get(item.stream_id)
            if stream is not None:
                stream.arrived(item)
        elif isinstance(item, Response) and not call.done():
            call.set_result(item)

    def hold(self, stream_id: int) -> None:
        """Stop reading, because this stream holds too much."""
        self._full.add(stream_id)
        self._room.clear()

    def go_on(self, stream_id: int) -> None:
        """Go on reading, as far as this stream is concerned."""
        self._full.discard(stream_id)
        if not self._full:
            self._room.set()

    def forget(self, stream_id: int) -> None:
        """Drop what still comes for a stream."""
        self.side.forget(stream_id)
        self.streams.pop(stream_id, None)
        self.go_on(stream_id)

    def check(self) -> None:
        """Raise ConnectionClosed if it is closed."""
        if self.closed is not None:
            raise ConnectionClosed(self.closed)

    def write(self, frame: bytes) -> None:
        """Write, without a wait; for what is small."""
        if self.closed is None:
            self._writer.write(frame)

    async def drain(self) -> None:
        """Wait until the peer has read enough of what was written."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionClosed(self.closed or f"closed ({error.strerror or error})") from None

    def _fail(self, reason: str) -> None:
        """End the connection, and all that waits."""
        if self.closed is not None:
            return
        self.closed = reason
        self._writer.close()
        for call in self.calls.values():
            if not call.done():
                call.set_exception(ConnectionClosed(reason))
        for stream in list(self.streams.values()):
            stream.wake()

    async def close(self) -> None:
        """Close; all that waits fails with ConnectionClosed."""
        self._fail("closed")
        self._task.cancel()
        await asyncio.gather(self._task, self._writer.wait_closed(), return_exceptions=True)
