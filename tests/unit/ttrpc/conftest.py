"""Endpoints for the tests of this folder, closed when a test is over."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from nri.mux import Trunk
from nri.ttrpc import Endpoint
from tests.support.endpoints import Pair, end


@pytest.fixture
def pairs() -> Iterator:
    made: list[Pair] = []

    def make(*args, **kwargs) -> Pair:
        made.append(Pair(*args, **kwargs))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


@pytest.fixture
def deaf() -> Iterator[tuple[Endpoint, socket.socket]]:
    """An endpoint that refuses requests, and the socket of a peer that reads nothing; the way there is full."""
    near, far = socket.socketpair()
    endpoint = Endpoint(Trunk(near), client_id=1, server_id=2)
    yield endpoint, far
    end(endpoint)
    far.close()
