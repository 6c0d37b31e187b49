"""Streams of `nri.ttrpc` against the ttRPC libraries of Go and Rust, as client and as server, blocking and asyncio.

The service is that of tests/peers/proto/streams.proto.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from nri.errors import ConnectionClosed, RpcError
from nri.ttrpc import AsyncClient, Client, Code, Server, Service
from tests.peers.build import peer
from tests.peers.drivers import LineProcess
from tests.support.streams import DESCRIPTOR, FILE, NAME, Item, ListRequest, Streams, Summary, items, pattern

#: Program, and what it calls its server and its client of this service.
PROGRAMS = {"go": ("ttrpcpeer", "server", "client"), "rust": ("rustpeer", "stream-server", "stream-client")}
PROTO = Path(__file__).parents[1] / "peers/proto/streams.proto"


@pytest.fixture(params=sorted(PROGRAMS))
def program(request: pytest.FixtureRequest) -> tuple[Path, str, str]:
    name, server, client = PROGRAMS[request.param]
    return peer(name), server, client


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-") as name:
        yield Path(name)


def test_the_message_classes_match_the_proto_file(folder: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    out = folder / "set"
    assert protoc.main(["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", str(PROTO)]) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    encoded = descriptor_pb2.FileDescriptorProto.FromString(FILE.SerializeToString())
    for message in encoded.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert encoded == file


# -- our client, their server -----------------------------------------------------------------------------------------


@pytest.fixture
def path(program: tuple[Path, str, str], folder: Path) -> Iterator[str]:
    with LineProcess([program[0], program[1], "-socket", folder / "s"]) as server:
        server.wait_event("listening")
        yield str(folder / "s")
        assert server.returncode is None, f"their server has died:\n{server.tail()}"


@pytest.fixture
def client(path: str) -> Iterator[Client]:
    with Client.connect(path) as client:
        yield client


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (5, 100), (2000, 10), (3, 4_000_000)])
def test_a_stream_of_the_foreign_server_arrives_completely(client: Client, count: int, size: int) -> None:
    request = ListRequest(count=count, size=size)
    with client.stream(NAME, "List", request, Item, streaming="server") as stream:
        got = list(stream)
    assert [item.number for item in got] == list(range(count))
    assert all(item.payload == pattern(size) for item in got)


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (5, 100), (2000, 10), (3, 4_000_000)])
def test_a_stream_of_our_client_arrives_completely(client: Client, count: int, size: int) -> None:
    with client.stream(NAME, "Collect", None, Summary, streaming="client") as stream:
        for item in items(count, size):
            stream.send(item)
        summary = stream.result()
    assert (summary.count, summary.bytes, summary.ordered) == (count, count * size, True)


@pytest.mark.parametrize(("count", "size"), [(0, 0), (50, 0), (20, 100_000)])
def test_client_and_server_stream_in_turn(client: Client, count: int, size: int) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:
        for item in items(count, size):
            stream.send(item)
            assert stream.receive() == item
        stream.close_send()
        assert stream.receive() is None


def test_client_and_server_stream_concurrently(client: Client) -> None:
    with client.stream(NAME, "Relay", None, Item) as stream:

        def send() -> None:
            for item in items(2000, 5000):
                stream.send(item)
            stream.close_send()

        sender = threading.Thread(target=send)
        sender.start()
        assert [item.number for item in stream] == list(range(2000))
        sender.join(20)


@pytest.mark.parametrize("method", ["List", "Collect", "Relay"])
def test_a_stream_that_the_foreign_server_fails_has_its_status(client: Client, method: str) -> None:
    fails: dict[str, Any] = {"code": int(Code.NOT_FOUND), "message": "no luck"}
    with pytest.raises(RpcError) as caught:
        run_until_it_fails(client, method, Item(number=1, **fails), ListRequest(count=3, **fails))
    assert (caught.value.code, caught.value.message) == (Code.NOT_FOUND, "no luck")
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1, "the connection must stay usable"


def run_until_it_fails(client: Client, method: str, fails: Any, request: Any) -> None:
    if method == "List":
        list(client.stream(NAME, method, request, Item, streaming="server"))
    elif method == "Collect":
        with client.stream(NAME, method, None, Summary, streaming="client") as stream:
            stream.send(fails)
            stream.receive()
    else:
        with client.stream(NAME, method, None, Item) as both:
            both.send(Item(number=0))
            both.send(fails)
            assert [item.number for item in both] == [0]


def test_an_unknown_stream_is_a_status(client: Client) -> None:
    with client.stream(NAME, "Nothing", None, Item, streaming="server") as stream, pytest.raises(RpcError):
        stream.receive()
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_slow_reader_slows_the_foreign_server_and_loses_nothing(client: Client) -> None:
    with client.stream(NAME, "List", ListRequest(count=5000, size=2000), Item, streaming="server") as stream:
        for n in range(20):
            time.sleep(0.02)
            assert stream.receive() == Item(number=n, payload=pattern(2000))
        assert [item.number for item in stream] == list(range(20, 5000))
    assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_calls_and_streams_share_a_connection(client: Client) -> None:
    first = client.stream(NAME, "Relay", None, Item)
    second = client.stream(NAME, "List", ListRequest(count=20, delay_ms=1), Item, streaming="server")
    with first, second:
        for n in range(20):
            first.send(Item(number=n))
            assert client.call(NAME, "Look", Item(number=n), Item).number == n
            for stream in (first, second):
                item = stream.receive()
                assert item is not None
                assert item.number == n


def test_a_cancelled_stream_ends_at_the_foreign_server(client: Client) -> None:
    for _ in range(3):
        with client.stream(NAME, "Relay", None, Item) as stream:
            stream.send(Item(number=1))
            assert stream.receive() == Item(number=1)
        assert client.call(NAME, "Look", Item(number=1), Item).number == 1


def test_a_killed_foreign_server_ends_the_stream(program: tuple[Path, str, str], folder: Path) -> None:
    with LineProcess([program[0], program[1], "-socket", folder / "s"]) as server:
        server.wait_event("listening")
        with Client.connect(str(folder / "s")) as client, client.stream(NAME, "Relay", None, Item) as stream:
            stream.send(Item(number=1))
            assert stream.receive() == Item(number=1)
            server.kill()
            with pytest.raises(ConnectionClosed):
                stream.receive()


def test_a_client_from_the_descriptor_calls_every_kind_of_method(client: Client) -> None:
    streams = client.service(DESCRIPTOR)
    assert streams.look(Item(number=3)).number == 3
    assert [item.number for item in streams.List(ListRequest(count=3))] == [0, 1, 2]
    with streams.collect() as stream:
        stream.send(Item(number=0))
        assert stream.result().count == 1


def test_the_asyncio_client_streams_with_the_foreign_server(path: str) -> None:
    async def main() -> None:
        async with await AsyncClient.connect(path) as client:
            listed = client.stream(NAME, "List", ListRequest(count=1000, size=3000), Item, streaming="server")
            assert [item.number async for item in listed] == list(range(1000))
            async with client.stream(NAME, "Collect", None, Summary, streaming="client") as stream:
                for item in items(500, 3000):
                    await stream.send(item)
                assert (await stream.result()).count == 500
            async with client.stream(NAME, "Relay", None, Item) as both:
                for n in range(20):
                    await both.send(Item(number=n))
                    assert await both.receive() == Item(number=n)
            with pytest.raises(RpcError, match="no luck"):
                await client.call(NAME, "Look", Item(code=5, message="no luck"), Item)

    asyncio.run(main())


# -- their client, our server -----------------------------------------------------------------------------------------


@pytest.fixture
def their_client(program: tuple[Path, str, str], folder: Path) -> Iterator[LineProcess]:
    with (
        Server(str(folder / "s"), [Service.of(DESCRIPTOR, Streams())]),
        LineProcess([program[0], program[2], "-socket", folder / "s"]) as process,
    ):
        process.wait_event("connected")
        yield process


@pytest.mark.parametrize("method", ["List", "Relay"])
@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (5, 100), (2000, 10), (3, 4_000_000)])
def test_the_foreign_client_receives_our_servers_stream(
    their_client: LineProcess, method: str, count: int, size: int
) -> None:
    line = their_client.ask({"stream": method, "count": count, "payload_size": size})
    assert line["ok"], line
    assert (line["count"], line["ordered"], line["intact"]) == (count, True, True)


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (5, 100), (2000, 10), (3, 4_000_000)])
def test_our_server_receives_the_foreign_clients_stream(their_client: LineProcess, count: int, size: int) -> None:
    line = their_client.ask({"stream": "Collect", "count": count, "payload_size": size})
    assert line["ok"], line
    assert (line["count"], line["bytes"], line["ordered"]) == (count, count * size, True)


@pytest.mark.parametrize("method", ["List", "Collect", "Relay"])
def test_our_status_ends_a_stream_of_the_foreign_client(their_client: LineProcess, method: str) -> None:
    line = their_client.ask({"stream": method, "count": 3, "code": Code.ABORTED, "message": "no luck"})
    assert (line["ok"], line.get("code")) == (False, Code.ABORTED), line
    assert "no luck" in line["message"]
    assert their_client.ask({"stream": "List", "count": 1})["ok"], "the connection must stay usable"


def test_a_slow_foreign_client_loses_nothing(their_client: LineProcess) -> None:
    line = their_client.ask({"stream": "List", "count": 300, "payload_size": 5000, "delay_ms": 2}, timeout_s=60)
    assert (line["ok"], line["count"], line["ordered"], line["intact"]) == (True, 300, True, True), line


def test_streams_of_the_foreign_client_run_concurrently(their_client: LineProcess) -> None:
    for n in range(12):
        method = ("List", "Collect", "Relay")[n % 3]
        their_client.send({"id": f"n{n}", "stream": method, "count": 100, "payload_size": 1000})
    for n in range(12):
        line = their_client.wait_for(lambda line, n=n: line.get("id") == f"n{n}", what=f"stream {n}")
        assert (line["ok"], line["count"], line["ordered"]) == (True, 100, True), line
