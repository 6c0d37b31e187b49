"""Streams with a misbehaving peer: half-closed, reset, slow or abandoned. Nothing hangs or piles up."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.errors import ConnectionClosed, DeadlineExceeded, RpcError
from nri.ttrpc import Client, Code, Endpoint, Method, Server, ServerStream, Service, SocketTransport, frames
from nri.ttrpc.connection import ClientSide, ServerSide
from nri.ttrpc.envelope import Request, Response
from nri.ttrpc.services.inbox import MAX_INBOX_MESSAGES
from tests.support.adapting import PATIENCE_S, Leaks
from tests.support.endpoints import responses
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    leaks = Leaks()
    yield
    leaks.check()


class RawServer:
    """A server that sends the raw bytes of a test."""

    def __init__(self) -> None:
        local, self.sock = socket.socketpair()
        self.sock.settimeout(PATIENCE_S)
        self.side = ServerSide()
        self.client = Client(Endpoint(SocketTransport(local)))

    def request(self) -> Request:
        """The next request."""
        while True:
            for item in self.side.receive(self.sock.recv(65536)):
                if isinstance(item, Request):
                    return item

    def send(self, *parts: bytes) -> None:
        self.sock.sendall(b"".join(parts))

    def close(self) -> None:
        self.client.close()
        self.sock.close()


@pytest.fixture
def raw() -> Iterator[RawServer]:
    raw = RawServer()
    yield raw
    raw.close()


class RawClient:
    """A client made of bytes."""

    def __init__(self, path: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(path)
        self.side = ClientSide()

    def open(self, payload: bytes = b"", *, sends: bool = True) -> int:
        stream_id, frame = self.side.open(Request("s", "M", payload), sends=sends, receives=True)
        self.sock.sendall(b"".join(frame))
        return stream_id

    def responses(self, count: int) -> list[Any]:
        """Read until `count` responses and messages have arrived."""
        return responses(self.sock, self.side, count)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


def serving(path: str, function: Callable[..., Any], streaming: Any = "both", **options: Any) -> Server:
    methods = {"M": Method(function, streaming=streaming), "Look": Method(lambda payload: payload)}
    return Server(path, [Service("s", methods)], **options)


# -- the server misbehaves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [3, 10, 12], ids=["in the header", "after the header", "in the data"])
def test_a_reset_in_the_middle_of_a_message_ends_the_stream_after_complete_messages(raw: RawServer, cut: int) -> None:
    with raw.client.stream("s", "m", streaming="server") as stream:
        stream_id = raw.request().stream_id
        raw.send(raw.side.streams.data(stream_id, b"whole"), raw.side.streams.data(stream_id, b"half")[:cut])
        raw.sock.close()
        assert stream.receive() == b"whole"
        for _ in range(2):
            with pytest.raises(ConnectionClosed):
                stream.receive()
        with pytest.raises(ConnectionClosed):
            raw.client.stream("s", "m")


def test_a_server_that_half_closes_ends_the_stream_after_its_messages(raw: RawServer) -> None:
    with raw.client.stream("s", "m") as stream:
        raw.send(raw.side.streams.data(raw.request().stream_id, b"last"))
        raw.sock.shutdown(socket.SHUT_WR)
        assert stream.receive() == b"last"
        with pytest.raises(ConnectionClosed):
            stream.receive()


def test_messages_of_a_closed_server_are_received_after_a_failed_send(raw: RawServer) -> None:
    with raw.client.stream("s", "m") as stream:
        stream_id = raw.request().stream_id
        raw.send(raw.side.streams.data(stream_id, b"one"), raw.side.respond(stream_id, b"", Code.ABORTED, "enough"))
        raw.sock.close()
        with pytest.raises((ConnectionClosed, RpcError)):
            send_on(stream, b"more")
        assert stream.receive() == b"one"
        with pytest.raises(RpcError, match="enough"):
            stream.receive()


def send_on(stream: Any, message: bytes, timeout_s: float = 5.0) -> None:
    """Send the same message again and again, until that fails."""
    for _ in range(100_000):
        stream.send(message, timeout_s)


@pytest.mark.parametrize(
    "frame",
    [
        frames.pack(1, 9, b"x"),
        frames.pack(1, frames.REQUEST, b"x"),
        frames.pack(1, frames.RESPONSE, b"\xff\xff"),
        frames.pack_header(frames.MAX_DATA + 1, 1, frames.DATA, 0) + bytes(frames.MAX_DATA + 1),
    ],
    ids=["unknown type", "request", "broken response", "too long"],
)
def test_an_invalid_frame_fails_only_its_stream(raw: RawServer, frame: bytes) -> None:
    with raw.client.stream("s", "m") as stream, raw.client.stream("s", "m") as other:
        raw.request()
        writer = threading.Thread(target=raw.send, args=(frame, frames.pack(3, frames.DATA, b"fine")))
        writer.start()
        with pytest.raises(RpcError):
            stream.receive()
        assert other.receive() == b"fine"
        writer.join(PATIENCE_S)


def test_data_for_an_abandoned_stream_is_dropped(raw: RawServer) -> None:
    with raw.client.stream("s", "m"):
        stream_id = raw.request().stream_id
    data = frames.pack(stream_id, frames.DATA, bytes(1000))

    def go_on() -> None:
        raw.send(*[data] * 3000)
        raw.request()
        raw.send(raw.side.respond(3, b"heard"))

    server = threading.Thread(target=go_on)
    server.start()
    assert raw.client.call("s", "m") == b"heard"
    assert not raw.client.endpoint.link.full
    server.join(PATIENCE_S)


def test_a_server_that_never_reads_costs_the_timeout_and_keeps_the_connection(raw: RawServer) -> None:
    with raw.client.stream("s", "m") as stream:
        with pytest.raises(DeadlineExceeded):
            send_on(stream, bytes(10_000), 0.1)
        stream_id = raw.request().stream_id
        total = 0

        def read() -> None:
            nonlocal total
            with contextlib.suppress(TimeoutError):
                while data := raw.sock.recv(65536):
                    total += sum(len(item.payload or b"") for item in raw.side.receive(data) if hasattr(item, "last"))

        reader = threading.Thread(target=read)
        reader.start()
        stream.send(b"!")  # the message that was cut short is whole before this one
        raw.send(raw.side.streams.data(stream_id, b"go on"))
        assert stream.receive() == b"go on"
        wait_for(lambda: total % 10_000 == 1, "every message is whole")
        raw.sock.shutdown(socket.SHUT_RDWR)
        reader.join(PATIENCE_S)


def test_an_interrupted_wait_leaves_the_connection_usable(raw: RawServer) -> None:
    stream = raw.client.stream("s", "m")
    raw.request()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        stream.receive(PATIENCE_S)
    raw.send(frames.pack(1, frames.DATA, b"still here"))
    assert stream.receive() == b"still here"
    stream.close()


# -- the client misbehaves --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["closes", "closes its writing half", "is reset in the middle of a message"])
def test_a_disconnected_client_ends_the_wait_of_its_handler(path: str, how: str) -> None:
    ended: list[BaseException] = []
    began = threading.Event()

    def handler(stream: ServerStream[bytes]) -> None:
        began.set()
        try:
            list(stream)
        except ConnectionClosed as error:
            ended.append(error)
            raise

    with serving(path, handler) as server:
        raw = RawClient(path)
        stream_id = raw.open(b"first")
        assert began.wait(PATIENCE_S)
        if how.startswith("is reset"):
            raw.sock.sendall(raw.side.streams.data(stream_id, bytes(100))[:50])
        if how.endswith("writing half"):
            raw.sock.shutdown(socket.SHUT_WR)
        else:
            raw.sock.close()
        wait_for(lambda: ended, "the handler waits for ever")
        wait_for(lambda: not server.streams, "its thread ends")
        raw.sock.close()


def test_a_client_that_does_not_read_delays_only_its_handler(path: str) -> None:
    failed: list[BaseException] = []

    def handler(stream: ServerStream[bytes]) -> None:
        try:
            for _ in range(100_000):
                stream.send(bytes(10_000), 0.2)
        except DeadlineExceeded as error:
            failed.append(error)
            raise

    with serving(path, handler) as server:
        raw = RawClient(path)
        raw.open()
        with Client.connect(path) as other:
            wait_for(lambda: failed, "the handler waits for ever")
            assert other.call("s", "Look", b"x") == b"x"
        # It reads again: complete messages, then the error that ends the stream.
        while True:
            item = raw.responses(1)[-1]
            if isinstance(item, Response):
                break
            assert item.payload == bytes(10_000)
        assert item.code == Code.DEADLINE_EXCEEDED
        wait_for(lambda: not server.streams, "its thread ends")
        raw.sock.close()


def test_a_client_that_sends_faster_than_the_handler_reads_is_slowed_down(path: str) -> None:
    go = threading.Event()
    accepted: list[int] = []
    streams: list[ServerStream[bytes]] = []

    def handler(stream: ServerStream[bytes]) -> bytes:
        streams.append(stream)
        assert go.wait(PATIENCE_S)
        accepted.extend(len(message) for message in stream)
        return b""

    with serving(path, handler, "client"):
        raw = RawClient(path)
        stream_id = raw.open()
        message = raw.side.streams.data(stream_id, b"")  # the shortest: thousands fit into one read
        raw.sock.setblocking(False)
        sent = 0

        def held_up() -> bool:
            nonlocal sent
            before = sent
            with contextlib.suppress(BlockingIOError):
                for _ in range(100_000):
                    sent += raw.sock.send(message)
            return sent == before and bool(streams) and len(streams[0].inbox.messages) >= MAX_INBOX_MESSAGES

        for _ in range(5):  # it stays so
            wait_for(held_up, "the server reads no more")
        count = len(streams[0].inbox.messages)
        assert MAX_INBOX_MESSAGES <= count <= MAX_INBOX_MESSAGES + 65536 // len(message), (
            "more than one read beyond its bounds"
        )
        go.set()
        raw.sock.settimeout(PATIENCE_S)
        remainder = -sent % len(message)
        raw.sock.sendall(message[len(message) - remainder :] if remainder else b"")
        raw.sock.sendall(raw.side.streams.close(stream_id))
        assert raw.responses(1)[0].code == 0
        assert len(accepted) == (sent + remainder) // len(message)
        raw.sock.close()


def test_data_after_a_half_close_fails_only_that_stream(path: str) -> None:
    with serving(path, lambda stream: list(stream)):  # noqa: PLW0108 - as people write it
        raw = RawClient(path)
        first, second = raw.open(), raw.open()
        raw.sock.sendall(raw.side.streams.close(first) + frames.pack(first, frames.DATA, b"late"))
        raw.sock.sendall(raw.side.streams.data(second, b"fine") + raw.side.streams.close(second))
        outcomes = raw.responses(2)
        while not any(getattr(item, "payload", None) == b"fine" for item in outcomes):
            outcomes += raw.responses(1)
        assert {item.stream_id for item in outcomes} == {first, second}
        raw.sock.close()


def test_the_number_of_open_streams_is_limited(path: str) -> None:
    with serving(path, lambda stream: list(stream), streams=3) as server:  # noqa: PLW0108
        raw = RawClient(path)
        for _ in range(20):
            raw.open()
        refused = raw.responses(17)
        assert {item.code for item in refused} == {Code.RESOURCE_EXHAUSTED}
        assert len(server.streams) == 3
        raw.sock.close()
        wait_for(lambda: not server.streams, "they end with their client")
