"""A question that is asked again and again by a thread, for sources that do not tell of changes themselves.

Next: the sources in `nri.agent.rules` and `nri.agent.pods`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["Poll"]

_log = logging.getLogger(__name__)
#: A stop waits for a question that is under way, in seconds; all questions have deadlines.
_STOP_S = 20.0


class Poll:
    """Ask at once, and then again after each pause, until it is stopped. `start` and `stop` may be called twice.

    Args:
        ask: asks; an error of it is logged and does not end this.
        interval_s: the pause, in seconds.
        name: of the thread.
    """

    def __init__(self, ask: Callable[[], None], interval_s: float, name: str) -> None:
        self._ask = ask
        self._interval_s = interval_s
        self._name = name
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, in a thread of its own."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, and wait for a question that is under way."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_S)
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._ask()
            except Exception:  # noqa: BLE001  the next question may have an answer
                _log.exception("%s: the question could not be asked", self._name)
            self._stopping.wait(self._interval_s)
