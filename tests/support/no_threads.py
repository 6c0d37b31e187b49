"""A process that can start no further thread for a while, as at a limit of its cgroup."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_threads() -> Iterator[None]:
    """No thread can be started inside: each would need a stack that is larger than all addresses."""
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)
