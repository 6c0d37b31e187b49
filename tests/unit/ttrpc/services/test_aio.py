"""The asyncio client: calls, their errors, and how a client is made."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import pytest

from nri.errors import (
    DeadlineExceeded,
    OversizedMessage,
    RpcError,
    RuntimeUnavailable,
)
from nri.ttrpc import AsyncClient, Code, Method
from tests.support.stream_servers import methods, run
from tests.support.streams import DESCRIPTOR, NAME, Item, ListRequest

PATIENCE_S = 10.0


def test_calls_go_at_the_same_time(path: str) -> None:
    meet = threading.Barrier(3, timeout=PATIENCE_S)

    async def work(client: AsyncClient) -> None:
        replies = await asyncio.gather(*(client.call("s", "Meet", b"%d" % n) for n in range(3)))
        assert replies == [b"0", b"1", b"2"]

    run(path, work, methods(Meet=Method(lambda payload: (meet.wait(), payload)[1])))


def test_statuses_deadlines_and_oversized_requests_cost_one_call(path: str) -> None:
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


def test_a_late_answer_and_a_call_that_is_cancelled_leave_the_connection_usable(path: str) -> None:
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
        assert not client._connection.calls

    run(path, work, methods(Slow=Method(slow)))


def test_metadata_and_time_left_reach_the_server(path: str) -> None:
    seen: list[Any] = []

    async def work(client: AsyncClient) -> None:
        await client.call("s", "Look", metadata=[("Team", "a")], timeout_s=3)

    run(path, work, methods(Look=Method(lambda _, request: seen.append(request) or b"", wants_request=True)))
    assert seen[0].metadata == (("team", "a"),)
    assert seen[0].timeout_ns == 3_000_000_000


def test_a_socket_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"cannot connect to .*s\.sock: No such file"):
        asyncio.run(AsyncClient.connect(path))


def test_a_client_made_from_a_descriptor_is_awaited(path: str) -> None:
    async def work(client: AsyncClient) -> None:
        streams = client.service(DESCRIPTOR)
        assert (await streams.Look(Item(number=4))).number == 4
        assert [item.number async for item in streams.list(ListRequest(count=2))] == [0, 1]

    run(path, work)


def test_the_other_names_do_not_load_asyncio() -> None:
    text = "import sys; from nri.ttrpc import Client, Server, Service, ClientStream; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_client_of_a_path_says_how_to_connect_to_it(path: str) -> None:
    with pytest.raises(TypeError, match=r"takes a connection, not a path: write await AsyncClient.connect\(path\)"):
        AsyncClient(path)  # type: ignore[arg-type]
