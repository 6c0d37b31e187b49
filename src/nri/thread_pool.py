"""A thread pool for servers that survives a limit on threads.

A process cannot start another thread at a limit of its cgroup. `ThreadPoolExecutor` raises an exception then, in the
middle of a server that does not expect it, and gRPC's server never answers again. A separate module, because
`concurrent.futures` loads logging, which plugins do not need.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

__all__ = ["ThreadPool"]


class ThreadPool(ThreadPoolExecutor):
    """Work that comes while no thread can be started waits for one that is there, or for the next that can be."""

    @property
    def most(self) -> int:
        """How many threads there may be."""
        return self._max_workers

    def _adjust_thread_count(self) -> None:  # called for each work, which is in the queue already
        with suppress(RuntimeError):
            super()._adjust_thread_count()
