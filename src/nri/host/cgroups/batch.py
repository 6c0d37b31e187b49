"""The order of a batch of writes to cgroups, so that no cgroup ever exceeds its parent.

The kernel refuses a set of CPUs or a quota that exceeds the parent's value, or that is below the value of a child
cgroup. So the first steps, from the root down, set each nested value to the wider of the current and the new value.
Then values that are not nested are written. The last steps, from the leaves up, write the final values. Within a
cgroup, a burst is written while the quota is wide, the limit of memory and swap is widened before the memory limit,
and weights are not written while `cpu.idle` is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nri.host.cgroups.knobs import knob, wider
from nri.host.cgroups.units import Value

#: Limits that include other limits of the same cgroup: they are widened first, and narrowed last.
_AROUND = ("memory.and_swap_limit",)


@dataclass(frozen=True, slots=True)
class Write:
    """A requested write: a knob of a cgroup and its new value.

    Attributes:
        cgroup: the path below the hierarchies; "" is the root cgroup.
        name: a neutral name of :mod:`nri.host.cgroups.knobs`.
        value: the value in the knob's unit.
    """

    cgroup: str
    name: str
    value: Value


class Step(NamedTuple):
    """A write to a file: the index of its write in the batch, the value, and whether it is the final value."""

    number: int
    value: Value
    final: bool


def depth(cgroup: str) -> int:
    """The number of levels from the root to a cgroup."""
    return len([name for name in cgroup.split("/") if name])


def order(writes: Sequence[Write], present: Sequence[Value | None]) -> list[Step]:
    """The steps for a batch. `present` has the current value for each write, or None if it is not known."""
    nested = sorted(
        (index for index, write in enumerate(writes) if knob(write.name).nested),
        key=lambda index: (depth(writes[index].cgroup), writes[index].name not in _AROUND),
    )
    single = [index for index, write in enumerate(writes) if not knob(write.name).nested]
    single.sort(key=lambda index: depth(writes[index].cgroup))
    idle = _idle_writes(writes, single)
    widened = [step for index in nested if (step := _widening_step(index, writes[index], present[index])) is not None]
    finished = {step.number for step in widened if step.final}
    return [
        *(Step(index, writes[index].value, True) for index in idle[False]),
        *widened,
        *(Step(i, writes[i].value, True) for i in single if writes[i].name != "cpu.idle"),
        *(Step(i, writes[i].value, True) for i in reversed(nested) if i not in finished),
        *(Step(index, writes[index].value, True) for index in idle[True]),
    ]


def _idle_writes(writes: Sequence[Write], single: Sequence[int]) -> dict[bool, list[int]]:
    """The indices of writes of `cpu.idle`, by whether they set it."""
    indexes: dict[bool, list[int]] = {True: [], False: []}
    for index in single:
        if writes[index].name == "cpu.idle":
            indexes[bool(writes[index].value)].append(index)
    return indexes


def _widening_step(index: int, write: Write, present: Value | None) -> Step | None:
    """The step that widens a value. Returns None if the value is wide enough, or not known."""
    if present is None:
        return None
    wide = wider(present, write.value)
    return None if wide == present else Step(index, wide, wide == write.value)
