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
    created: list[Pair] = []

    def make(*args, **kwargs) -> Pair:
        created.append(Pair(*args, **kwargs))
        return created[-1]

    yield make
    for pair in created:
        pair.close()


@pytest.fixture
def deaf() -> Iterator[tuple[Endpoint, socket.socket]]:
    """An endpoint that refuses requests, and the socket of a peer that reads nothing; the way there is full."""
    local, remote = socket.socketpair()
    endpoint = Endpoint(Trunk(local), client_id=1, server_id=2)
    yield endpoint, remote
    end(endpoint)
    remote.close()
