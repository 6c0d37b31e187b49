"""Memory of a closed connection."""

from __future__ import annotations

import socket

import pytest

from nri.errors import DeadlineExceeded
from nri.mux import Trunk
from nri.ttrpc import Endpoint
from tests.support.endpoints import a_request, end, soon


def test_a_released_connection_keeps_no_bytes_of_messages() -> None:
    """The owner may keep the object for a long time after the end."""
    local, remote = socket.socketpair()
    trunk = Trunk(local)
    endpoint = Endpoint(trunk, client_id=1, server_id=2)
    remote.sendall(a_request(bytes(3000))[:1000])
    assert endpoint.poll()
    with pytest.raises(DeadlineExceeded):
        endpoint.call("s", "m", bytes(3_000_000), deadline=soon(0.05))
    assert endpoint.link.server.reader.data
    assert trunk.unsent
    end(endpoint)
    remote.close()
    assert not endpoint.link.server.reader.data
    assert not trunk.unsent
