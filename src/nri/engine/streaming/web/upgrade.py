"""The protocol that a request is switched to: SPDY/3.1 or a WebSocket, and one of Kubernetes's protocols over it.

Rules: the client's order decides; only names from our own lists ever are in an answer. Pure.
Sources: RFC 6455 section 4.2; Kubernetes's header ``X-Stream-Protocol-Version``.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from wsproto.utilities import generate_accept_token

from nri.engine.streaming.web.http import Request, answer, switch

__all__ = ["Refused", "Upgrade", "negotiate"]

_SPDY = "SPDY/3.1"
_VERSION, _ACCEPTED = "X-Stream-Protocol-Version", "X-Accepted-Stream-Protocol-Versions"


class Upgrade(NamedTuple):
    """The protocol that is spoken from now on, and the answer that says so."""

    websocket: bool
    protocol: str
    answer: bytes


class Refused(Exception):
    """The request cannot be switched. `answer` says why, for the client."""

    def __init__(self, status: HTTPStatus, text: str, *headers: tuple[str, str]) -> None:
        super().__init__(text)
        self.answer = answer(status, text, headers)


def negotiate(request: Request, spdy: Sequence[str], websocket: Sequence[str]) -> Upgrade:
    """Choose a protocol. `spdy` and `websocket` are those that are served over either. Raises Refused."""
    asked = [word.lower() for word in request.all("upgrade")]
    if "upgrade" not in [word.lower() for word in request.all("connection")] or not asked:
        raise Refused(HTTPStatus.BAD_REQUEST, f"unable to upgrade: ask for {_SPDY} or websocket", ("Upgrade", _SPDY))
    if "websocket" in asked:
        return _websocket(request, websocket)
    if _SPDY.lower() in asked:
        return _spdy(request, spdy)
    raise Refused(HTTPStatus.BAD_REQUEST, f"unable to upgrade: ask for {_SPDY} or websocket", ("Upgrade", _SPDY))


def _spdy(request: Request, served: Sequence[str]) -> Upgrade:
    asked = request.all(_VERSION.lower())
    if not asked:
        raise Refused(HTTPStatus.BAD_REQUEST, f"unable to upgrade: the header {_VERSION} names no protocol")
    chosen = next((each for each in asked if each in served), None)
    if chosen is None:
        text = f"unable to upgrade: none of the client's protocols is served; those are {', '.join(served)}"
        raise Refused(HTTPStatus.FORBIDDEN, text, *((_ACCEPTED, each) for each in served))
    headers = [("Connection", "Upgrade"), ("Upgrade", _SPDY), (_VERSION, chosen)]
    return Upgrade(websocket=False, protocol=chosen, answer=switch(headers))


def _websocket(request: Request, served: Sequence[str]) -> Upgrade:
    if request.method != "GET":
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "a WebSocket begins with GET", ("Allow", "GET"))
    if request.first("sec-websocket-version").strip() != "13":
        raise Refused(HTTPStatus.UPGRADE_REQUIRED, "version 13 is served", ("Sec-WebSocket-Version", "13"))
    key = request.first("sec-websocket-key").strip()
    if not _is_key(key):
        raise Refused(HTTPStatus.BAD_REQUEST, "Sec-WebSocket-Key is not 16 bytes in base64")
    asked = request.all("sec-websocket-protocol") or [""]
    chosen = next((each for each in asked if each in served), None)
    if chosen is None:
        names = ", ".join(filter(None, served))
        raise Refused(HTTPStatus.FORBIDDEN, f"none of the client's protocols is served; those are {names}")
    headers = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
    headers += [("Sec-WebSocket-Accept", generate_accept_token(key.encode()).decode())]
    headers += [("Sec-WebSocket-Protocol", chosen)] if chosen else []
    return Upgrade(websocket=True, protocol=chosen, answer=switch(headers))


def _is_key(key: str) -> bool:
    try:
        return len(binascii.a2b_base64(key.encode(), strict_mode=True)) == 16
    except (binascii.Error, UnicodeEncodeError):
        return False
