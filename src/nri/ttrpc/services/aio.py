"""A ttRPC client for asyncio: the same calls and streams as `nri.ttrpc.Client`, in one event loop.

    async with await AsyncClient.connect("/run/my.sock") as client:
        reply = await client.call("my.Echo", "Echo", request, EchoReply, timeout_s=5)
        async for event in client.stream("my.Events", "Watch", request, Event, streaming="server"):
            ...

Not safe for other threads. The connection is `nri.ttrpc.services.aio_connection`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, overload

from nri.errors import DeadlineExceeded
from nri.ttrpc.services.aio_connection import AsyncConnection
from nri.ttrpc.services.aio_streams import AsyncClientStream
from nri.ttrpc.services.codec import DEFAULT_TIMEOUT_S, WAIT_S, check_streaming, decoded, request_of, unreachable
from nri.ttrpc.waiters import payload_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from nri.interfaces import Message, Streaming

__all__ = ["AsyncClient"]

T = TypeVar("T", bound="Message")


class AsyncClient:
    """Calls over one connection, from one event loop."""

    def __init__(self, connection: AsyncConnection) -> None:
        if isinstance(connection, str):
            raise TypeError("AsyncClient takes a connection, not a path: write await AsyncClient.connect(path)")
        self._connection = connection

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
        return self._connection.closed

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
        """Call and wait: as `Client.call`. A task that is cancelled gives up its call."""
        connection, side = self._connection, self._connection.side
        connection.check()
        asked = request_of(service, method, request, timeout_s, metadata)
        stream_id, frame, _ = side.request(service, method, asked.payload, asked.timeout_ns, asked.metadata)
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
        """Open a stream: as `Client.stream`."""
        self._connection.check()
        check_streaming(streaming)
        asked = request_of(service, method, request, timeout_s, metadata)
        return AsyncClientStream(self._connection, asked, reply_type, streaming, wait_s)

    def service(self, descriptor: Any) -> Any:
        """The methods of a generated service, to be awaited: as `Client.service`."""
        from nri.ttrpc.services.descriptors import ServiceClient

        return ServiceClient(self, descriptor)

    async def close(self) -> None:
        """Close; pending and later calls fail with ConnectionClosed."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
