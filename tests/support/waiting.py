"""Wait for a state, and say which one if it never comes."""

import time
from collections.abc import Callable

from tools.runtimes.machine import PATIENCE

#: Seconds. Far more than anything takes: a machine may do much else, and what comes ends the wait at once.
PATIENCE_S = 30.0

_LONGEST_PAUSE_S = 0.02


def wait_for(holds: Callable[[], object], what: str | Callable[[], str] = "", timeout_s: float = PATIENCE_S) -> None:
    """Return as soon as something holds; fail by its name, or by a story that is told then, if it never does."""
    deadline = time.monotonic() + timeout_s * PATIENCE
    pause_s = 0.001
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {timeout_s:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
