"""`nri.ttrpc` against the ttRPC libraries of Go and Rust, as client and as server.

Messages of the echo service (tests/peers/proto/echo.proto) are written by hand over `nri.wire`: five fields.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nri.errors import DeadlineExceeded, OversizedMessage, RpcError
from nri.ttrpc import Client, Code, Method, Server, Service
from nri.wire import bytes_field, iter_fields, varint_field
from tests.peers.build import peer
from tests.peers.drivers import LineProcess

LANGUAGES = {"go": "ttrpcpeer", "rust": "rustpeer"}


def pattern(size: int) -> bytes:
    return (bytes(range(251)) * (size // 251 + 1))[:size]


@pytest.fixture(params=sorted(LANGUAGES))
def program(request: pytest.FixtureRequest) -> tuple[str, Path]:
    return request.param, peer(LANGUAGES[request.param])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nri-") as name:
        yield Path(name)


# -- our client, their server -----------------------------------------------------------------------------------------


def echo_request(
    payload: bytes = b"", *, delay_ms: int = 0, code: int = 0, message: str = "", reply_size: int = 0
) -> bytes:
    return (
        (bytes_field(1, payload) if payload else b"")
        + varint_field(2, delay_ms)
        + varint_field(3, code)
        + (bytes_field(4, message.encode()) if message else b"")
        + varint_field(5, reply_size)
    )


def echo_reply(data: bytes) -> dict[str, Any]:
    reply: dict[str, Any] = {"payload": b"", "timeout_ns": 0, "metadata": []}
    for number, _, value in iter_fields(data):
        if number == 1:
            reply["payload"] = value
        elif number == 2:
            reply["timeout_ns"] = value
        elif isinstance(value, bytes):
            pair = {key: content for key, _, content in iter_fields(value)}
            reply["metadata"].append((pair[1].decode(), pair[2].decode()))
    return reply


@pytest.fixture
def client(program: tuple[str, Path], folder: Path) -> Iterator[Client]:
    with LineProcess([program[1], "server", "-socket", folder / "s"]) as server:
        server.wait_event("listening")
        with Client.connect(str(folder / "s")) as client:
            yield client


def call(client: Client, **request: Any) -> dict[str, Any]:
    options = {name: request.pop(name) for name in ("timeout_s", "metadata") if name in request}
    return echo_reply(client.call("nri.test.Echo", "Echo", echo_request(**request), **options))


@pytest.mark.parametrize("size", [0, 1, 127, 128, 4085, 4086, 4087, 65_535, 1_000_000, 4_000_000])
def test_payloads_of_every_size_return_from_the_foreign_server(client: Client, size: int) -> None:
    assert call(client, payload=pattern(size))["payload"] == pattern(size)


def test_the_foreign_server_sees_our_deadline_and_metadata(client: Client) -> None:
    reply = call(client, payload=b"x", timeout_s=5, metadata=[("a", "1"), ("b", "2")])
    assert 0 < reply["timeout_ns"] <= 5e9
    assert reply["metadata"] == [("a", "1"), ("b", "2")]


@pytest.mark.parametrize("code", [1, 2, 5, 7, 8, 13, 16])
def test_statuses_of_the_foreign_server_reach_our_client(client: Client, code: int) -> None:
    with pytest.raises(RpcError) as caught:
        call(client, code=code, message="no luck")
    assert (caught.value.code, caught.value.message) == (code, "no luck")


def test_an_unknown_method_of_the_foreign_server_is_a_status(program: tuple[str, Path], client: Client) -> None:
    with pytest.raises(RpcError) as caught:
        client.call("nri.test.Echo", "Nothing")
    assert caught.value.code == {"go": Code.UNIMPLEMENTED, "rust": Code.INVALID_ARGUMENT}[program[0]]
    assert call(client, payload=b"still here")["payload"] == b"still here"


def test_a_slow_reply_of_the_foreign_server_fails_only_its_call(client: Client) -> None:
    with pytest.raises(DeadlineExceeded):
        call(client, payload=b"slow", delay_ms=1500, timeout_s=0.1)
    assert call(client, payload=b"at once")["payload"] == b"at once"
    time.sleep(1.5)  # the late answer arrives, and is dropped
    assert call(client, payload=b"next")["payload"] == b"next"


def test_concurrent_calls_to_the_foreign_server_get_the_right_replies(client: Client) -> None:
    wrong: list[int] = []

    def work(n: int) -> None:
        for i in range(30):
            payload = pattern(100 * n + i)
            if call(client, payload=payload, delay_ms=(n * 7 + i) % 5)["payload"] != payload:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_an_oversized_request_is_refused_before_it_is_sent(client: Client) -> None:
    with pytest.raises(OversizedMessage):
        call(client, payload=bytes(4 << 20))
    assert call(client, payload=b"x")["payload"] == b"x"


# -- their client, our server -----------------------------------------------------------------------------------------


def answer(data: bytes, request: Any) -> bytes:
    fields: dict[int, Any] = {number: value for number, _, value in iter_fields(data)}
    if fields.get(2):
        time.sleep(fields[2] / 1000)
    if fields.get(3):
        raise RpcError(fields[3], fields.get(4, b"").decode())
    payload = pattern(fields[5]) if fields.get(5) else fields.get(1, b"")
    pairs = [
        bytes_field(3, bytes_field(1, k.encode()) + bytes_field(2, v.encode())) for k, v in sorted(request.metadata)
    ]
    return (bytes_field(1, payload) if payload else b"") + varint_field(2, request.timeout_ns) + b"".join(pairs)


@pytest.fixture
def their_client(program: tuple[str, Path], folder: Path) -> Iterator[LineProcess]:
    service = Service("nri.test.Echo", {"Echo": Method(answer, wants_request=True)})
    with (
        Server(str(folder / "s"), [service]),
        LineProcess([program[1], "client", "-socket", folder / "s"]) as process,
    ):
        process.wait_event("connected")
        yield process


@pytest.mark.parametrize("size", [0, 1, 4085, 4087, 65_535, 1_000_000, 4_000_000])
def test_payloads_of_every_size_return_to_the_foreign_client(their_client: LineProcess, size: int) -> None:
    line = their_client.ask({"payload_size": size})
    assert line["ok"], line
    assert (line["size"], line["intact"]) == (size, True)


def test_our_server_sees_the_foreign_clients_deadline_and_metadata(their_client: LineProcess) -> None:
    line = their_client.ask({"payload_size": 1, "timeout_ms": 5000, "metadata": {"k": ["v"]}})
    assert line["ok"], line
    assert 0 < line["timeout_ns"] <= 5e9
    assert "v" in str(line["metadata"])


@pytest.mark.parametrize("code", [2, 5, 7, 12])
def test_our_statuses_reach_the_foreign_client(their_client: LineProcess, code: int) -> None:
    line = their_client.ask({"code": code, "message": "no luck"})
    assert (line["ok"], line["code"]) == (False, code), line
    assert "no luck" in line["message"]


@pytest.mark.parametrize("what", [{"service": "nri.test.Other"}, {"method": "Other"}])
def test_an_unknown_method_of_our_server_is_unimplemented_to_the_foreign_client(
    their_client: LineProcess, what: dict[str, str]
) -> None:
    line = their_client.ask({"payload_size": 1, **what})
    assert (line["ok"], line["code"]) == (False, Code.UNIMPLEMENTED), line
    assert their_client.ask({"payload_size": 1})["ok"], "the connection must stay usable"


def test_concurrent_calls_of_the_foreign_client_are_answered_out_of_order(their_client: LineProcess) -> None:
    their_client.send({"id": "slow", "payload_size": 3, "delay_ms": 1500})
    their_client.send({"id": "fast", "payload_size": 4})
    their_client.wait_for(lambda line: line.get("id") == "slow")
    order = [line["id"] for line in their_client.lines if line.get("id") in ("slow", "fast")]
    assert order == ["fast", "slow"]


def test_an_oversized_reply_is_a_status_to_the_foreign_client(their_client: LineProcess) -> None:
    line = their_client.ask({"reply_size": 5_000_000, "timeout_ms": 10_000})
    assert (line["ok"], line["code"]) == (False, Code.RESOURCE_EXHAUSTED), line
    assert their_client.ask({"payload_size": 1})["ok"], "the connection must stay usable"


def test_a_deadline_of_the_foreign_client_does_not_affect_the_next_call(their_client: LineProcess) -> None:
    line = their_client.ask({"payload_size": 1, "delay_ms": 1500, "timeout_ms": 50})
    assert not line["ok"]
    assert their_client.ask({"payload_size": 1, "timeout_ms": 5000})["ok"]
