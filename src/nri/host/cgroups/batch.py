"""The order of a batch of writes to cgroups, so that no cgroup ever exceeds its parent.

The kernel refuses a set of CPUs or a quota that exceeds the parent's, or that is less than that of a cgroup below. So
first, from the root down, each nested value becomes the wider of the present and the new value; then come values that
are not nested; last, from the leaves up, the final values. Within one cgroup, a burst is written while the quota is
wide, the limit of memory and swap is widened before that of memory, and no weight is written while `cpu.idle` is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nri.host.cgroups.knobs import knob, wider
from nri.host.cgroups.units import Value

#: The limits that contain others of the same cgroup: widened first, and narrowed last.
_AROUND = ("memory.and_swap_limit",)


@dataclass(frozen=True, slots=True)
class Write:
    """One change: a knob of a cgroup and the value that it is to have.

    Attributes:
        cgroup: the path below the hierarchies; the empty text is the root cgroup.
        name: a neutral name of :mod:`nri.host.cgroups.knobs`.
        value: in the knob's unit.
    """

    cgroup: str
    name: str
    value: Value


class Step(NamedTuple):
    """One write to a file: for which of the batch, which value, and whether it is the one that was wished."""

    number: int
    value: Value
    final: bool


def depth(cgroup: str) -> int:
    """The number of steps from the root to a cgroup."""
    return len([name for name in cgroup.split("/") if name])


def order(writes: Sequence[Write], present: Sequence[Value | None]) -> list[Step]:
    """The steps for a batch; `present` has the value of each that is there, None if it is not known."""
    nested = sorted(
        (index for index, write in enumerate(writes) if knob(write.name).nested),
        key=lambda index: (depth(writes[index].cgroup), writes[index].name not in _AROUND),
    )
    single = [index for index, write in enumerate(writes) if not knob(write.name).nested]
    single.sort(key=lambda index: depth(writes[index].cgroup))
    idle = _idle(writes, single)
    widened = [step for index in nested if (step := _widened(index, writes[index], present[index])) is not None]
    finished = {step.number for step in widened if step.final}
    return [
        *(Step(index, writes[index].value, True) for index in idle[False]),
        *widened,
        *(Step(i, writes[i].value, True) for i in single if writes[i].name != "cpu.idle"),
        *(Step(i, writes[i].value, True) for i in reversed(nested) if i not in finished),
        *(Step(index, writes[index].value, True) for index in idle[True]),
    ]


def _idle(writes: Sequence[Write], single: Sequence[int]) -> dict[bool, list[int]]:
    """The writes of `cpu.idle`, by whether they switch it on."""
    indexes: dict[bool, list[int]] = {True: [], False: []}
    for index in single:
        if writes[index].name == "cpu.idle":
            indexes[bool(writes[index].value)].append(index)
    return indexes


def _widened(index: int, write: Write, present: Value | None) -> Step | None:
    """The step that makes room; None if there is enough, or if what is there is not known."""
    if present is None:
        return None
    wide = wider(present, write.value)
    return None if wide == present else Step(index, wide, wide == write.value)
