"""One connection of the asyncio client: what stops its reading, and what its end means for all that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from nri.errors import (
    ConnectionClosed,
)
from nri.ttrpc import AsyncClient, Method, Server, Service
from nri.ttrpc.services.inbox import ROOM_BYTES, ROOM_MESSAGES
from tests.support.stream_servers import methods, run
from tests.support.streams import DESCRIPTOR, NAME, Item, Streams


def test_a_stream_that_is_not_received_holds_up_the_connection_and_fills_no_memory(path: str) -> None:
    def fast(_: bytes) -> Iterator[bytes]:
        for _ in range(5000):
            yield bytes(2000)

    async def work(client: AsyncClient) -> None:
        stream = client.stream("s", "Fast", streaming="server")
        await asyncio.sleep(0.3)
        held = len(stream._messages)
        assert ROOM_MESSAGES <= held <= ROOM_MESSAGES + 65536 // 2000 + 1
        assert stream._size_bytes <= ROOM_BYTES + 65536
        assert [len(message) async for message in stream] == [2000] * 5000
        async with client.stream("s", "Fast", streaming="server") as given_up:
            await asyncio.sleep(0.1)
            assert await given_up.receive() == bytes(2000)
        assert await client.call("s", "Look", b"x") == b"x"

    run(path, work, methods(Fast=Method(fast, streaming="server"), Look=Method(lambda payload: payload)))


def test_the_end_of_the_connection_ends_every_wait(path: str) -> None:
    async def main() -> None:
        server = Server(path, [Service.of(DESCRIPTOR, Streams())])
        server.start()
        async with await AsyncClient.connect(path) as client:
            stream = client.stream(NAME, "Relay", None, Item)
            await stream.send(Item(number=1))
            assert await stream.receive() == Item(number=1)
            waiting = asyncio.create_task(stream.receive())
            await asyncio.sleep(0.05)
            await asyncio.to_thread(server.stop, 0.1)
            with pytest.raises(ConnectionClosed):
                await waiting
            assert client.closed == "closed"
            for fails in (client.call(NAME, "Look"), stream.receive(), stream.send(Item())):
                with pytest.raises(ConnectionClosed):
                    await fails
            with pytest.raises(ConnectionClosed):
                client.stream(NAME, "Relay")

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_peer_that_does_not_speak_ttrpc_ends_the_connection(path: str) -> None:
    async def main() -> None:
        async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00" * 3)  # responses, the first of them to our call
            await writer.drain()
            writer.close()

        server = await asyncio.start_unix_server(garbage, path)
        async with server, await AsyncClient.connect(path) as client:
            assert await client.call("s", "m") == b""
            with pytest.raises(ConnectionClosed):
                await client.call("s", "m")

    asyncio.run(asyncio.wait_for(main(), 30))
