"""How many pulls run at a time, in all and from one registry."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from nri.engine.images.pull_timer import PullTimer
from nri.engine.support.errors import TooMany

#: The maximum number of pulls that are not slow. More would take all of the node's disk and memory bandwidth.
MAX_FAST_PULLS = 4
#: The maximum number of pulls from one registry, so that pulls of other registries do not wait for it.
MAX_PULLS_OF_REGISTRY = 3
#: The maximum number of all pulls, because each has a process.
MAX_PULLS = 16
#: A pull becomes slow without a notification, so waiting pulls check this often.
_CHECK_S = 0.5


class _Pull(NamedTuple):
    name: str
    registry: str
    timer: PullTimer


class PullSlots:
    """Lets pulls start. The next one is from the registry with the fewest running pulls; the oldest of these."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[_Pull] = []
        self._waiting: list[_Pull] = []

    @contextmanager
    def hold(self, name: str, registry: str, timer: PullTimer, wait_s: float) -> Iterator[None]:
        """Wait for a slot, and hold it inside the block. Raises TooMany after `wait_s`."""
        pull = _Pull(name, registry, timer)
        with self._changed:
            self._waiting.append(pull)
            try:
                self._wait(pull, time.monotonic() + wait_s)
                timer.start()
                self._running.append(pull)
            finally:
                self._waiting.remove(pull)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(pull)
                self._changed.notify_all()

    def _wait(self, pull: _Pull, deadline: float) -> None:
        while self._next() is not pull:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                names = ", ".join(sorted(running.name for running in self._running))
                raise TooMany(f"pulls to start {pull.name}; running pulls: {names}", self._limit(pull))
            self._changed.wait(min(remaining_s, _CHECK_S))

    def _next(self) -> _Pull | None:
        """Return the waiting pull that starts next; None if no pull may start."""
        fast = sum(not pull.timer.is_slow for pull in self._running)
        if fast >= MAX_FAST_PULLS or len(self._running) >= MAX_PULLS:
            return None
        candidates = [pull for pull in self._waiting if self._number(pull.registry) < MAX_PULLS_OF_REGISTRY]
        return min(candidates, key=lambda pull: self._number(pull.registry), default=None)

    def _number(self, registry: str) -> int:
        return sum(pull.registry == registry for pull in self._running)

    def _limit(self, pull: _Pull) -> int:
        """Return the limit for which a pull waits."""
        if self._number(pull.registry) >= MAX_PULLS_OF_REGISTRY:
            return MAX_PULLS_OF_REGISTRY
        return MAX_PULLS if len(self._running) >= MAX_PULLS else MAX_FAST_PULLS
