"""A pool of threads that goes on where no further thread can be started, as at a limit of the process's cgroup.

Python's own raises then, in the middle of a server that does not expect it: gRPC's never answers again.
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
