"""Requests that wait for their client, behind tokens that can be used once and for a minute.

Rules: a token is random and the only key to a request; only so many wait at a time.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from nri.engine.support.errors import TooMany

__all__ = ["LIMIT", "Ask", "Tokens"]

#: How many may wait at a time.
LIMIT = 1000


class Ask(NamedTuple):
    """A request of CRI: `kind` is ``exec``, ``attach`` or ``portforward``, `id` that of the container or pod."""

    kind: str
    id: str
    argv: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    ports: tuple[int, ...] = ()


class Tokens:
    """The requests that wait; a token can be used for `life_s` seconds. For any thread."""

    def __init__(self, life_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._life_s, self._clock = life_s, clock
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[float, Ask]] = {}  # the oldest first

    def put(self, ask: Ask) -> str:
        """A token for a request. Raises TooMany."""
        with self._lock:
            now = self._clock()
            while self._waiting and next(iter(self._waiting.values()))[0] <= now:
                del self._waiting[next(iter(self._waiting))]
            if len(self._waiting) >= LIMIT:
                raise TooMany("requests for streams that no client has taken up", LIMIT)
            token = secrets.token_urlsafe(24)
            self._waiting[token] = now + self._life_s, ask
            return token

    def take(self, token: str) -> Ask | None:
        """The request of a token, which is of no more use then; None if there is none."""
        with self._lock:
            expires, ask = self._waiting.pop(token, (0.0, None))
            return ask if expires > self._clock() else None
