"""The table of what standalone mode repairs: at which level, which knob, by which hook, for which pods.

Rules: two rows for one knob of one level that meet in a pod are a mistake of the design, and refuse the start; who
wants a knob that is taken says so in a table and not at run time, where the last writer would win every round. A pod
with CPUs of its own is a case for itself, because nothing else may then limit them. Next:
:mod:`nri.agent.transports.standalone.pods`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from enum import Enum
from typing import Final, NamedTuple

from nri.errors import NriError
from nri.policies.koordinator.hooks import (
    batch_resource,
    core_sched,
    cpu_normalization,
    cpuset,
    group_identity,
    oom_score_adj,
    resctrl,
    tc,
    terway_qos,
)
from nri.policies.koordinator.names import BE, LS, LSE, LSR, NONE, SYSTEM

__all__ = ["ALL_CLASSES", "ROWS", "Level", "LevelConflict", "Row", "check"]

ALL_CLASSES: Final = frozenset({LSE, LSR, LS, BE, SYSTEM, NONE})


class Level(Enum):
    """The levels, in the order of a round."""

    KUBE_QOS = "kube-qos"
    POD = "pod"
    SANDBOX = "sandbox"
    CONTAINER = "container"
    ALL_PODS = "all-pods"
    HOST_APPLICATION = "host-application"


class Row(NamedTuple):
    """One knob of one level, and whose it is.

    Attributes:
        classes: the QoS classes of the pods that it is for.
        own_cpus: whether it is for pods with CPUs of their own; None is both.
    """

    level: Level
    knob: str
    hook: str
    classes: frozenset[str] = ALL_CLASSES
    own_cpus: bool | None = None

    def meets(self, other: Row) -> bool:
        """Whether both would set one knob of one pod."""
        if (self.level, self.knob) != (other.level, other.knob) or self.classes.isdisjoint(other.classes):
            return False
        return None in (self.own_cpus, other.own_cpus) or self.own_cpus == other.own_cpus


class LevelConflict(NriError):
    """Two hooks want one knob of one level for the same pods.

    Attributes:
        rows: both of them.
    """

    def __init__(self, one: Row, two: Row) -> None:
        shared = ", ".join(sorted(name or "none" for name in one.classes & two.classes))
        super().__init__(f"{one.hook} and {two.hook} both set {one.knob} at level {one.level.value}, for {shared}")
        self.rows = (one, two)


_BATCH, _SHARED = frozenset({BE}), frozenset({LS, NONE})
ROWS: Final = (
    Row(Level.KUBE_QOS, "cpu.bvt", group_identity.NAME),
    Row(Level.KUBE_QOS, "cpu.idle", core_sched.NAME),
    Row(Level.POD, "cpu.bvt", group_identity.NAME),
    Row(Level.POD, "cpu.shares", batch_resource.NAME, _BATCH),
    Row(Level.POD, "cpu.cfs_quota", batch_resource.NAME, _BATCH, own_cpus=False),
    Row(Level.POD, "cpu.cfs_quota", cpu_normalization.NAME, _SHARED, own_cpus=False),
    Row(Level.POD, "cpu.cfs_quota", cpuset.NAME, own_cpus=True),
    Row(Level.POD, "memory.limit", batch_resource.NAME, _BATCH),
    Row(Level.POD, "net_cls.classid", tc.NAME),
    Row(Level.POD, "resctrl", resctrl.NAME),
    Row(Level.SANDBOX, "cpuset.cpus", cpuset.NAME),
    Row(Level.SANDBOX, "cpu.cfs_quota", cpuset.NAME, own_cpus=True),
    Row(Level.SANDBOX, "core_sched.cookie", core_sched.NAME),
    Row(Level.CONTAINER, "cpu.shares", batch_resource.NAME, _BATCH),
    Row(Level.CONTAINER, "cpu.cfs_quota", batch_resource.NAME, _BATCH, own_cpus=False),
    Row(Level.CONTAINER, "cpu.cfs_quota", cpu_normalization.NAME, _SHARED, own_cpus=False),
    Row(Level.CONTAINER, "cpu.cfs_quota", cpuset.NAME, own_cpus=True),
    Row(Level.CONTAINER, "memory.limit", batch_resource.NAME, _BATCH),
    Row(Level.CONTAINER, "cpuset.cpus", cpuset.NAME),
    Row(Level.CONTAINER, "oom_score_adj", oom_score_adj.NAME),
    Row(Level.CONTAINER, "core_sched.cookie", core_sched.NAME),
    Row(Level.ALL_PODS, "resctrl", resctrl.NAME),
    Row(Level.ALL_PODS, "tc", tc.NAME),
    Row(Level.ALL_PODS, "terway", terway_qos.NAME),
    Row(Level.HOST_APPLICATION, "cpu.bvt", group_identity.NAME),
    Row(Level.HOST_APPLICATION, "cpuset.cpus", cpuset.NAME),
)


def check(rows: Iterable[Row]) -> None:
    """Find out whether a table makes sense. Raises LevelConflict naming the first two rows that do not go together."""
    for one, two in itertools.combinations(rows, 2):
        if one.meets(two):
            raise LevelConflict(one, two)
