"""Connections to a port are made on the loopback, IPv4 before IPv6, and an error names the port and its cause."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nri.engine.streaming import connect_port
from nri.engine.support.errors import EngineError


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_listeners_on_ipv4_and_ipv6_are_found(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as listener:
        with connect_port(None, listener.getsockname()[1]) as connection:
            assert connection.gettimeout() is None and connection.getpeername()[0] == address
            listener.accept()[0].close()
            assert connection.recv(1) == b""


def test_an_error_names_port_and_reason_once() -> None:
    with pytest.raises(EngineError, match=r"^cannot connect to port 9: Connection refused$"):
        connect_port(None, 9)


def test_a_missing_namespace_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot connect to port 80: No such file"):
        connect_port(tmp_path / "gone", 80)
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match="cannot connect to port 80: Invalid argument"):
        connect_port(tmp_path / "file", 80)
