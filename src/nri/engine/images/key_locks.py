"""Locks by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class KeyLocks:
    """One lock per name, so that work on different names runs in parallel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: str, wait_s: float = -1) -> Iterator[None]:
        """Hold the lock of a name inside the block. After `wait_s`, the block runs without the lock."""
        with self._lock:
            lock, waiting = self._locks.get(key, (threading.Lock(), 0))
            self._locks[key] = (lock, waiting + 1)
        try:
            locked = lock.acquire(timeout=wait_s)
            try:
                yield
            finally:
                if locked:
                    lock.release()
        finally:
            with self._lock:
                lock, waiting = self._locks.pop(key)
                if waiting > 1:
                    self._locks[key] = (lock, waiting - 1)
