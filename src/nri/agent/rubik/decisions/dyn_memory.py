"""Memory of offline pods by the node's free memory (the policy `fssr`): memory.high falls fast and rises slowly.

With T of memory, high begins at 0.8 T. Less than T/10 free: it falls by T/10, down to 0.3 T. More than T/5 free in
thirteen readings in a row: it rises by T/100, up to 0.8 T. Readings are five seconds apart. Next:
`nri.agent.rubik.decisions.quota_burst`.
"""

from __future__ import annotations

from typing import Final

from nri.agent.rubik.pods import Pod, offline
from nri.policies.formulas import UNLIMITED
from nri.policies.writes import Write

__all__ = ["INTERVAL_S", "MemoryHigh", "limits", "writes"]

INTERVAL_S: Final = 5
#: Readings that are only counted before the next one raises.
_QUIET: Final = 12
_ASYNC_RATIO: Final = 80
#: The largest of a kernel, which rounds limits down to whole pages.
_PAGE: Final = 1 << 16


class MemoryHigh:
    """The limit over time.

    Attributes:
        high: the limit in bytes.
        quiet: readings in a row with much memory free.
    """

    def __init__(self, total: int | None) -> None:
        """Begin with the node's memory in bytes. Raises ValueError if it is not known."""
        if not total or total < 0:
            raise ValueError("dynMemory: the node's memory is not known: /proc/meminfo has no MemTotal")
        self._total, self.reserved = total, total // 10
        self._floor, self._ceiling = total * 3 // 10, total * 8 // 10
        self.high, self.quiet = self._ceiling, 0

    def read(self, free: int) -> bool:
        """Take a reading of the free bytes; return whether the limit has changed."""
        before = self.high
        if free > 2 * self.reserved and self.quiet < _QUIET:
            self.quiet += 1
            return False
        self.quiet = 0
        if free < self.reserved:
            self.high = max(self.high - self.reserved, self._floor)
        elif free > 2 * self.reserved:
            self.high = min(self.high + self._total // 100, self._ceiling)
        return self.high != before

    def has(self, high: int) -> bool:
        """Whether a limit that is in force, in whole pages, can be one of these."""
        return self._floor - _PAGE < high <= self._ceiling


def writes(before: Pod, pod: Pod, high: int) -> list[Write]:
    """Return the writes for a pod that was as `before`: reclaim begins before the limit where a kernel can do that.

    One that becomes online is free again; one that always was online has none.
    """
    reason = "dynMemory"
    if not offline(pod):
        return [Write(pod.folder, "memory.high", str(UNLIMITED), reason)] if offline(before) else []
    return [Write(pod.folder, knob, str(value), reason) for knob, value in limits(high).items()]


def limits(high: int) -> dict[str, int]:
    """Return the knobs of an offline pod, in the order in which they are written."""
    return {"memory.high_async_ratio": _ASYNC_RATIO, "memory.high": high}
