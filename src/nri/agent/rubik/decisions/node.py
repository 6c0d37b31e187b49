"""The use of the node's processors, as rubik counts it: waiting for I/O is in use.

Next: `nri.agent.rubik.decisions.quota_turbo`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Ticks", "share"]


class Ticks(NamedTuple):
    """Ticks of all processors since the start: in use, which is with waiting for I/O here, and all."""

    busy: int
    total: int


def share(before: Ticks, now: Ticks) -> float:
    """Return the percent of time in use between two readings."""
    busy, total = now.busy - before.busy, now.total - before.total
    if busy <= 0:
        return 0.0
    return 100.0 if total <= 0 else min(100.0 * busy / total, 100.0)
