"""A signal that comes in the instant before the main thread begins to wait, and so does not interrupt that wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signal_in_a_wait(number: int, after_s: float = 0.5) -> Iterator[None]:
    """Have another thread take a signal while the main thread waits in the block; all handlers are restored after it.

    The kernel then interrupts that other thread: the main thread's wait goes on, as if it had begun just afterwards.
    """
    saved = {entry: signal.getsignal(entry) for entry in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    over = threading.Event()

    def take() -> None:
        signal.pthread_kill(threading.get_ident(), number)
        over.wait(60)  # it lives on, so that its end wakes nobody

    thread = threading.Timer(after_s, take)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for entry, handler in saved.items():
            signal.signal(entry, handler)
