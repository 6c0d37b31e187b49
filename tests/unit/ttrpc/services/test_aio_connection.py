"""One connection of the asyncio client: what stops its reading, and what its end means for all that wait."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from nri.errors import (
    ConnectionClosed,
)
from nri.ttrpc import AsyncClient, Method, Server, Service
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.services.aio_connection import AsyncConnection
from nri.ttrpc.services.inbox import ROOM_BYTES, ROOM_MESSAGES
from tests.support.stream_servers import methods, run
from tests.support.streams import DESCRIPTOR, NAME, Item, Streams


def test_a_stream_that_is_not_received_holds_up_the_connection_and_fills_no_memory(path: str) -> None:
    def fast(_: bytes) -> Iterator[bytes]:
        for _ in range(5000):
            yield bytes(2000)

    async def work(client: AsyncClient) -> None:
        stream = client.stream("s", "Fast", streaming="server")
        async with asyncio.timeout(20):
            while len(stream._messages) < ROOM_MESSAGES:  # noqa: ASYNC110 - a stream tells only who receives
                await asyncio.sleep(0.01)
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


async def connected() -> tuple[AsyncConnection, asyncio.StreamWriter, socket.socket]:
    """A connection, what it writes to, and the server's end."""
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=near)
    return AsyncConnection(reader, writer), writer, far


class Stream:
    """In place of a stream: notes what it is told."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self.woken = 0

    def arrived(self, item: object) -> None:
        self.items.append(item)

    def wake(self) -> None:
        self.woken += 1


def work(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 30))  # type: ignore[arg-type]


def answer(side: ClientSide, payload: bytes = b"x") -> tuple[int, bytes]:
    """A request that was made on a side, and the frame that answers it."""
    stream_id, _, _ = side.request("s", "m", b"")
    return stream_id, ServerSide().respond(stream_id, payload)


def test_a_response_goes_to_its_call_and_one_that_nobody_waits_for_nowhere() -> None:
    async def main() -> None:
        connection, _, far = await connected()
        calls = {}
        for number in range(3):
            stream_id, frame = answer(connection.side, b"%d" % number)
            calls[number] = connection.calls[stream_id] = asyncio.get_running_loop().create_future()
            if number == 0:
                calls[0].cancel()
            if number == 1:
                del connection.calls[stream_id]
            far.sendall(frame)
        assert (await calls[2]).payload == b"2"
        assert calls[0].cancelled() and not calls[1].done()
        await connection.close()
        far.close()

    work(main)


def test_while_one_stream_holds_too_much_nothing_is_read_and_others_do_not_change_that() -> None:
    async def main() -> None:
        connection, _, far = await connected()
        first, second = Stream(), Stream()
        connection.streams[1], connection.streams[3] = first, second
        connection.hold(1)
        connection.hold(3)
        stream_id, frame = answer(connection.side)
        call = connection.calls[stream_id] = asyncio.get_running_loop().create_future()
        far.sendall(frame)
        await call  # what was being read when the streams were full still comes
        connection.go_on(1)
        assert not connection._room.is_set()
        connection.forget(3)
        assert connection._room.is_set() and 3 not in connection.streams
        await connection.close()
        far.close()

    work(main)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda far, _: far.close(), "closed"),
        (lambda _, reader: reader.set_exception(ConnectionResetError(104, "Connection reset by peer")), "closed (Conn"),
    ],
)
def test_the_end_wakes_all_that_wait_and_is_kept(end: Callable[..., None], reason: str) -> None:
    async def main() -> None:
        connection, _, far = await connected()
        stream = Stream()
        connection.streams[1] = stream
        call = connection.calls[3] = asyncio.get_running_loop().create_future()
        done = connection.calls[5] = asyncio.get_running_loop().create_future()
        done.cancel()
        end(far, connection._reader)
        with pytest.raises(ConnectionClosed) as caught:
            await call
        assert caught.value.reason.startswith(reason)
        assert stream.woken == 1
        with pytest.raises(ConnectionClosed):
            connection.check()
        connection.write(b"dropped")
        await connection.close()
        assert stream.woken == 1, "it ends once"
        far.close()

    work(main)


def test_a_write_that_the_peer_does_not_take_any_more_is_the_end_with_its_reason() -> None:
    async def main() -> None:
        connection, writer, far = await connected()

        async def reset() -> None:
            raise ConnectionResetError(104, "Connection reset by peer")

        writer.drain = reset  # type: ignore[method-assign]
        with pytest.raises(ConnectionClosed, match="Connection reset by peer"):
            await connection.drain()
        await connection.close()
        with pytest.raises(ConnectionClosed, match="ttrpc: closed"):
            await connection.drain()
        far.close()

    work(main)
