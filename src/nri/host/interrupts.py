"""Interrupts: which there are, and which CPUs they may come to.

Rules: an interrupt is its number; its description is what /proc/interrupts has behind the counts. Many cannot be moved
(timers, those that the kernel manages for a device): that is refused, with the kernel's words. Next: `switches`.

Source: Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

from nri.api import cpuset
from nri.host.cpu_tuning import write_value
from nri.host.outcome import Outcome, Result
from nri.host.root import Root

__all__ = ["affinity_of", "read_interrupts", "set_affinity"]

_MOST = 1 << 14


def read_interrupts(root: Root) -> dict[int, str]:
    """The description of each interrupt that has a number; empty where nothing can be read."""
    lines = (root.find("/proc/interrupts") or "").splitlines()
    counts = len(lines[0].split()) if lines else 0
    found = {}
    for line in lines[1:_MOST]:
        number, _, rest = line.partition(":")
        if number.strip().isdecimal():
            words = rest.split(None, counts)
            found[int(number)] = words[counts].strip() if len(words) > counts else ""
    return found


def affinity_of(root: Root, interrupt: int) -> str | None:
    """The list of CPUs that an interrupt may come to; None if there is none."""
    text = root.find(_path(interrupt))
    return None if text is None else text.strip()


def set_affinity(root: Root, interrupt: int, cpus: str) -> Result:
    """Let an interrupt come to these CPUs only."""
    result = write_value(root, f"interrupt {interrupt}", _path(interrupt), cpus)
    if result.outcome is Outcome.CLAMPED and cpuset.parse(cpus) == cpuset.parse(result.after):
        return Result(result.target, result.name, cpus, Outcome.APPLIED, "", result.before, result.after)
    return result


def _path(interrupt: int) -> str:
    return f"/proc/irq/{interrupt}/smp_affinity_list"
