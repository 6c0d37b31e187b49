"""How long the machine stands still at a time: a course that it interrupts says nothing of a node, and is run again.

Attacks have timeouts of a second. Where a whole machine stops for as long, as those that build do now and then, healthy
plugins are late and events take long, whatever the node does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

#: How often it looks, in seconds.
LOOK_S = 0.02
#: A course is run again at most so many times.
AGAIN = 3


class Stillness:
    """Measures in a thread for as long as it is open.

    Attributes:
        worst_s: how long nothing went on, at most, in seconds.
    """

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        before = time.monotonic()
        while not self._over.wait(LOOK_S):
            now = time.monotonic()
            self.worst_s = max(self.worst_s, now - before - LOOK_S)
            before = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def faults_of(course: Callable[[], list[str]], longest_s: float) -> list[str]:
    """What a course finds wrong, if the machine has not stood still for longer than `longest_s` meanwhile."""
    wrong: list[str] = []
    for _ in range(1 + AGAIN):
        with Stillness() as still:
            wrong = course()
        if not wrong or still.worst_s <= longest_s:
            break
        print(f"the machine stood still for {still.worst_s:.2f} s; once more, for: {wrong}")
    return wrong
