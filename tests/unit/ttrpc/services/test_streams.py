"""Streams between our client and server: all kinds of streams, errors on both sides, and all waits."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nri.errors import ConnectionClosed, DeadlineExceeded, LocalProtocolError, OversizedMessage, RpcError
from nri.ttrpc import Client, ClientStream, Code, Method, Server, ServerStream, Service
from tests.support.stream_servers import serving
from tests.support.streams import NAME, Item, ListRequest, Summary, items
from tests.support.waiting import PATIENCE_S, wait_for


def send_on(stream: ClientStream[Any], message: Any, timeout_s: float = 5.0, pause_s: float = 0.0) -> None:
    """Send the same message again and again, until that fails."""
    for _ in range(10_000):
        stream.send(message, timeout_s)
        time.sleep(pause_s)


# -- the ways to stream -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_messages_of_a_server_stream_arrive_in_order(client: Client, count: int) -> None:
    stream = client.stream(NAME, "List", ListRequest(count=count, size=7), Item, streaming="server")
    assert [item.number for item in stream] == list(range(count))
    assert stream.receive() is None, "the end stays the end"


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_a_client_stream_gets_one_reply(client: Client, count: int) -> None:
    with client.stream(NAME, "Collect", None, Summary, streaming="client") as stream:
        for item in items(count, 10):
            stream.send(item)
        summary = stream.result()
    assert (summary.count, summary.bytes, summary.ordered) == (count, 10 * count, True)


def test_both_sides_can_stream_at_the_same_time(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:
        for n in range(20):
            stream.send(Item(number=n))
            reply = stream.receive()
            assert reply is not None
            assert reply.number == n
        stream.close_send()
        assert stream.receive() is None


def test_one_thread_can_send_while_another_receives(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:

        def send() -> None:
            for item in items(3000, 2000):
                stream.send(item)
            stream.close_send()

        sender = threading.Thread(target=send)
        sender.start()
        assert [item.number for item in stream] == list(range(3000))
        sender.join(PATIENCE_S)


def test_the_first_message_may_come_with_the_request(client: Client) -> None:
    with client.stream(NAME, "Collect", Item(number=0, payload=b"x"), Summary, streaming="client") as stream:
        stream.send(Item(number=1))
        assert stream.result().count == 2


def test_an_empty_message_is_a_message(path: str) -> None:
    with serving(path, "both", iter), Client.connect(path) as client:
        with client.stream("s", "M") as stream:
            stream.send(b"")
            assert stream.receive() == b""
            stream.send(b"x")
            assert stream.receive() == b"x"


def test_a_handler_can_send_explicitly(path: str) -> None:
    def chat(stream: ServerStream[bytes]) -> None:
        while (message := stream.receive(PATIENCE_S)) is not None:
            stream.send(message.upper())

    with serving(path, "both", chat), Client.connect(path) as client, client.stream("s", "M") as stream:
        stream.send(b"a")
        assert stream.receive() == b"A"
        stream.close_send()
        assert stream.receive() is None


def test_a_handler_receives_deadline_and_metadata(path: str) -> None:
    calls: list[Any] = []

    def look(stream: ServerStream[bytes], request: Any) -> bytes:
        calls.append((request.timeout_ns, request.metadata, stream.request is request))
        return b"".join(stream)

    with serving(path, "client", look, wants_request=True), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client", timeout_s=5, metadata=[("Team", "a")]) as stream:
            stream.send(b"a")
            assert stream.result() == b"a"
    assert calls == [(5_000_000_000, (("team", "a"),), True)]


def test_unary_calls_work_during_streams(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream, client.stream(NAME, "Relay", None, Item) as other:
        for n in range(10):
            stream.send(Item(number=n))
            assert client.call(NAME, "Look", Item(number=100 + n), Item).number == 100 + n
            other.send(Item(number=n))
            first, second = stream.receive(), other.receive()
            assert first is not None
            assert second is not None
            assert (first.number, second.number) == (n, n)


# -- errors -----------------------------------------------------------------------------------------------------------


def test_a_server_error_reaches_the_client_after_the_messages(client: Client) -> None:
    request = ListRequest(count=3, code=Code.ABORTED, message="enough")
    stream = client.stream(NAME, "List", request, Item, streaming="server")
    assert [stream.receive().number for _ in range(3)] == [0, 1, 2]  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(RpcError, match="enough") as caught:
            stream.receive()
        assert caught.value.code == Code.ABORTED


def test_a_sending_client_gets_the_servers_error(client: Client) -> None:
    with client.stream(NAME, "Collect", None, Summary, streaming="client") as stream:
        stream.send(Item(code=Code.PERMISSION_DENIED, message="not this one"))
        with pytest.raises(RpcError, match="not this one"):
            send_on(stream, Item(number=1), pause_s=0.001)
        with pytest.raises(RpcError, match="not this one"):
            stream.result()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_server_can_end_a_client_stream_early(path: str) -> None:
    def first(stream: ServerStream[bytes]) -> bytes:
        return stream.receive(PATIENCE_S) or b""

    with serving(path, "client", first), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client") as stream:
            stream.send(b"one")
            wait_for(lambda: stream.inbox.over or client.endpoint.poll() is None, "the reply comes")
            with pytest.raises(LocalProtocolError, match=r"^s/M: cannot send: the stream is over$"):
                stream.send(b"two")
            assert stream.result() == b"one"


@pytest.mark.parametrize("size", [0, 20_000])
def test_a_cancelled_stream_leaves_the_connection_usable(client: Client, size: int) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:
        with pytest.raises(DeadlineExceeded, match="the peer to read"):
            send_on(stream, Item(payload=bytes(size)), 0.2)  # what comes back is not taken, so the server reads no more
    assert client.call(NAME, "Look", Item(number=1), Item, timeout_s=PATIENCE_S).number == 1


def test_data_of_a_server_that_may_not_stream_fails_the_stream(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item, streaming="client") as stream:
        stream.send(Item())
        with pytest.raises(RpcError, match="data from a server that does not stream"):
            stream.receive()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_an_exception_of_a_handler_is_logged_once_and_becomes_a_status(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> Iterator[bytes]:
        yield b"one"
        raise KeyError("lost")

    with serving(path, "server", broken), Client.connect(path) as client, caplog.at_level(logging.ERROR):
        stream = client.stream("s", "M", streaming="server")
        assert stream.receive() == b"one"
        with pytest.raises(RpcError, match="lost") as caught:
            stream.receive()
    assert caught.value.code == Code.UNKNOWN
    (record,) = (record for record in caplog.records if record.name == "nri.ttrpc")
    assert record.getMessage() == "s/M failed"
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


def test_an_oversized_message_is_refused_and_leaves_the_stream_usable(path: str) -> None:
    with serving(path, "both", iter), Client.connect(path) as client:
        with client.stream("s", "M") as stream:
            with pytest.raises(OversizedMessage):
                stream.send(bytes((4 << 20) + 1))
            largest = bytes(4 << 20)
            stream.send(largest)
            assert stream.receive() == largest


def test_an_oversized_request_opens_no_stream(client: Client) -> None:
    with pytest.raises(OversizedMessage):
        client.stream(NAME, "List", bytes(4 << 20), streaming="server")
    gc.collect()
    assert not client.endpoint.link.waiters
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_an_oversized_server_message_fails_its_stream(path: str) -> None:
    with serving(path, "server", lambda _: [bytes((4 << 20) + 1)]), Client.connect(path) as client:
        with client.stream("s", "M", streaming="server") as stream, pytest.raises(RpcError) as caught:
            stream.receive()
    assert caught.value.code == Code.RESOURCE_EXHAUSTED


# -- waits ------------------------------------------------------------------------------------------------------------


def test_both_sides_enforce_the_deadline_of_a_stream(path: str) -> None:
    ended: list[BaseException] = []

    def waits(stream: ServerStream[bytes]) -> bytes:
        try:
            return stream.receive() or b""
        except DeadlineExceeded as error:
            ended.append(error)
            raise

    with serving(path, "client", waits), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client", timeout_s=0.1) as stream:
            with pytest.raises((DeadlineExceeded, RpcError), match=r"(?i)deadline ?exceeded"):
                stream.receive(PATIENCE_S)
            wait_for(lambda: ended, "the server waits longer than the client")


def test_a_client_cannot_send_after_closing_its_half(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:
        stream.close_send()
        stream.close_send()
        with pytest.raises(LocalProtocolError, match=r"Relay: cannot send"):
            stream.send(Item())


def test_a_cancelled_stream_ends_the_servers_receive(path: str) -> None:
    got: list[Any] = []
    with serving(path, "both", lambda stream: got.extend([*stream, "end"])), Client.connect(path) as client:
        with client.stream("s", "M") as stream:
            stream.send(b"one")
        wait_for(lambda: got == [b"one", "end"], "the server waits for ever")
        with pytest.raises(LocalProtocolError):
            stream.send(b"two")


def test_streams_above_the_limit_are_refused_until_a_stream_ends(path: str) -> None:
    service = Service("s", {"M": Method(b"".join, streaming="client")})
    with Server(path, [service], streams=2) as server, Client.connect(path) as client:
        open_streams = [client.stream("s", "M", streaming="client") for _ in range(2)]
        wait_for(lambda: len(server.streams) == 2, "the streams begin")
        with pytest.raises(RpcError, match="too many streams") as caught:
            client.stream("s", "M", streaming="client").result()
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        for stream in open_streams:
            stream.send(b"x")
            assert stream.result() == b"x"
        wait_for(lambda: not server.streams, "the streams end")
        assert client.stream("s", "M", streaming="client").result() == b""


def test_a_server_that_stops_ends_its_streams(path: str) -> None:
    server = serving(path, "both", iter)
    server.start()
    with Client.connect(path) as client, client.stream("s", "M") as stream:
        stream.send(b"x")
        assert stream.receive() == b"x"
        began = time.monotonic()
        server.stop(timeout_s=0.2)
        assert time.monotonic() - began < PATIENCE_S
        with pytest.raises(ConnectionClosed):
            stream.receive()
        with pytest.raises(ConnectionClosed):
            client.stream("s", "M")


def test_a_reply_can_be_received_only_once(path: str) -> None:
    with serving(path, "client", lambda stream: b"done"), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client") as stream:
            assert stream.result() == b"done"
            with pytest.raises(LocalProtocolError, match="s/M: there is no reply, or it was already received"):
                stream.result()


def test_a_send_on_a_closed_connection_raises(path: str) -> None:
    with serving(path, "both", lambda stream: stream), Client.connect(path) as client:
        stream = client.stream("s", "M", streaming="both")
        client.close()
        with pytest.raises(ConnectionClosed):
            stream.send(b"x")
        stream.close()
