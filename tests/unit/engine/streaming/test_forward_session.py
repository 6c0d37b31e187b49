"""Forwarded connections: independence, half closes and the client's end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from nri.engine.streaming import connect_port
from nri.engine.support.errors import EngineError
from tests.support.no_threads import no_threads
from tests.support.stream_world import SpdyTalk, WebSocketTalk, World


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def forward(world: World) -> SpdyTalk:
    return SpdyTalk(world.server.port_forward_url("pod"), "portforward.k8s.io")


def connect(talk: SpdyTalk, port: int, key: str = "0") -> None:
    for kind in ("error", "data"):
        talk.open(streamtype=kind, port=str(port), requestid=key)


def accept(listener: socket.socket) -> socket.socket:
    connection, _ = listener.accept()
    connection.settimeout(20)
    return connection


def test_directions_end_separately_in_either_order(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    connect(talk, port_of(listener), "a")
    with accept(listener) as inside:
        talk.say("adata", b"question", end=True)
        assert inside.recv(100) == b"question" and inside.recv(1) == b""
        inside.sendall(b"answer")
    talk.until(lambda: talk.has_ended("aerror"), "the end")
    assert talk.heard("adata") == b"answer" and talk.has_ended("adata") and talk.heard("aerror") == b""
    connect(talk, port_of(listener), "b")
    with accept(listener) as inside:
        inside.shutdown(socket.SHUT_WR)
        talk.until(lambda: talk.has_ended("bdata"), "the half's end")
        assert not talk.has_ended("berror")
        talk.say("bdata", b"still", end=True)
        assert inside.recv(100) == b"still" and inside.recv(1) == b""
    talk.until(lambda: talk.has_ended("berror"), "the end")
    talk.close()


def test_bytes_before_the_connection_is_established_are_kept(world: World, listener: socket.socket) -> None:
    gate = threading.Event()

    def slowly(port: int) -> socket.socket:
        assert gate.wait(20)
        return connect_port(None, port)

    world.connect = slowly
    talk = forward(world)
    connect(talk, port_of(listener))
    talk.say("0data", b"early", end=True)
    time.sleep(0.1)
    gate.set()
    with accept(listener) as inside:
        assert inside.recv(100) == b"early" and inside.recv(1) == b""
    talk.close()


def test_a_blocked_connection_does_not_block_others(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    connect(talk, port_of(listener), "stuck")
    with accept(listener):
        talk.say("stuckdata", bytes(3_000_000))
        connect(talk, port_of(listener), "other")
        with accept(listener) as inside:
            talk.say("otherdata", b"through")
            assert inside.recv(100) == b"through"
            inside.sendall(b"back")
            talk.until(lambda: talk.heard("otherdata") == b"back", "the answer")
    talk.close()


def test_bytes_that_a_port_does_not_read_block_the_client(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    connect(talk, port_of(listener))
    with accept(listener):
        assert talk.flood(talk.client.send(talk.streams["0data"], bytes(1 << 20))) < 40
        talk.close()


@pytest.fixture
def unconnected(world: World) -> Iterator[World]:
    """A world in which no port is connected until the end, so that all that comes for one has to be kept."""
    gate = threading.Event()

    def late(port: int) -> socket.socket:
        gate.wait(60)
        raise EngineError(f"nothing listens on port {port}")

    world.connect = late
    yield world
    gate.set()


def test_the_buffer_of_a_connection_is_bounded(unconnected: World, listener: socket.socket) -> None:
    unconnected.limited(input_bytes=8 << 20)
    talk = forward(unconnected)
    connect(talk, port_of(listener))
    assert talk.flood(talk.client.send(talk.streams["0data"], bytes(1 << 20))) < 40, "8 MiB, and what sockets hold"
    talk.close()


def test_the_buffers_of_a_client_are_bounded_together(unconnected: World, listener: socket.socket) -> None:
    unconnected.limited(input_bytes=2 << 20)
    talk = forward(unconnected)
    keys = [str(number) for number in range(48)]
    for key in keys:
        connect(talk, port_of(listener), key)
    total = 0
    for key in keys:  # each below its own bound
        if not talk.flood(talk.client.send(talk.streams[f"{key}data"], bytes(1 << 20)), 1):
            break
        total += 1
    assert total < 40, "16 MiB, and what sockets hold"
    talk.close()


def test_a_disconnect_ends_all_connections_of_the_client(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    for key in "ab":
        connect(talk, port_of(listener), key)
    inside = [accept(listener) for _ in range(2)]
    talk.close()
    assert [entry.recv(1) for entry in inside] == [b"", b""]
    for entry in inside:
        entry.close()


def test_a_disconnect_during_connecting_leaves_no_connection(world: World, listener: socket.socket) -> None:
    gate, connected = threading.Event(), threading.Event()

    def slowly(port: int) -> socket.socket:
        assert gate.wait(20)
        try:
            return connect_port(None, port)
        finally:
            connected.set()

    world.connect = slowly
    talk = forward(world)
    connect(talk, port_of(listener))
    talk.until(lambda: len(talk.client.replied) == 2, "the streams")
    talk.close()
    time.sleep(0.1)
    gate.set()
    with accept(listener) as inside:
        assert connected.wait(20) and inside.recv(1) == b""


def test_a_reset_stream_ends_only_its_connection(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    connect(talk, port_of(listener), "a")
    with accept(listener) as inside:
        talk.socket.sendall(talk.client.let_go(talk.streams["adata"]))
        assert inside.recv(1) == b""
        talk.until(lambda: talk.has_ended("aerror"), "the end of its errors")
    connect(talk, port_of(listener), "b")
    with accept(listener) as inside:
        inside.sendall(b"hello")
        talk.until(lambda: talk.heard("bdata") == b"hello", "another connection")
    talk.close()


def test_a_reset_by_the_pod_is_an_end_without_an_error(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    connect(talk, port_of(listener))
    inside = accept(listener)
    talk.say("0data", b"x")
    assert inside.recv(1) == b"x", "it stands on both sides"
    inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    inside.close()
    talk.until(lambda: talk.has_ended("0error"), "the end")
    assert talk.heard("0error") == b""
    talk.close()


def test_a_port_without_a_listener_is_an_error_of_its_connection(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    connect(talk, 9)
    talk.until(lambda: talk.has_ended("0error"), "the error")
    assert talk.heard("0error") == b"error forwarding: cannot connect to port 9: Connection refused"
    talk.close()


def test_without_a_free_thread_only_the_new_connection_fails(world: World, listener: socket.socket) -> None:
    talk = forward(world)
    with no_threads():
        connect(talk, listener.getsockname()[1])
        talk.until(lambda: talk.has_ended("0error"), "the error")
    assert talk.heard("0error") == b"error forwarding: can't start new thread"
    talk.close()


def test_without_traffic_the_session_ends_after_a_timeout(world: World, listener: socket.socket) -> None:
    world.limited(idle_s=1.5)
    talk = forward(world)
    connect(talk, port_of(listener))
    with accept(listener) as inside:
        assert inside.recv(1) == b""
    talk.until(lambda: talk.ended, "the end of the connection")
    talk.close()


def test_over_a_websocket_each_port_has_a_connection(world: World, listener: socket.socket) -> None:
    port = port_of(listener)
    talk = WebSocketTalk(world.server.port_forward_url("pod", [port, 9]), "v4.channel.k8s.io")
    with accept(listener) as inside:
        talk.say(b"\0in")
        assert inside.recv(100) == b"in"
        inside.sendall(b"out")
    talk.until(lambda: talk.client.closed is not None, "the end")
    number = port.to_bytes(2, "little")
    assert talk.messages[:4] == [b"\0" + number, b"\1" + number, b"\2\x09\0", b"\3\x09\0"]
    assert b"\0out" in talk.messages and any(b"\3error forwarding" in message for message in talk.messages)
    talk.close()
