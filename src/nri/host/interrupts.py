"""Interrupts of the machine, and the CPUs that handle them.

Many interrupts cannot be moved, for example timers and interrupts that the kernel manages for a device. The result then
has the kernel's error.

Source: Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

from nri.api import cpuset
from nri.host.cpu_tuning import write_value
from nri.host.outcome import Outcome, Result
from nri.host.root import Root

_MAX_LINES = 1 << 14


def read_interrupts(root: Root) -> dict[int, str]:
    """Descriptions of interrupts by number. Returns an empty dict if /proc/interrupts cannot be read."""
    lines = (root.find("/proc/interrupts") or "").splitlines()
    counts = len(lines[0].split()) if lines else 0
    interrupts = {}
    for line in lines[1:_MAX_LINES]:
        number, _, columns = line.partition(":")
        if number.strip().isdecimal():
            words = columns.split(None, counts)
            interrupts[int(number)] = words[counts].strip() if len(words) > counts else ""
    return interrupts


def affinity_of(root: Root, interrupt: int) -> str | None:
    """The list of CPUs that may handle an interrupt. Returns None if the interrupt does not exist."""
    text = root.find(_path(interrupt))
    return None if text is None else text.strip()


def set_affinity(root: Root, interrupt: int, cpus: str) -> Result:
    """Restrict an interrupt to these CPUs."""
    result = write_value(root, f"interrupt {interrupt}", _path(interrupt), cpus)
    if result.outcome is Outcome.CLAMPED and cpuset.parse(cpus) == cpuset.parse(result.after):
        return Result(result.target, result.name, cpus, Outcome.APPLIED, "", result.before, result.after)
    return result


def _path(interrupt: int) -> str:
    return f"/proc/irq/{interrupt}/smp_affinity_list"
