"""Streams of the asyncio client: every way to stream, errors on either side, and every wait."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from nri.errors import (
    DeadlineExceeded,
    LocalProtocolError,
    RpcError,
)
from nri.ttrpc import AsyncClient, AsyncClientStream, Code, Method, ServerStream
from tests.support.stream_servers import methods, run
from tests.support.streams import NAME, Item, ListRequest, Summary, items

PATIENCE_S = 10.0


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_every_way_to_stream(path: str, count: int) -> None:
    async def work(client: AsyncClient) -> None:
        listed = client.stream(NAME, "List", ListRequest(count=count), Item, streaming="server")
        assert [item.number async for item in listed] == list(range(count))
        async with client.stream(NAME, "Collect", None, Summary, streaming="client") as collected:
            for item in items(count):
                await collected.send(item)
            assert (await collected.result()).count == count
        async with client.stream(NAME, "Relay", None, Item) as relayed:

            async def send() -> None:
                for item in items(count, 500):
                    await relayed.send(item)
                await relayed.close_send()

            sending = asyncio.create_task(send())
            assert [item.number async for item in relayed] == list(range(count))
            await sending
            assert await relayed.receive() is None

    run(path, work)


def test_a_stream_that_fails_says_why_after_its_messages(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        request = ListRequest(count=2, code=Code.ABORTED, message="enough")
        stream = client.stream(NAME, "List", request, Item, streaming="server")
        assert [await stream.receive(), await stream.receive()] == list(items(2))
        for _ in range(2):
            with pytest.raises(RpcError, match="enough"):
                await stream.receive()
        async with client.stream(NAME, "Relay", None, Item) as relayed:
            await relayed.send(Item(code=Code.ABORTED, message="not this"))
            with pytest.raises(RpcError, match="not this"):
                await relayed.receive()
            with pytest.raises(RpcError, match="not this"):
                await relayed.send(Item())
            await relayed.close_send()  # nothing to close any more
        assert not client._connection.streams

    run(path, work)


def test_a_half_that_is_closed_sends_nothing(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        async with client.stream(NAME, "Relay", None, Item) as stream:
            await stream.close_send()
            with pytest.raises(LocalProtocolError, match=r"Relay: nothing can be sent any more"):
                await stream.send(Item())
            assert await stream.receive() is None
            with pytest.raises(LocalProtocolError, match="there is no reply"):
                await stream.result()

    run(path, work)


def test_waits_have_deadlines_of_their_own_and_of_the_stream(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        async with client.stream("s", "Silent", streaming="client", wait_s=0.05) as stream:
            for _ in range(2):
                with pytest.raises(DeadlineExceeded, match="a message of s/Silent"):
                    await stream.receive()
        async with client.stream("s", "Silent", streaming="client", timeout_s=0.1, wait_s=None) as stream:
            with pytest.raises((DeadlineExceeded, RpcError), match=r"(?i)deadline ?exceeded"):
                await stream.receive()

    def silent(stream: ServerStream[bytes]) -> bytes:
        return b"".join(stream)

    run(path, work, methods(Silent=Method(silent, streaming="client")))


def test_a_stream_that_is_dropped_unread_lets_the_connection_go_on(path: str) -> None:
    def fast(_: bytes) -> Iterator[bytes]:
        for _ in range(3000):
            yield bytes(2000)

    async def work(client: AsyncClient) -> None:
        stream: AsyncClientStream[bytes] | None = client.stream("s", "Fast", streaming="server")
        await asyncio.sleep(0.2)
        assert stream is not None
        assert stream._messages
        stream = None
        gc.collect()
        assert await client.call("s", "Look", b"x") == b"x"
        assert not client._connection.streams

    run(path, work, methods(Fast=Method(fast, streaming="server"), Look=Method(lambda payload: payload)))


def test_a_server_that_does_not_read_costs_a_wait(path: str) -> None:
    go = threading.Event()

    async def work(client: AsyncClient) -> None:
        async with client.stream("s", "Slow", streaming="client") as stream:
            with pytest.raises(DeadlineExceeded, match="the peer to read"):
                await send_on(stream)
            go.set()
            assert await stream.result() == b"done"

    def slow(stream: ServerStream[bytes]) -> bytes:
        assert go.wait(PATIENCE_S)
        list(stream)
        return b"done"

    run(path, work, methods(Slow=Method(slow, streaming="client")))


async def send_on(stream: AsyncClientStream[bytes]) -> None:
    for _ in range(1000):
        await stream.send(bytes(100_000), 0.2)
