"""Serve the page and its data over HTTP, read-only, for browsers with the token.

The token is in the fragment of the page's URL, which browsers do not send, and in a header of each request for data.
The page itself has no data. Requests from other sites, or to other host names, are refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from nri.inspector.filters import Filter
from nri.inspector.page import headers, page
from nri.inspector.sources import SourceUnavailable
from nri.service.http import Answer, Server, json_answer, text_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from nri.inspector.sources import Source

#: The length of a random token in bytes.
_TOKEN_BYTES: Final = 24


class Web:
    """Serves a source until `close`.

    Args:
        source: the data of the page.
        address: HOST:PORT; port 0 for any free port.
        token: the token that requests must have; None for a random token.

    Attributes:
        token: the token.
        url: the URL of the page with the token.

    Raises NriError if the server cannot listen on the address.
    """

    def __init__(self, source: Source, address: str = "127.0.0.1:0", token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(_TOKEN_BYTES)
        self._host = (address.rpartition(":")[0] or "127.0.0.1").lower()
        html = page()
        handlers: dict[str, Callable[[Mapping[str, str]], Answer]] = {
            "/": lambda _: (200, "text/html; charset=utf-8", html),
            "/api/overview": lambda _: _source_answer(source.overview),
            "/api/events": lambda parameters: _source_answer(
                lambda: source.events(parameters.get("from", "")[:64], Filter.of(parameters), _max_events(parameters))
            ),
            "/api/event": lambda parameters: _source_answer(lambda: source.event(parameters.get("key", "")[:64])),
            "/api/containers": lambda _: _source_answer(source.containers),
            "/api/container": lambda parameters: _source_answer(
                lambda: source.container(parameters.get("id", "")[:256])
            ),
            "/api/view": lambda parameters: _source_answer(
                lambda: source.view(parameters.get("name", "")[:64], parameters.get("of", "")[:256])
            ),
        }
        streams = {
            "/api/follow": lambda parameters: _server_sent_events(
                source, parameters.get("after", "")[:64], Filter.of(parameters)
            )
        }
        self._server = Server(public=handlers, address=address, streams=streams, guard=self._guard, headers=headers())
        self.url = f"http://{self._host}:{self._server.port}/#token={self.token}"

    def _guard(self, path: str, fields: Mapping[str, str]) -> Answer | None:
        host = fields.get("host", "")
        if not self._is_own_host(host):
            return text_answer("wrong host name: open the address that nri inspect has printed\n", 403)
        if path == "/":
            return None
        if fields.get("origin", f"http://{host}") != f"http://{host}":
            return text_answer("requests from other sites are not allowed\n", 403)
        expected = f"Bearer {self.token}".encode()
        if hmac.compare_digest(fields.get("authorization", "").encode(), expected):
            return None
        return text_answer("the token is missing or wrong: open the address that nri inspect has printed\n", 401)

    def _is_own_host(self, host: str) -> bool:
        """Whether the host of a request is an IP address, or the name on which the server listens.

        Any other name may belong to a site that resolves it to this machine (DNS rebinding).
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


def _source_answer(ask: Callable[[], dict[str, Any] | None]) -> Answer:
    """The answer of a source; null if the source does not know the event or container, which is not an error."""
    try:
        value = ask()
    except SourceUnavailable as error:
        return text_answer(f"{error}\n", 503)
    return json_answer(value)


def _server_sent_events(source: Source, after: str, chosen: Filter) -> Generator[bytes]:
    """The events of a source as server-sent events."""
    for update in source.follow(after, chosen):
        yield f"data: {json.dumps(update)}\n\n".encode()
