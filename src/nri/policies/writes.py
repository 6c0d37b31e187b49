"""Writes: changes as values of named knobs in folders of cgroups, for what no message of a runtime can say.

A knob's name is neutral (that of cgroup v1 where there is one); which file it is on this machine, and whether there is
one at all, is the business of `nri.host`. Next: `nri.policies.koordinator.refresh`, which makes most of them.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.policies.changes import Changes
from nri.policies.paths import of_many_pods

__all__ = ["KNOBS", "Write", "container_writes", "folder_writes", "pod_writes"]

#: The knobs, by the attribute of `Changes` that they are for.
KNOBS = {
    "bvt": "cpu.bvt",
    "cpu_idle": "cpu.idle",
    "cpu_shares": "cpu.shares",
    "cfs_quota": "cpu.cfs_quota",
    "memory_limit": "memory.limit",
    "net_class": "net_cls.classid",
    "cpuset": "cpuset.cpus",
}
_POD = ("bvt", "cpu_idle", "cpu_shares", "cfs_quota", "memory_limit", "net_class")
_CONTAINER = ("cpu_shares", "cpuset", "cfs_quota", "memory_limit")
_FOLDER = ("cpuset", "bvt", "cpu_idle")


class Write(NamedTuple):
    """One value for one knob. `folder` is below the root of the cgroups; `reason` is what made the value."""

    folder: str
    knob: str
    value: str
    reason: str = ""


def pod_writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a pod: no transport can say any of it. A pod that has no cgroup of its own has none."""
    return [] if of_many_pods(folder) else _writes(folder, changes, _POD, reason)


def container_writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a container in standalone mode, without an explicit clear: nothing stands in its way."""
    return _writes(folder, changes, _CONTAINER, reason)


def folder_writes(folder: str, changes: Changes, reason: str = "") -> list[Write]:
    """Return the writes for a kube-QoS folder or a host application."""
    return _writes(folder, changes, _FOLDER, reason)


def _writes(folder: str, changes: Changes, attributes: tuple[str, ...], reason: str) -> list[Write]:
    if not folder:
        return []
    values = ((name, getattr(changes, name)) for name in attributes)
    return [
        Write(folder, KNOBS[name], str(value), reason) for name, value in values if value is not None and value != ""
    ]
