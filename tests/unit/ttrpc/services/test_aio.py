"""The asyncio client: calls, errors and construction."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from nri.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    OversizedMessage,
    RpcError,
    RuntimeUnavailable,
)
from nri.ttrpc import AsyncClient, AsyncClientStream, Code, Method, Server, ServerStream, Service
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.services.aio import AsyncConnection
from nri.ttrpc.services.inbox import MAX_INBOX_BYTES, MAX_INBOX_MESSAGES
from tests.support.stream_servers import methods, run
from tests.support.streams import DESCRIPTOR, NAME, Item, ListRequest, Streams, Summary, items
from tests.support.waiting import PATIENCE_S


@pytest.mark.parametrize(("count", "size"), [(5000, 2000), (300, 100_000)], ids=["messages", "bytes"])
def test_an_unread_stream_blocks_the_connection_and_uses_bounded_memory(path: str, count: int, size: int) -> None:
    def fast(_: bytes) -> Iterator[bytes]:
        for _ in range(count):
            yield bytes(size)

    async def work(client: AsyncClient) -> None:
        stream = client.stream("s", "Fast", streaming="server")
        async with asyncio.timeout(20):
            while len(stream.messages) < MAX_INBOX_MESSAGES and stream.size_bytes < MAX_INBOX_BYTES:  # noqa: ASYNC110 - a stream notifies only its receiver
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        holder = len(stream.messages)
        assert holder <= MAX_INBOX_MESSAGES + 65536 // size + 1
        assert stream.size_bytes <= MAX_INBOX_BYTES + 65536 + size
        assert [len(message) async for message in stream] == [size] * count
        async with client.stream("s", "Fast", streaming="server") as given_up:
            await asyncio.sleep(0.1)
            assert await given_up.receive() == bytes(size)
        assert await client.call("s", "Look", b"x") == b"x"

    run(path, work, methods(Fast=Method(fast, streaming="server"), Look=Method(lambda payload: payload)))


def test_the_end_of_the_connection_ends_every_call_and_stream(path: str) -> None:
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


def test_bytes_that_are_not_ttrpc_end_the_connection(path: str) -> None:
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
    local, remote = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=local)
    return AsyncConnection(reader, writer), writer, remote


class Stream:
    """Stands in for a stream: records its items and counts its wakes."""

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


def test_a_response_reaches_its_call_and_an_unexpected_response_is_dropped() -> None:
    async def main() -> None:
        connection, _, remote = await connected()
        calls = {}
        for number in range(3):
            stream_id, frame = answer(connection.side, b"%d" % number)
            calls[number] = connection.calls[stream_id] = asyncio.get_running_loop().create_future()
            if number == 0:
                calls[0].cancel()
            if number == 1:
                del connection.calls[stream_id]
            remote.sendall(frame)
        assert (await calls[2]).payload == b"2"
        assert calls[0].cancelled() and not calls[1].done()
        await connection.close()
        remote.close()

    work(main)


def test_a_full_stream_stops_reading_for_all_streams() -> None:
    async def main() -> None:
        connection, _, remote = await connected()
        first, second = Stream(), Stream()
        connection.streams[1], connection.streams[3] = first, second
        connection.hold(1)
        connection.hold(3)
        stream_id, frame = answer(connection.side)
        call = connection.calls[stream_id] = asyncio.get_running_loop().create_future()
        remote.sendall(frame)
        await call  # what was being read when the streams were full still comes
        connection.go_on(1)
        assert not connection.room.is_set()
        connection.forget(3)
        assert connection.room.is_set() and 3 not in connection.streams
        await connection.close()
        remote.close()

    work(main)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda remote, _: remote.close(), "closed"),
        (lambda _, reader: reader.set_exception(ConnectionResetError(104, "Connection reset by peer")), "closed (Conn"),
    ],
)
def test_the_end_of_the_connection_wakes_every_waiter_and_is_stored(end: Callable[..., None], reason: str) -> None:
    async def main() -> None:
        connection, _, remote = await connected()
        stream = Stream()
        connection.streams[1] = stream
        call = connection.calls[3] = asyncio.get_running_loop().create_future()
        future = connection.calls[5] = asyncio.get_running_loop().create_future()
        future.cancel()
        end(remote, connection.reader)
        with pytest.raises(ConnectionClosed) as caught:
            await call
        assert caught.value.reason.startswith(reason)
        assert stream.woken == 1
        with pytest.raises(ConnectionClosed):
            connection.check()
        connection.write(b"dropped")
        await connection.close()
        assert stream.woken == 1, "it ends once"
        remote.close()

    work(main)


def test_a_failed_write_ends_the_connection_with_its_reason() -> None:
    async def main() -> None:
        connection, writer, remote = await connected()

        async def reset() -> None:
            raise ConnectionResetError(104, "Connection reset by peer")

        writer.drain = reset  # type: ignore[method-assign]
        with pytest.raises(ConnectionClosed, match="Connection reset by peer"):
            await connection.drain()
        await connection.close()
        with pytest.raises(ConnectionClosed, match="ttrpc: closed"):
            await connection.drain()
        remote.close()

    work(main)


def test_a_connection_that_ends_during_a_write_fails_only_that_call(path: str) -> None:
    async def main() -> None:
        messages: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: messages.append(context["message"]))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            async with await AsyncClient.connect(path) as client:
                peer, _ = listener.accept()
                call = asyncio.create_task(client.call("s", "Big", bytes(3 << 20)))
                assert await asyncio.to_thread(peer.recv, 1)
                peer.close()
                with pytest.raises(ConnectionClosed):
                    await call
                del call
        gc.collect()
        assert messages == []

    work(main)


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_every_kind_of_stream_works(path: str, count: int) -> None:
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


def test_a_failed_stream_raises_its_status_after_its_messages(path: str) -> None:
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
        assert not client.connection.streams

    run(path, work)


def test_a_closed_half_refuses_to_send(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        async with client.stream(NAME, "Relay", None, Item) as stream:
            await stream.close_send()
            with pytest.raises(LocalProtocolError, match=r"Relay: cannot send"):
                await stream.send(Item())
            assert await stream.receive() is None
            with pytest.raises(LocalProtocolError, match="no reply"):
                await stream.result()

    run(path, work)


def test_a_receive_has_its_own_deadline_and_the_streams(path: str) -> None:
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


def test_an_abandoned_stream_leaves_the_connection_usable(path: str) -> None:
    def fast(_: bytes) -> Iterator[bytes]:
        for _ in range(3000):
            yield bytes(2000)

    async def work(client: AsyncClient) -> None:
        stream: AsyncClientStream[bytes] | None = client.stream("s", "Fast", streaming="server")
        async with asyncio.timeout(PATIENCE_S):
            while stream is not None and not stream.messages:  # noqa: ASYNC110 - a stream notifies only its receiver
                await asyncio.sleep(0.01)
        stream = None
        gc.collect()
        assert await client.call("s", "Look", b"x") == b"x"
        assert not client.connection.streams

    run(path, work, methods(Fast=Method(fast, streaming="server"), Look=Method(lambda payload: payload)))


def test_a_send_to_a_server_that_does_not_read_ends_at_its_deadline(path: str) -> None:
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


def test_calls_run_concurrently(path: str) -> None:
    meet = threading.Barrier(3, timeout=PATIENCE_S)

    async def work(client: AsyncClient) -> None:
        replies = await asyncio.gather(*(client.call("s", "Meet", b"%d" % n) for n in range(3)))
        assert replies == [b"0", b"1", b"2"]

    run(path, work, methods(Meet=Method(lambda payload: (meet.wait(), payload)[1])))


def test_statuses_deadlines_and_oversized_requests_affect_only_their_call(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        with pytest.raises(RpcError) as caught:
            await client.call(NAME, "Look", Item(code=Code.NOT_FOUND, message="no luck"), Item)
        assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, "no luck")
        with pytest.raises(OversizedMessage):
            await client.call(NAME, "Look", bytes(4 << 20))
        with pytest.raises(OversizedMessage):
            client.stream(NAME, "List", bytes(4 << 20), streaming="server")
        gc.collect()
        with pytest.raises(RpcError, match="unmarshalling"):
            await client.call(NAME, "Look", Item(payload=b"\xff"), _Broken)
        assert (await client.call(NAME, "Look", Item(number=3), Item)).number == 3

    run(path, work)


class _Broken:
    @staticmethod
    def FromString(data: bytes) -> None:
        raise ValueError("broken")


def test_a_late_reply_and_a_cancelled_call_leave_the_connection_usable(path: str) -> None:
    go = threading.Event()

    def slow(payload: bytes) -> bytes:
        if payload:
            go.wait(PATIENCE_S)
        return payload

    async def work(client: AsyncClient) -> None:
        with pytest.raises(DeadlineExceeded):
            await client.call("s", "Slow", b"x", timeout_s=0.05)
        task = asyncio.create_task(client.call("s", "Slow", b"y"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await client.call("s", "Slow") == b""
        go.set()
        await asyncio.sleep(0.1)  # the late answers arrive, and are dropped
        assert await client.call("s", "Slow") == b""
        assert not client.connection.calls

    run(path, work, methods(Slow=Method(slow)))


def test_metadata_and_timeout_reach_the_server(path: str) -> None:
    calls: list[Any] = []

    async def work(client: AsyncClient) -> None:
        await client.call("s", "Look", metadata=[("Team", "a")], timeout_s=3)

    run(path, work, methods(Look=Method(lambda _, request: calls.append(request) or b"", wants_request=True)))
    assert calls[0].metadata == (("team", "a"),)
    assert calls[0].timeout_ns == 3_000_000_000


def test_a_missing_socket_is_an_error_with_its_path(path: str) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"cannot connect to .*s\.sock: No such file"):
        asyncio.run(AsyncClient.connect(path))


def test_the_methods_of_a_descriptors_client_are_awaitable(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        streams = client.service(DESCRIPTOR)
        assert (await streams.Look(Item(number=4))).number == 4
        assert [item.number async for item in streams.list(ListRequest(count=2))] == [0, 1]

    run(path, work)


def test_importing_other_names_does_not_import_asyncio() -> None:
    text = "import sys; from nri.ttrpc import Client, Server, Service, ClientStream; print('asyncio' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert process.stdout == "False\n"


def test_a_path_instead_of_a_connection_is_an_error_with_the_right_call(path: str) -> None:
    with pytest.raises(TypeError, match=r"requires a connection, not a path: write await AsyncClient.connect\(path\)"):
        AsyncClient(path)  # type: ignore[arg-type]
