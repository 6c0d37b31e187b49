"""The HTTP/1.1 request of a connection, and the upgrade to SPDY/3.1 or a WebSocket, without a socket.

h11 parses the request, which has no body; the bytes after it belong to the new protocol. The client's first supported
protocol is used. Sources: RFC 6455 section 4.2; Kubernetes's ``X-Stream-Protocol-Version``.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

import h11
from wsproto.utilities import generate_accept_token

from nri.errors import RemoteProtocolError

MAX_HEAD_BYTES = 16384


class Request(NamedTuple):
    """A request without a body. The names of headers are in lower case."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]

    def all(self, name: str) -> list[str]:
        """Return the values of a header that is a list, from all lines with this header."""
        lines = [value for key, value in self.headers if key == name]
        return [word.strip() for line in lines for word in line.split(",") if word.strip()]

    def first(self, name: str) -> str:
        """Return the value of a header, or "" if it is missing."""
        return next((value for key, value in self.headers if key == name), "")


class RequestReader:
    """Reads one request. `rest` has the bytes that follow the request."""

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._request: Request | None = None
        self._size = 0
        self.rest = b""

    def receive(self, data: bytes) -> Request | None:
        """Receive bytes, and return the request once it is complete.

        Raises RemoteProtocolError if the request is invalid; the caller answers with the status 400.
        """
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
                    if self._size - len(self.rest) > MAX_HEAD_BYTES:
                        raise RemoteProtocolError(f"the request exceeds {MAX_HEAD_BYTES} bytes")
                    return self._request
                else:
                    raise RemoteProtocolError("the connection ended" if not data else "the request has a body")
        except h11.RemoteProtocolError as error:
            raise RemoteProtocolError(f"not an HTTP request: {error}") from None


def _read(event: h11.Request) -> Request:
    headers = [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in event.headers]
    path = bytes(event.target).decode("latin-1").partition("?")[0]
    return Request(bytes(event.method).decode("latin-1"), path, headers)


def switch(headers: Sequence[tuple[str, str]]) -> bytes:
    """Return the response that switches to another protocol."""
    return _response_head(HTTPStatus.SWITCHING_PROTOCOLS, headers) + b"\r\n"


def answer(status: HTTPStatus, text: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return the response that rejects a request and closes the connection."""
    body = f"{text}\n".encode()
    body_headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(body))),
        ("Connection", "close"),
    ]
    return _response_head(status, [*headers, *body_headers]) + b"\r\n" + body


def _response_head(status: HTTPStatus, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


_SPDY = "SPDY/3.1"
_VERSION, _ACCEPTED = "X-Stream-Protocol-Version", "X-Accepted-Stream-Protocol-Versions"


class Upgrade(NamedTuple):
    """The chosen protocol, and the response that switches to it."""

    websocket: bool
    protocol: str
    answer: bytes


class Refused(Exception):
    """The request cannot be upgraded. `answer` is the response for the client, with the reason."""

    def __init__(self, status: HTTPStatus, text: str, *headers: tuple[str, str]) -> None:
        super().__init__(text)
        self.answer = answer(status, text, headers)


def negotiate(request: Request, spdy: Sequence[str], websocket: Sequence[str]) -> Upgrade:
    """Choose one of the protocols that are supported over SPDY or over a WebSocket. Raises Refused if that fails."""
    requested = [word.lower() for word in request.all("upgrade")]
    if "upgrade" not in [word.lower() for word in request.all("connection")] or not requested:
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"unable to upgrade: the client must request {_SPDY} or websocket",
            ("Upgrade", _SPDY),
        )
    if "websocket" in requested:
        return _websocket(request, websocket)
    if _SPDY.lower() in requested:
        return _spdy(request, spdy)
    raise Refused(
        HTTPStatus.BAD_REQUEST, f"unable to upgrade: the client must request {_SPDY} or websocket", ("Upgrade", _SPDY)
    )


def _spdy(request: Request, served: Sequence[str]) -> Upgrade:
    requested = request.all(_VERSION.lower())
    if not requested:
        raise Refused(HTTPStatus.BAD_REQUEST, f"unable to upgrade: the header {_VERSION} is missing")
    chosen = next((protocol for protocol in requested if protocol in served), None)
    if chosen is None:
        text = f"unable to upgrade: none of the client's protocols is supported; supported: {', '.join(served)}"
        raise Refused(HTTPStatus.FORBIDDEN, text, *((_ACCEPTED, protocol) for protocol in served))
    headers = [("Connection", "Upgrade"), ("Upgrade", _SPDY), (_VERSION, chosen)]
    return Upgrade(websocket=False, protocol=chosen, answer=switch(headers))


def _websocket(request: Request, served: Sequence[str]) -> Upgrade:
    if request.method != "GET":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "a WebSocket requires GET", ("Allow", "GET"))
    if request.first("sec-websocket-version").strip() != "13":
        raise Refused(HTTPStatus.UPGRADE_REQUIRED, "only version 13 is supported", ("Sec-WebSocket-Version", "13"))
    key = request.first("sec-websocket-key").strip()
    if not _is_key(key):
        raise Refused(HTTPStatus.BAD_REQUEST, "Sec-WebSocket-Key is not 16 bytes in base64")
    requested = request.all("sec-websocket-protocol") or [""]
    chosen = next((protocol for protocol in requested if protocol in served), None)
    if chosen is None:
        names = ", ".join(filter(None, served))
        raise Refused(HTTPStatus.FORBIDDEN, f"none of the client's protocols is supported; supported: {names}")
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
    headers += [("Sec-WebSocket-Accept", generate_accept_token(key.encode()).decode())]
    headers += [("Sec-WebSocket-Protocol", chosen)] if chosen else []
    return Upgrade(websocket=True, protocol=chosen, answer=switch(headers))


def _is_key(key: str) -> bool:
    try:
        return len(binascii.a2b_base64(key.encode(), strict_mode=True)) == 16
    except (binascii.Error, UnicodeEncodeError):
        return False
