"""Unread messages of streams: bounded, and read by any waiting thread."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nri.errors import DeadlineExceeded
from nri.ttrpc import Client, ClientStream, Method, Server, ServerStream, Service
from nri.ttrpc.services.inbox import MAX_INBOX_BYTES, MAX_INBOX_MESSAGES
from tests.support.stream_servers import serving
from tests.support.streams import NAME, Item, ListRequest
from tests.support.waiting import PATIENCE_S, wait_for


def send_on(stream: ClientStream[Any], message: Any, timeout_s: float = 5.0, pause_s: float = 0.0) -> None:
    """Send the same message again and again, until that fails."""
    for _ in range(10_000):
        stream.send(message, timeout_s)
        time.sleep(pause_s)


def test_a_calling_thread_reads_messages_for_a_stream_of_another_thread(client: Client) -> None:
    got: list[int] = []
    stream = client.stream(NAME, "List", ListRequest(count=50, delay_ms=2), Item, streaming="server")
    reader = threading.Thread(target=lambda: got.extend(item.number for item in stream))
    reader.start()
    for n in range(200):
        assert client.call(NAME, "Look", Item(number=n), Item).number == n
    reader.join(PATIENCE_S)
    assert got == list(range(50))


def test_concurrent_streams_and_calls_get_their_own_messages(client: Client) -> None:
    wrong: list[object] = []

    def stream(n: int) -> None:
        for _ in range(5):
            with client.stream(NAME, "Relay", None, Item) as stream:
                for number in range(n, n + 30):
                    stream.send(Item(number=number))
                stream.close_send()
                got = [item.number for item in stream]
                if got != list(range(n, n + 30)):
                    wrong.append(got)

    def call(n: int) -> None:
        for i in range(100):
            reply = client.call(NAME, "Look", Item(number=n + i), Item)
            if reply.number != n + i:
                wrong.append(reply)

    threads = [threading.Thread(target=work, args=(n * 1000,)) for n in range(4) for work in (stream, call)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a wait does not end"
    assert wrong == []


def test_a_receive_can_time_out_without_ending_the_stream(path: str) -> None:
    go = threading.Event()

    def late(_: Any) -> Iterator[bytes]:
        assert go.wait(PATIENCE_S)
        yield b"late"

    with serving(path, "server", late), Client.connect(path) as client:
        stream = client.stream("s", "M", streaming="server", wait_s=0.05)
        for _ in range(2):
            with pytest.raises(DeadlineExceeded, match="a message of s/M"):
                stream.receive()
        go.set()
        assert stream.receive(PATIENCE_S) == b"late"


def test_a_cancelled_stream_leaves_the_connection_usable(client: Client) -> None:
    for _ in range(5):
        with client.stream(NAME, "List", ListRequest(count=5000, size=500), Item, streaming="server") as stream:
            assert next(iter(stream)).number == 0
        assert client.call(NAME, "Look", Item(number=1), Item).number == 1
    assert not client.endpoint.link.client_streams
    assert not client.endpoint.link.full


def test_an_abandoned_stream_leaves_the_connection_usable(client: Client) -> None:
    stream: ClientStream[Any] | None = client.stream(
        NAME, "List", ListRequest(count=5000, size=500), Item, streaming="server"
    )
    assert stream is not None
    stream.receive()
    stream = None
    gc.collect()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_client_that_stops_reading_blocks_the_server_and_uses_bounded_memory(path: str) -> None:
    sent: list[int] = []

    def fast(_: Any) -> Iterator[bytes]:
        for n in range(4000):
            sent.append(n)
            yield bytes(4096)

    def behind(_: Any) -> bytes:
        wait_for(lambda: len(sent) > 600, "the stream continues while a call waits")
        return b"late"

    methods = {"Fast": Method(fast, streaming="server"), "Behind": Method(behind)}
    with Server(path, [Service("s", methods)]), Client.connect(path) as client:
        stream = client.stream("s", "Fast", streaming="server")

        def full() -> bool:
            with pytest.raises(DeadlineExceeded):  # it reads, until the stream holds too much
                client.call("s", "Behind", timeout_s=0.5)
            return len(stream.inbox.messages) >= MAX_INBOX_MESSAGES

        def at_rest() -> bool:
            before = len(sent)
            time.sleep(0.05)
            return len(sent) == before

        wait_for(full, "the stream holds all that it may")
        assert len(stream.inbox.messages) < MAX_INBOX_MESSAGES + 100
        wait_for(at_rest, "the server sends no more")
        assert len(sent) < 600, "the server sends on and on"
        assert [len(message) for message in stream] == [4096] * 4000
        assert client.call("s", "Behind") == b"late"


def test_a_slow_handler_blocks_its_client_and_uses_bounded_memory(path: str) -> None:
    go = threading.Event()
    streams: list[ServerStream[bytes]] = []

    def slow(stream: ServerStream[bytes]) -> bytes:
        streams.append(stream)
        assert go.wait(PATIENCE_S)
        return b"%d" % sum(len(message) for message in stream)

    with serving(path, "client", slow), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client") as stream:

            def full() -> bool:
                with pytest.raises(DeadlineExceeded):
                    send_on(stream, bytes(10_000), 0.3)
                return bool(streams) and streams[0].inbox.size_bytes >= MAX_INBOX_BYTES

            wait_for(full, "the server takes all that it may")
            assert streams[0].inbox.size_bytes < MAX_INBOX_BYTES + (1 << 18)
            go.set()
            assert int(stream.result()) >= MAX_INBOX_BYTES


def test_a_slow_handler_blocks_only_its_connection(path: str) -> None:
    go = threading.Event()
    methods = {
        "Slow": Method(lambda stream: (go.wait(PATIENCE_S) and b"") or b"", streaming="client"),
        "Quick": Method(lambda payload: payload),
    }
    with Server(path, [Service("s", methods)]), Client.connect(path) as client, Client.connect(path) as other:
        with client.stream("s", "Slow", streaming="client") as stream:
            with pytest.raises(DeadlineExceeded):
                send_on(stream, bytes(100_000), 0.2)
            assert other.call("s", "Quick", b"x") == b"x"
            go.set()
