"""A thread pool for servers that survives a limit on threads.

At the limit of its cgroup a process cannot start a thread. `ThreadPoolExecutor` then raises an exception that gRPC's
server does not expect, so that it never answers again. This is a separate module because `concurrent.futures` imports
logging, which plugins do not need.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress


class ThreadPool(ThreadPoolExecutor):
    """A thread pool. Its work waits for an existing thread if a new thread cannot be started."""

    @property
    def max_threads(self) -> int:
        """The maximum number of threads."""
        return self._max_workers

    def _adjust_thread_count(self) -> None:  # called for each work item, which is in the queue already
        with suppress(RuntimeError):
            super()._adjust_thread_count()
