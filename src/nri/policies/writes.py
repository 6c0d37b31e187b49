"""Writes: changes as values of named knobs in folders of cgroups, for what no message of a runtime can say.

A knob's name is neutral (that of cgroup v1 where there is one); which file it is on this machine, and whether there is
one at all, is the business of `nri.host`. Next: `nri.policies.messages`, for what a runtime gets instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from nri.policies.changes import Changes
from nri.policies.paths import of_many_pods

__all__ = [
    "BVT",
    "CPUS",
    "CPU_IDLE",
    "MEMORY_LIMIT",
    "NET_CLASS",
    "OOM_SCORE",
    "QUOTA",
    "SHARES",
    "Write",
    "pod_writes",
    "writes",
]

#: The neutral names of the knobs that are named in more than one place.
SHARES: Final = "cpu.shares"
QUOTA: Final = "cpu.cfs_quota"
CPUS: Final = "cpuset.cpus"
MEMORY_LIMIT: Final = "memory.limit"
BVT: Final = "cpu.bvt"
CPU_IDLE: Final = "cpu.idle"
NET_CLASS: Final = "net_cls.classid"
#: A knob of processes among those of cgroups: a score for each process of a folder.
OOM_SCORE: Final = "oom_score_adj"


class Write(NamedTuple):
    """One value for one knob.

    Attributes:
        folder: the cgroup, below the root of the cgroups.
        knob: its neutral name.
        value: as a text; "" for a knob whose values are by device.
        reason: the rule, annotation or input that made the value.
        devices: the values of a knob that has them by device.
    """

    folder: str
    knob: str
    value: str
    reason: str = ""
    devices: Mapping[str, int] | Mapping[str, str] | None = None


def pod_writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a pod: no transport can say any of it. A pod that has no cgroup of its own has none."""
    return [] if of_many_pods(folder) else writes(folder, changes, reason)


def writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a cgroup, without an explicit clear."""
    if not folder:
        return []
    return [
        Write(folder, name, "", reason, value)
        if isinstance(value, Mapping)
        else Write(folder, name, str(value), reason)
        for name, value in changes.knobs.items()
        if value != ""
    ]
