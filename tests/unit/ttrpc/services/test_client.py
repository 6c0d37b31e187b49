"""A client for a unix socket: connect, call, close."""

from __future__ import annotations

import pytest

from nri.errors import RuntimeUnavailable
from nri.ttrpc import Client, Method, Server, Service


def pods(*methods: tuple[str, Method]) -> Service:
    return Service("test.Pods", dict(methods))


def test_bytes_go_in_and_out_where_no_types_are_given(path) -> None:
    with Server(path, [pods(("Raw", Method(lambda data: data[::-1])))]), Client.connect(path) as client:
        assert client.call("test.Pods", "Raw", b"abc") == b"cba"


def test_a_socket_that_nobody_serves_is_told_without_words_of_nri(path) -> None:
    with pytest.raises(RuntimeUnavailable) as caught:
        Client.connect(path)
    assert str(caught.value) == f"cannot connect to {path}: No such file or directory. Is its server running?"


def test_a_socket_that_is_not_there_is_named(path) -> None:
    with pytest.raises(RuntimeUnavailable, match=r"cannot connect to .*s\.sock: No such file"):
        Client.connect(path)


def test_a_client_of_a_path_says_how_to_connect_to_it(path) -> None:
    with pytest.raises(TypeError, match=r"requires a connection, not a path: write Client.connect\(path\)"):
        Client(path)  # type: ignore[arg-type]
