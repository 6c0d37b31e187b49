"""One request is read from any split of the bytes; invalid and oversized requests are refused."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.engine.streaming.http import MAX_HEAD_BYTES, RequestReader, answer, switch
from nri.errors import RemoteProtocolError

REQUEST = (
    b"POST /exec/abc?x=1 HTTP/1.1\r\nHost: a\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n"
)


@given(st.integers(1, 60), st.binary(max_size=30))
def test_a_request_is_separated_from_the_following_bytes(size: int, next_bytes: bytes) -> None:
    data, reader = REQUEST + next_bytes, RequestReader()
    for at in range(0, len(data), size):
        if request := reader.receive(data[at : at + size]):
            assert (request.method, request.path, request.first("upgrade")) == ("POST", "/exec/abc", "SPDY/3.1")
            assert next_bytes.startswith(reader.rest) and data[at + size :] == next_bytes[len(reader.rest) :]
            return
    raise AssertionError("no request was read")


def test_list_headers_of_several_lines_are_joined() -> None:
    data = b"GET / HTTP/1.1\r\nHost: a\r\nX-L: a, b\r\nx-l: c,,\r\nUpgrade: u\r\nConnection: upgrade\r\n\r\n"
    request = RequestReader().receive(data)
    assert request is not None
    assert request.all("x-l") == ["a", "b", "c"] and request.all("none") == [] and request.first("none") == ""


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x80\x03\x00\x01\x00\x00\x00\x00\r\n\r\n", "not an HTTP request"),
        (b"GET / HTTP/1.1\r\n\r\n", "Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * MAX_HEAD_BYTES, "not an HTTP request"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "has a body"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx", "has a body"),
    ],
)
def test_an_invalid_request_is_refused(data: bytes, why: str) -> None:
    reader = RequestReader()
    with pytest.raises(RemoteProtocolError, match=why):
        assert [reader.receive(data[at : at + 4096]) for at in range(0, len(data), 4096)] == "refused"


def test_an_oversized_complete_header_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="exceeds 16384 bytes"):
        RequestReader().receive(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n")


def test_replies_are_complete() -> None:
    assert switch([("Upgrade", "x")]) == b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"
    head, _, body = answer(HTTPStatus.NOT_FOUND, "not here", [("X", "y")]).partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[:2] == [b"HTTP/1.1 404 Not Found", b"X: y"]
    assert b"Content-Length: 9" in head and body == b"not here\n"
