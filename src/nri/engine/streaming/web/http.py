"""The one HTTP/1.1 request of a connection, and the answer to it, without its socket.

Rules: h11 parses; a head has 16 KiB at most, and a request has no body. The bytes after the request already belong to
the protocol that is switched to.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

import h11

from nri.errors import RemoteProtocolError

__all__ = ["HEAD_LIMIT", "Request", "RequestReader", "answer", "switch"]

HEAD_LIMIT = 16384


class Request(NamedTuple):
    """A request without a body; names of headers are in small letters."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """The values of a header that is a list, over all its lines."""
        lines = [value for each, value in self.headers if each == name]
        return [word.strip() for line in lines for word in line.split(",") if word.strip()]

    def first(self, name: str) -> str:
        """The value of a header, or an empty text."""
        return next((value for each, value in self.headers if each == name), "")


class RequestReader:
    """Reads one request. `rest` is what came behind it."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
        self._request: Request | None = None
        self._size = 0
        self.rest = b""

    def receive(self, data: bytes) -> Request | None:
        """Take bytes; the request once it is whole. Raises RemoteProtocolError, which can be answered with 400."""
        self._size += len(data)
        try:
            self._connection.receive_data(data)
            while True:
                event = self._connection.next_event()
                if event is h11.NEED_DATA:
                    return None
                if isinstance(event, h11.Request):
                    self._request = _read(event)
                elif isinstance(event, h11.EndOfMessage):
                    self.rest = self._connection.trailing_data[0]
                    if self._size - len(self.rest) > HEAD_LIMIT:
                        raise RemoteProtocolError(f"a request of more than {HEAD_LIMIT} bytes")
                    return self._request
                else:
                    raise RemoteProtocolError("the connection ended" if not data else "a request with a body")
        except h11.RemoteProtocolError as error:
            raise RemoteProtocolError(f"no HTTP request: {error}") from None


def _read(event: h11.Request) -> Request:
    headers = [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in event.headers]
    path = bytes(event.target).decode("latin-1").partition("?")[0]
    return Request(bytes(event.method).decode("latin-1"), path, headers)


def switch(headers: Sequence[tuple[str, str]]) -> bytes:
    """The answer that switches protocols."""
    return _head(HTTPStatus.SWITCHING_PROTOCOLS, headers) + b"\r\n"


def answer(status: HTTPStatus, text: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """An answer that refuses, after which the connection ends."""
    body = f"{text}\n".encode()
    own = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), ("Connection", "close")]
    return _head(status, [*headers, *own]) + b"\r\n" + body


def _head(status: HTTPStatus, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
