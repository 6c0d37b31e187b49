"""A client for a unix socket: connect, call, close."""

from __future__ import annotations

import pytest

from nri.errors import RuntimeUnavailable
from nri.ttrpc import Client, Method, Server, Service


def pods(*methods: tuple[str, Method]) -> Service:
    return Service("test.Pods", dict(methods))


def test_without_types_requests_and_replies_are_bytes(path) -> None:
    with Server(path, [pods(("Raw", Method(lambda data: data[::-1])))]), Client.connect(path) as client:
        assert client.call("test.Pods", "Raw", b"abc") == b"cba"


def test_a_socket_without_a_server_is_an_error_that_does_not_mention_nri(path) -> None:
    with pytest.raises(RuntimeUnavailable) as caught:
        Client.connect(path)
    assert str(caught.value) == f"cannot connect to {path}: No such file or directory. Is its server running?"


def test_a_missing_socket_is_an_error_with_its_path(path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"cannot connect to .*s\.sock: No such file"):
        Client.connect(path)


def test_a_path_instead_of_a_connection_is_an_error_with_the_right_call(path) -> None:
    with pytest.raises(TypeError, match=r"requires a connection, not a path: write Client.connect\(path\)"):
        Client(path)  # type: ignore[arg-type]
