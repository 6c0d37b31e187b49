"""How many functions something calls: work that is counted, and does not depend on the machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

__all__ = ["calls"]


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's; no garbage of others is collected in between."""
    made = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return made
