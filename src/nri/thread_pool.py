"""A thread pool for servers that survives a limit on threads.

At the limit of its cgroup a process cannot start a thread. `ThreadPoolExecutor` then raises an exception in the middle
of a server that does not expect it, and gRPC's server never answers again. A separate module, because
`concurrent.futures` imports logging, which plugins do not need.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

__all__ = ["ThreadPool"]


class ThreadPool(ThreadPoolExecutor):
    """A pool whose work waits for another thread if no thread can be started."""

    @property
    def most(self) -> int:
        """The most threads."""
        return self._max_workers

    def _adjust_thread_count(self) -> None:  # called for each work item, which is in the queue already
        with suppress(RuntimeError):
            super()._adjust_thread_count()
