"""Locks by name: what is done to one thing is done one at a time, and the others go on.

Next: :mod:`nri.engine.support.kernel`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["KeyLocks"]


class KeyLocks:
    """One lock for each name that is being worked on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: str) -> Iterator[None]:
        """Have the lock of this name inside the block."""
        with self._lock:
            lock, waiting = self._held.get(key, (threading.Lock(), 0))
            self._held[key] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._held.pop(key)
                if waiting > 1:
                    self._held[key] = (lock, waiting - 1)
