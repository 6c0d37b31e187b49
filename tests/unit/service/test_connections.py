"""The limit of concurrent connections, shared fairly between addresses."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from nri.service.connections import Connection, Connections
from tests.support.waiting import wait_for


@pytest.fixture
def far_ends() -> Iterator[list[socket.socket]]:
    ends: list[socket.socket] = []
    yield ends
    for end in ends:
        end.close()


def connection(ends: list[socket.socket], address: str) -> Connection:
    near_end, far_end = socket.socketpair()
    far_end.setblocking(False)
    ends += [near_end, far_end]
    return Connection(near_end, address)


def test_the_address_with_most_connections_loses_its_oldest(far_ends: list[socket.socket]) -> None:
    places = Connections(4)
    every = [connection(far_ends, address) for address in ("a", "b", "b", "c")]
    assert [places.enter([entry]) for entry in every] == every
    assert places.enter([connection(far_ends, "d")]) and len(places) == 4
    assert closed(far_ends[:8]) == [every[1].socket]
    assert [places.start_answer(entry) for entry in every] == [True, False, True, True]


def closed(ends: list[socket.socket]) -> list[socket.socket]:
    """The near ends of the connections that were closed."""
    result = []
    for near_end, far_end in zip(ends[::2], ends[1::2], strict=True):
        with contextlib.suppress(BlockingIOError):
            assert far_end.recv(1) == b""
            result.append(near_end)
    return result


def test_a_connection_keeps_its_place_while_it_is_answered(
    far_ends: list[socket.socket],
) -> None:
    places = Connections(1)
    first, second, third = (connection(far_ends, address) for address in "abc")
    calls: list[None] = []
    places.on_room = lambda: calls.append(None)
    assert places.enter([first]) and places.start_answer(first)
    assert places.enter([second]) is None and not calls
    places.leave(first)
    assert len(calls) == 1 and places.enter([second]) is second
    assert places.start_answer(second) and places.enter([third]) is None, "who is answered for long is not cut off"
    places.finish_answer(second)
    assert len(calls) == 2 and places.enter([third]) is third, "who does not take its answer is"


def test_an_address_never_displaces_an_address_with_fewer_connections(far_ends: list[socket.socket]) -> None:
    places = Connections(4)
    flood = [connection(far_ends, "a") for _ in range(3)]
    assert all(places.enter([entry]) and places.start_answer(entry) for entry in flood)
    honest = connection(far_ends, "b")
    assert places.enter([honest]) is honest
    assert places.enter([connection(far_ends, "a") for _ in range(8)]) is None
    assert places.start_answer(honest) and closed(far_ends) == []


def test_the_waiting_address_with_fewest_connections_is_first(far_ends: list[socket.socket]) -> None:
    places = Connections(2)
    first, second = (connection(far_ends, "a") for _ in range(2))
    assert all(places.enter([entry]) and places.start_answer(entry) for entry in (first, second))
    waiting = [*(connection(far_ends, "a") for _ in range(8)), connection(far_ends, "b")]
    assert places.enter(waiting) is None
    places.leave(first)
    assert places.enter(waiting) is waiting[-1]


def test_the_address_with_fewest_waiting_connections_is_next(far_ends: list[socket.socket]) -> None:
    places, order = Connections(8), list[str]()
    entered, end = threading.Event(), threading.Event()

    def take(one: Connection, *, first: bool = False) -> None:
        with places.turn(one):
            order.append(one.address)
            if first:
                entered.set()
                end.wait(20)

    def start(address: str, **options: bool) -> threading.Thread:
        thread = threading.Thread(target=take, args=(connection(far_ends, address),), kwargs=options)
        thread.start()
        return thread

    threads = [start("a", first=True)]
    assert entered.wait(20)
    for number, address in enumerate("aaab", 1):
        threads.append(start(address))
        wait_for(lambda number=number: len(places.waiting) == number, "the thread is in line")
    end.set()
    for thread in threads:
        thread.join(20)
    assert order == ["a", "b", "a", "a", "a"]


def test_bodies_of_one_address_use_at_most_two_thirds_of_the_limit(far_ends: list[socket.socket]) -> None:
    places = Connections(8, 30)
    flood, honest = [connection(far_ends, "a") for _ in range(3)], connection(far_ends, "b")
    assert all(places.enter([entry]) for entry in (*flood, honest))
    assert [places.charge(entry, 10) for entry in flood] == [True, True, True]
    assert closed(far_ends[:6]) == [flood[0].socket]
    assert all(map(places.start_answer, flood[1:]))
    assert places.charge(honest, 10), "though nobody else is sending"
