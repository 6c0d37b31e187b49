"""Connections that are served at once: who gets a place, and who loses it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from nri.agent.visitors import Visitor, Visitors


@pytest.fixture
def far_ends() -> Iterator[list[socket.socket]]:
    ends: list[socket.socket] = []
    yield ends
    for end in ends:
        end.close()


def visitor(ends: list[socket.socket], address: str) -> Visitor:
    near, far = socket.socketpair()
    far.setblocking(False)
    ends += [near, far]
    return Visitor(near, address)


def test_the_address_with_most_places_loses_the_one_that_came_first(far_ends: list[socket.socket]) -> None:
    visitors = Visitors(4)
    every = [visitor(far_ends, address) for address in ("a", "b", "b", "c")]
    assert all(map(visitors.enter, every))
    assert visitors.enter(visitor(far_ends, "d")) and len(visitors) == 4
    cut = []
    for near, far in zip(far_ends[:8:2], far_ends[1:8:2], strict=True):
        with contextlib.suppress(BlockingIOError):
            assert far.recv(1) == b""
            cut.append(near)
    assert cut == [every[1].connection]
    assert [visitors.answer(each) for each in every] == [True, False, True, True]


def test_one_that_is_being_answered_keeps_its_place_and_is_waited_for(far_ends: list[socket.socket]) -> None:
    visitors = Visitors(1)
    first, second = visitor(far_ends, "a"), visitor(far_ends, "b")
    assert visitors.enter(first) and visitors.answer(first)
    threading.Timer(0.05, visitors.leave, (first,)).start()
    assert visitors.enter(second)
    assert visitors.answer(second)
    assert not visitors.enter(visitor(far_ends, "c")), "who is answered for long is not cut off"
    visitors.wait(second)
    assert visitors.enter(visitor(far_ends, "c")), "who does not take its answer is"
