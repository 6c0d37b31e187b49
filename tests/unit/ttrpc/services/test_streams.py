"""Streams between our own client and server: every way to stream, errors on either side, and every wait."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.errors import ConnectionClosed, DeadlineExceeded, LocalProtocolError, OversizedMessage, RpcError
from nri.ttrpc import Client, ClientStream, Code, Method, Server, ServerStream, Service
from nri.ttrpc.services.inbox import ROOM_BYTES, ROOM_MESSAGES
from tests.support.streams import DESCRIPTOR, NAME, Item, ListRequest, Streams, Summary, items

PATIENCE_S = 10.0


def eventually(holds: Callable[[], Any], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.002)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


@pytest.fixture
def client(path: str) -> Iterator[Client]:
    with Server(path, [Service.of(DESCRIPTOR, Streams())]), Client.connect(path) as client:
        yield client


def serving(path: str, streaming: Any, function: Callable[..., Any], **options: Any) -> Server:
    """A server with one method `M`, whose messages are bytes."""
    return Server(path, [Service("s", {"M": Method(function, streaming=streaming, **options)})])


def send_on(stream: ClientStream[Any], message: Any, timeout_s: float = 5.0, pause_s: float = 0.0) -> None:
    """Send the same message again and again, until that fails."""
    for _ in range(10_000):
        stream.send(message, timeout_s)
        time.sleep(pause_s)


# -- the ways to stream -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_what_a_server_streams_arrives_in_order_and_ends(client: Client, count: int) -> None:
    stream = client.stream(NAME, "List", ListRequest(count=count, size=7), Item, streaming="server")
    assert [item.number for item in stream] == list(range(count))
    assert stream.receive() is None, "the end stays the end"


@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_what_a_client_streams_is_answered_once(client: Client, count: int) -> None:
    with client.stream(NAME, "Collect", None, Summary, streaming="client") as stream:
        for item in items(count, 10):
            stream.send(item)
        summary = stream.result()
    assert (summary.count, summary.bytes, summary.ordered) == (count, 10 * count, True)


def test_both_may_stream_at_a_time(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:
        for n in range(20):
            stream.send(Item(number=n))
            reply = stream.receive()
            assert reply is not None
            assert reply.number == n
        stream.close_send()
        assert stream.receive() is None


def test_one_thread_sends_while_another_receives(client: Client) -> None:
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


def test_a_handler_may_send_by_itself(path: str) -> None:
    def chat(stream: ServerStream[bytes]) -> None:
        while (message := stream.receive(PATIENCE_S)) is not None:
            stream.send(message.upper())

    with serving(path, "both", chat), Client.connect(path) as client, client.stream("s", "M") as stream:
        stream.send(b"a")
        assert stream.receive() == b"A"
        stream.close_send()
        assert stream.receive() is None


def test_a_handler_learns_deadline_and_metadata(path: str) -> None:
    seen: list[Any] = []

    def look(stream: ServerStream[bytes], request: Any) -> bytes:
        seen.append((request.timeout_ns, request.metadata, stream.request is request))
        return b"".join(stream)

    with serving(path, "client", look, wants_request=True), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client", timeout_s=5, metadata=[("Team", "a")]) as stream:
            stream.send(b"a")
            assert stream.result() == b"a"
    assert seen == [(5_000_000_000, (("team", "a"),), True)]


def test_unary_calls_go_on_beside_streams(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream, client.stream(NAME, "Relay", None, Item) as other:
        for n in range(10):
            stream.send(Item(number=n))
            assert client.call(NAME, "Look", Item(number=100 + n), Item).number == 100 + n
            other.send(Item(number=n))
            first, second = stream.receive(), other.receive()
            assert first is not None
            assert second is not None
            assert (first.number, second.number) == (n, n)


def test_a_thread_that_calls_reads_what_a_stream_in_another_thread_waits_for(client: Client) -> None:
    got: list[int] = []
    stream = client.stream(NAME, "List", ListRequest(count=50, delay_ms=2), Item, streaming="server")
    reader = threading.Thread(target=lambda: got.extend(item.number for item in stream))
    reader.start()
    for n in range(200):
        assert client.call(NAME, "Look", Item(number=n), Item).number == n
    reader.join(PATIENCE_S)
    assert got == list(range(50))


def test_many_streams_and_calls_at_a_time_get_what_is_theirs(client: Client) -> None:
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


# -- errors -----------------------------------------------------------------------------------------------------------


def test_a_server_that_fails_in_the_end_fails_the_stream_after_its_messages(client: Client) -> None:
    request = ListRequest(count=3, code=Code.ABORTED, message="enough")
    stream = client.stream(NAME, "List", request, Item, streaming="server")
    assert [stream.receive().number for _ in range(3)] == [0, 1, 2]  # type: ignore[union-attr]
    for _ in range(2):
        with pytest.raises(RpcError, match="enough") as caught:
            stream.receive()
        assert caught.value.code == Code.ABORTED


def test_a_client_that_sends_learns_why_the_server_has_failed_the_stream(client: Client) -> None:
    with client.stream(NAME, "Collect", None, Summary, streaming="client") as stream:
        stream.send(Item(code=Code.PERMISSION_DENIED, message="not this one"))
        with pytest.raises(RpcError, match="not this one"):
            send_on(stream, Item(number=1), pause_s=0.001)
        with pytest.raises(RpcError, match="not this one"):
            stream.result()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_server_that_has_enough_ends_the_stream_for_the_client_too(path: str) -> None:
    def first(stream: ServerStream[bytes]) -> bytes:
        return stream.receive(PATIENCE_S) or b""

    with serving(path, "client", first), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client") as stream:
            stream.send(b"one")
            eventually(lambda: stream._inbox.over or client._endpoint.poll() is None, "the reply comes")
            with pytest.raises(LocalProtocolError, match=r"s/M: nothing can be sent any more"):
                stream.send(b"two")
            assert stream.result() == b"one"


@pytest.mark.parametrize(
    ("method", "streaming", "code"),
    [
        ("Nothing", "both", Code.UNIMPLEMENTED),
        ("Look", "both", Code.UNIMPLEMENTED),
    ],
)
def test_a_stream_that_is_not_served_is_unimplemented(client: Client, method: str, streaming: Any, code: int) -> None:
    with client.stream(NAME, method, streaming=streaming) as stream, pytest.raises(RpcError) as caught:
        stream.receive()
    assert caught.value.code == code


def test_a_call_of_a_method_that_streams_is_unimplemented(client: Client) -> None:
    with pytest.raises(RpcError, match="List is a stream") as caught:
        client.call(NAME, "List", ListRequest(count=1))
    assert caught.value.code == Code.UNIMPLEMENTED


def test_a_method_without_a_stream_answers_one_who_receives_as_a_stream(client: Client) -> None:
    """As the reference does."""
    with client.stream(NAME, "Look", Item(number=7), Item, streaming="server") as stream:
        assert [item.number for item in stream] == [7]


def test_data_of_a_server_that_must_not_stream_fails_the_stream(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item, streaming="client") as stream:
        stream.send(Item())
        with pytest.raises(RpcError, match="data from a server that does not stream"):
            stream.receive()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_message_of_another_class_is_internal(path: str) -> None:
    service = Service("s", {"M": Method(list, Item, Item, streaming="both")})
    with Server(path, [service]), Client.connect(path) as client, client.stream("s", "M") as stream:
        stream.send(b"\xff\xff")
        with pytest.raises(RpcError, match="unmarshalling payload") as caught:
            stream.receive()
        assert caught.value.code == Code.INTERNAL


@pytest.mark.parametrize(
    ("streaming", "returns", "text"),
    [
        ("server", 5, "returned int, not messages to iterate over"),
        ("server", [5], "returned int, not Item"),
        ("client", 5, "returned int, not Item"),
    ],
)
def test_a_handler_that_returns_something_else_is_internal(path: str, streaming: Any, returns: Any, text: str) -> None:
    service = Service("s", {"M": Method(lambda _: returns, Item, Item, streaming=streaming)})
    with Server(path, [service]), Client.connect(path) as client:
        with client.stream("s", "M", streaming=streaming) as stream, pytest.raises(RpcError, match=text):
            stream.result() if streaming == "client" else stream.receive()


def test_what_a_handler_raises_is_logged_once_with_its_method_and_becomes_a_status(
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


def test_a_generator_is_closed_when_its_client_has_gone(path: str) -> None:
    closed = threading.Event()

    def endless(_: Any) -> Iterator[bytes]:
        try:
            while True:
                yield bytes(1000)
        finally:
            closed.set()

    with serving(path, "server", endless):
        client = Client.connect(path)
        stream = client.stream("s", "M", streaming="server")
        assert stream.receive()
        client.close()
        assert closed.wait(PATIENCE_S)
        with pytest.raises(ConnectionClosed):
            list(stream)


def test_an_oversized_message_is_refused_here_and_the_stream_goes_on(path: str) -> None:
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
    assert not client._endpoint.link.waiters
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_server_message_that_is_too_long_fails_its_stream(path: str) -> None:
    with serving(path, "server", lambda _: [bytes((4 << 20) + 1)]), Client.connect(path) as client:
        with client.stream("s", "M", streaming="server") as stream, pytest.raises(RpcError) as caught:
            stream.receive()
    assert caught.value.code == Code.RESOURCE_EXHAUSTED


# -- waits ------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_silent_costs_one_wait_and_not_the_stream(path: str) -> None:
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


def test_the_whole_stream_may_have_a_deadline_which_both_sides_keep(path: str) -> None:
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
            eventually(lambda: ended, "the server waits longer than the client")


def test_a_client_that_closes_its_half_can_send_no_more(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:
        stream.close_send()
        stream.close_send()
        with pytest.raises(LocalProtocolError, match=r"Relay: nothing can be sent any more"):
            stream.send(Item())


def test_a_client_that_gives_up_ends_what_the_server_waits_for(path: str) -> None:
    got: list[Any] = []
    with serving(path, "both", lambda stream: got.extend([*stream, "end"])), Client.connect(path) as client:
        with client.stream("s", "M") as stream:
            stream.send(b"one")
        eventually(lambda: got == [b"one", "end"], "the server waits for ever")
        with pytest.raises(LocalProtocolError):
            stream.send(b"two")


def test_a_stream_that_is_given_up_lets_the_connection_go_on(client: Client) -> None:
    for _ in range(5):
        with client.stream(NAME, "List", ListRequest(count=5000, size=500), Item, streaming="server") as stream:
            assert next(iter(stream)).number == 0
        assert client.call(NAME, "Look", Item(number=1), Item).number == 1
    assert not client._endpoint.link.client_streams
    assert not client._endpoint.link.full


def test_a_stream_that_is_dropped_unread_lets_the_connection_go_on(client: Client) -> None:
    stream: ClientStream[Any] | None = client.stream(
        NAME, "List", ListRequest(count=5000, size=500), Item, streaming="server"
    )
    assert stream is not None
    stream.receive()
    stream = None
    gc.collect()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_client_that_stops_receiving_holds_up_the_server_and_fills_no_memory(path: str) -> None:
    sent: list[int] = []

    def fast(_: Any) -> Iterator[bytes]:
        for n in range(4000):
            sent.append(n)
            yield bytes(4096)

    def behind(_: Any) -> bytes:
        eventually(lambda: len(sent) > 600, "the stream goes on while a call waits")
        return b"late"

    methods = {"Fast": Method(fast, streaming="server"), "Behind": Method(behind)}
    with Server(path, [Service("s", methods)]), Client.connect(path) as client:
        stream = client.stream("s", "Fast", streaming="server")
        with pytest.raises(DeadlineExceeded):  # it reads, until the stream holds too much
            client.call("s", "Behind", timeout_s=0.5)
        assert ROOM_MESSAGES <= len(stream._inbox._messages) < ROOM_MESSAGES + 100
        sent_so_far = len(sent)
        time.sleep(0.05)
        assert len(sent) == sent_so_far < 600, "the server sends on and on"
        assert [len(message) for message in stream] == [4096] * 4000
        assert client.call("s", "Behind") == b"late"


def test_a_handler_that_is_slow_holds_up_its_client_and_fills_no_memory(path: str) -> None:
    go = threading.Event()
    streams: list[ServerStream[bytes]] = []

    def slow(stream: ServerStream[bytes]) -> bytes:
        streams.append(stream)
        assert go.wait(PATIENCE_S)
        return b"%d" % sum(len(message) for message in stream)

    with serving(path, "client", slow), Client.connect(path) as client:
        with client.stream("s", "M", streaming="client") as stream:
            with pytest.raises(DeadlineExceeded):
                send_on(stream, bytes(10_000), 0.3)
            assert ROOM_BYTES <= streams[0]._inbox._size_bytes < ROOM_BYTES + (1 << 18)
            go.set()
            assert int(stream.result()) >= ROOM_BYTES


def test_a_slow_handler_holds_up_its_own_connection_only(path: str) -> None:
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


def test_streams_over_the_limit_are_refused_and_room_is_given_back(path: str) -> None:
    service = Service("s", {"M": Method(b"".join, streaming="client")})
    with Server(path, [service], streams=2) as server, Client.connect(path) as client:
        open_streams = [client.stream("s", "M", streaming="client") for _ in range(2)]
        eventually(lambda: len(server._streams) == 2, "the streams begin")
        with pytest.raises(RpcError, match="too many streams") as caught:
            client.stream("s", "M", streaming="client").result()
        assert caught.value.code == Code.RESOURCE_EXHAUSTED
        for stream in open_streams:
            stream.send(b"x")
            assert stream.result() == b"x"
        eventually(lambda: not server._streams, "the streams end")
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
