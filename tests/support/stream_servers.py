"""Servers with one method or a few, for tests of `nri.ttrpc.services`, and an event loop that calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from nri.ttrpc import AsyncClient, Method, Server, Service
from tests.support.streams import DESCRIPTOR, Streams


def methods(**rows: Method) -> Service:
    """A service `s` with these methods."""
    return Service("s", rows)


def serving(path: str, streaming: Any, function: Callable[..., Any], **options: Any) -> Server:
    """A server with one method `M`, whose messages are bytes."""
    return Server(path, [methods(M=Method(function, streaming=streaming, **options))])


def run(path: str, work: Callable[[AsyncClient], Awaitable[None]], *services: Service) -> None:
    """Connect to a server with these services, and do the work in an event loop."""

    async def main() -> None:
        async with await AsyncClient.connect(path) as client:
            await work(client)

    with Server(path, services or [Service.of(DESCRIPTOR, Streams())]):
        asyncio.run(asyncio.wait_for(main(), 30))
