"""The page and its data over HTTP, for browsers that have the token: GET alone, which changes nothing.

The token is in the page's address behind `#`, which browsers send to nobody, and comes with each question in a header.
The page itself has no data, and is for all. A page that another site has made a browser open, or a name of another site
that leads here, gets nothing. New events come as server-sent events. Next: `nri.service.http`.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from nri.inspector.page import headers, page
from nri.inspector.sources import SourceUnavailable
from nri.service.http import Answer, Server, json_answer, text_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from nri.inspector.sources import Source

__all__ = ["Web"]

#: Bytes of a token, which nobody guesses however often they may try.
_TOKEN_BYTES: Final = 24


class Web:
    """Serves a source until `close`.

    Args:
        source: what the page shows.
        address: HOST:PORT; port 0 takes any.
        token: what those who ask have to know; None makes one.

    Attributes:
        token: as above.
        url: where the page is, with the token.

    Raises NriError if the address cannot be listened on.
    """

    def __init__(self, source: Source, address: str = "127.0.0.1:0", token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(_TOKEN_BYTES)
        self._host = (address.rpartition(":")[0] or "127.0.0.1").lower()
        html = page()
        handlers: dict[str, Callable[[Mapping[str, str]], Answer]] = {
            "/": lambda _: (200, "text/html; charset=utf-8", html),
            "/api/overview": lambda _: _answer(source.overview),
            "/api/events": lambda parameters: _answer(
                lambda: source.events(
                    parameters.get("from", "")[:64], parameters.get("q", "")[:256], _max_events(parameters)
                )
            ),
            "/api/event": lambda parameters: _answer(lambda: source.event(parameters.get("key", "")[:64])),
            "/api/containers": lambda _: _answer(source.containers),
            "/api/container": lambda parameters: _answer(lambda: source.container(parameters.get("id", "")[:256])),
            "/api/view": lambda parameters: _answer(
                lambda: source.view(parameters.get("name", "")[:64], parameters.get("of", "")[:256])
            ),
        }
        streams = {
            "/api/follow": lambda parameters: _server_sent_events(
                source, parameters.get("after", "")[:64], parameters.get("q", "")[:256]
            )
        }
        self._server = Server(public=handlers, address=address, streams=streams, guard=self._guard, headers=headers())
        self.url = f"http://{self._host}:{self._server.port}/#token={self.token}"

    def _guard(self, path: str, fields: Mapping[str, str]) -> Answer | None:
        host = fields.get("host", "")
        if not self._is_own_host(host):
            return text_answer("open the address that nri inspect has printed, not another name of this machine\n", 403)
        if path == "/":
            return None
        if fields.get("origin", f"http://{host}") != f"http://{host}":
            return text_answer("another site may not ask\n", 403)
        expected = f"Bearer {self.token}".encode()
        if hmac.compare_digest(fields.get("authorization", "").encode(), expected):
            return None
        return text_answer("the token is missing or wrong: open the address that nri inspect has printed\n", 401)

    def _is_own_host(self, host: str) -> bool:
        """Whether a request was made to this machine by a number, or by the name that we listen on.

        Another name may be one of a site that has made it lead here, so that its own pages can ask.
        """
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in ("localhost", self._host):
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _max_events(parameters: Mapping[str, str]) -> int:
    text = parameters.get("most", "")
    return int(text[:6]) if text.isascii() and text.isdecimal() else 200


def _answer(ask: Callable[[], dict[str, Any] | None]) -> Answer:
    try:
        value = ask()
    except SourceUnavailable as error:
        return text_answer(f"{error}\n", 503)
    return text_answer("not there, or not any more\n", 404) if value is None else json_answer(value)


def _server_sent_events(source: Source, after: str, text: str) -> Generator[bytes]:
    """The events of a source, as server-sent events; also that it does not answer."""
    for update in source.follow(after, text):
        yield f"data: {json.dumps(update)}\n\n".encode()
