"""Connections that are served at once: who gets a place, and who loses it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from nri.service.connections import Connection, Connections


@pytest.fixture
def far_ends() -> Iterator[list[socket.socket]]:
    ends: list[socket.socket] = []
    yield ends
    for end in ends:
        end.close()


def connection(ends: list[socket.socket], address: str) -> Connection:
    near, far = socket.socketpair()
    far.setblocking(False)
    ends += [near, far]
    return Connection(near, address)


def test_the_address_with_most_places_loses_the_one_that_came_first(far_ends: list[socket.socket]) -> None:
    places = Connections(4)
    every = [connection(far_ends, address) for address in ("a", "b", "b", "c")]
    assert all(map(places.enter, every))
    assert places.enter(connection(far_ends, "d")) and len(places) == 4
    cut = []
    for near, far in zip(far_ends[:8:2], far_ends[1:8:2], strict=True):
        with contextlib.suppress(BlockingIOError):
            assert far.recv(1) == b""
            cut.append(near)
    assert cut == [every[1].socket]
    assert [places.answer(each) for each in every] == [True, False, True, True]


def test_one_that_is_being_answered_keeps_its_place_and_is_waited_for(far_ends: list[socket.socket]) -> None:
    places = Connections(1)
    first, second = connection(far_ends, "a"), connection(far_ends, "b")
    assert places.enter(first) and places.answer(first)
    threading.Timer(0.05, places.leave, (first,)).start()
    assert places.enter(second)
    assert places.answer(second)
    assert not places.enter(connection(far_ends, "c")), "who is answered for long is not cut off"
    places.wait(second)
    assert places.enter(connection(far_ends, "c")), "who does not take its answer is"
