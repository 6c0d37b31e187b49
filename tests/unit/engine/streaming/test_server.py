"""The streaming server: tokens, requests, limits and stop."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from nri.engine.streaming import StreamingServer, server
from nri.errors import RequestError
from tests.support.no_threads import no_threads
from tests.support.stream_clients import SpdyClient
from tests.support.stream_world import SpdyTalk, WebSocketTalk, World, ask, is_running, request, rest_of
from tests.support.waiting import wait_for

SPDY = ("Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io")


def exec_url(world: World) -> str:
    return world.server.exec_url("c", ["true"], stdout=True)


@pytest.mark.parametrize(
    "path", ["/", "/exec/", "/exec/x", "/exec/../exec/{token}", "/attach/{token}", "/EXEC/{token}", "/exec/{token}/"]
)
def test_only_a_valid_token_is_served(world: World, path: str) -> None:
    url = exec_url(world)
    base, token = url.removesuffix(url[url.rindex("/exec/") :]), url.rpartition("/")[2]
    assert ask(base + path.format(token=token), *SPDY).startswith("HTTP/1.1 404 ")


def test_a_refused_request_also_uses_up_the_token(world: World) -> None:
    url = exec_url(world)
    assert ask(url).startswith("HTTP/1.1 400 ")
    assert ask(url, *SPDY).startswith("HTTP/1.1 404 ")
    assert world.started == []


@pytest.mark.parametrize(("method", "status"), [("PUT", 405), ("DELETE", 405), ("G\x01T", 400)])
def test_other_methods_and_invalid_http_are_refused(world: World, method: str, status: int) -> None:
    assert ask(exec_url(world), *SPDY, method=method).startswith(f"HTTP/1.1 {status} ")


def test_an_endless_header_is_refused(world: World) -> None:
    assert ask(exec_url(world), *SPDY, "X: " + "x" * 20_000).startswith("HTTP/1.1 400 ")


def test_a_silent_client_is_disconnected(world: World) -> None:
    world.limited(request_s=1.0)
    connection, data = request(exec_url(world), *SPDY)
    with connection:
        connection.sendall(data[:-1])
        assert rest_of(connection) == b""


def test_a_client_without_streams_is_disconnected_and_no_program_runs(world: World) -> None:
    world.limited(creation_s=1.0)
    talk = SpdyTalk(exec_url(world), "v4.channel.k8s.io")
    talk.open(streamtype="error")
    talk.until(lambda: talk.ended, "the end of the connection")
    assert world.started == []
    talk.close()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n" * 10, b"\x80\x03\x00\x01\x00\xff\xff\xff", bytes(100)])
def test_a_client_with_a_protocol_error_is_disconnected_and_no_program_runs(world: World, data: bytes) -> None:
    talk = SpdyTalk(exec_url(world), "v4.channel.k8s.io")
    talk.socket.sendall(data)
    assert rest_of(talk.socket) == b""
    assert world.started == []
    talk.close()


def test_bytes_right_after_the_request_are_not_lost(world: World) -> None:
    client = SpdyClient()
    opened = b"".join(client.open({"streamtype": kind})[1] for kind in ("error", "stdout"))
    connection, data = request(world.server.exec_url("c", ["echo", "hello"], stdout=True), *SPDY)
    with connection:
        connection.sendall(data + opened)
        received = b""
        while b"hello" not in received:
            more = connection.recv(65536)
            assert more, received
            received += more


def test_clients_above_the_limit_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CLIENTS", 2)
    sessions = [world.run("sleep", "300") for _ in range(2)]
    assert ask(exec_url(world), *SPDY).startswith("HTTP/1.1 503 ")
    sessions[0].close()
    wait_for(lambda: ask(exec_url(world)).startswith("HTTP/1.1 400 "), "no room was made")
    sessions[1].close()


@pytest.mark.parametrize("data", [b"", b"GET /exec/none HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_clients_without_a_token_give_way_to_clients_with_a_token(
    world: World, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr(server, "MAX_CLIENTS", 2)
    sessions = world.run("sleep", "300")
    where = sessions.socket.getpeername()
    strangers = []
    for _ in range(4):
        strangers.append(socket.create_connection(where))
        strangers[-1].sendall(data)
        if data:
            assert strangers[-1].recv(9) == b"HTTP/1.1 "
    assert ask(exec_url(world)).startswith("HTTP/1.1 400 "), "the request was read: it is not an upgrade"
    for stranger in strangers:
        stranger.close()
    sessions.close()


def test_without_a_free_thread_only_the_new_client_is_disconnected(world: World) -> None:
    url = exec_url(world)
    with no_threads():
        assert ask(url, *SPDY) == ""
    assert ask(url).startswith("HTTP/1.1 400 "), "the request was read: it is not an upgrade"


def test_stop_ends_all_sessions_and_can_be_called_twice(world: World) -> None:
    talk = world.run("sleep", "300")
    silent = socket.create_connection(talk.socket.getpeername())
    talk.until(lambda: len(talk.client.replied) == 2, "the streams")
    wait_for(lambda: world.started)
    where = talk.socket.getpeername()
    world.server.stop()
    assert not is_running(world.started[0])
    assert rest_of(talk.socket) == rest_of(silent) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(where)
    world.server.stop()
    talk.close()
    silent.close()


@pytest.mark.parametrize(
    ("call", "arguments", "field"),
    [
        ("exec_url", {"container_id": "c", "argv": [], "stdout": True}, "cmd"),
        ("exec_url", {"container_id": "", "argv": ["a"], "stdout": True}, "container_id"),
        ("exec_url", {"container_id": "c", "argv": ["a"]}, "stdin"),
        ("exec_url", {"container_id": "c", "argv": ["a"], "tty": True, "stderr": True}, "stderr"),
        ("attach_url", {"container_id": "", "stdout": True}, "container_id"),
        ("attach_url", {"container_id": "c"}, "stdin"),
        ("port_forward_url", {"pod_id": ""}, "pod_sandbox_id"),
        ("port_forward_url", {"pod_id": "p", "ports": [80, 0]}, "port"),
        ("port_forward_url", {"pod_id": "p", "ports": [65536]}, "port"),
        ("port_forward_url", {"pod_id": "p", "ports": [80] * 33}, "port"),
    ],
)
def test_invalid_requests_get_no_token(world: World, call: str, arguments: Any, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        getattr(world.server, call)(**arguments)
    assert refused.value.field == field


def test_an_ipv6_address_is_in_brackets(world: World) -> None:
    streaming_server = StreamingServer("::1", 0, world)
    streaming_server.start()
    try:
        url = streaming_server.exec_url("c", ["true"], stdout=True)
        assert url.startswith("http://[::1]:") and ask(url).startswith("HTTP/1.1 400 ")
    finally:
        streaming_server.stop()


def test_a_websocket_of_port_forward_requires_ports_or_the_tunnel(world: World) -> None:
    url = world.server.port_forward_url("pod")
    answer_ = ask(url, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", method="GET")  # fmt: skip
    assert answer_.startswith("HTTP/1.1 403 ") and "SPDY/3.1+portforward.k8s.io" in answer_
    WebSocketTalk(world.server.port_forward_url("pod"), "SPDY/3.1+portforward.k8s.io").close()
