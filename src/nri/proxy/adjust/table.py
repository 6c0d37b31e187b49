"""The table of what the CRI can say: a row for every field that a plugin can adjust.

Rules: `how` is empty where the CRI has no word for a field; `limits` says what of it is lost, or why. A test compares
the rows with the table of adjustable fields, and the page docs/reference/proxy.md with these rows. Next:
`nri.proxy.adjust.request`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TABLE", "Saying"]


class Saying(NamedTuple):
    """The way in which the CRI says a field, or why it does not.

    Attributes:
        how: the field of the CRI's request; empty if there is none.
        limits: what of the field cannot be said; of one that cannot at all, the reason.
    """

    how: str
    limits: str = ""


_RESOURCES = "linux.resources."
_NO_RESOURCE = "the CRI's resources have no field for it"
_NO_FIELD = "the CRI's container has no field for it"

TABLE: dict[str, Saying] = {
    "annotations": Saying(
        "annotations",
        "the runtime decides which of them reach the OCI spec; what it adds by itself cannot be removed",
    ),
    "mounts": Saying(
        "mounts",
        "bind mounts only; of the options only ro, rro, rw, bind, rbind and propagation; what the runtime adds by "
        "itself cannot be removed",
    ),
    "env": Saying("envs", "a variable that comes from the image can be set, not removed"),
    "args": Saying("command, args"),
    "hooks": Saying("", "the CRI has no OCI hooks"),
    "linux.devices": Saying("devices", "devices that the host has a node of; mode and owner are those of that node"),
    "linux.resources.memory.limit": Saying(_RESOURCES + "memory_limit_in_bytes", "0 is not set"),
    "linux.resources.memory.reservation": Saying("", _NO_RESOURCE),
    "linux.resources.memory.swap": Saying(_RESOURCES + "memory_swap_limit_in_bytes", "0 is not set"),
    "linux.resources.memory.kernel": Saying("", _NO_RESOURCE),
    "linux.resources.memory.kernel_tcp": Saying("", _NO_RESOURCE),
    "linux.resources.memory.swappiness": Saying("", _NO_RESOURCE),
    "linux.resources.memory.disable_oom_killer": Saying("", _NO_RESOURCE),
    "linux.resources.memory.use_hierarchy": Saying("", _NO_RESOURCE),
    "linux.resources.cpu.shares": Saying(_RESOURCES + "cpu_shares", "0 is not set"),
    "linux.resources.cpu.quota": Saying(_RESOURCES + "cpu_quota", "0 is not set"),
    "linux.resources.cpu.period": Saying(_RESOURCES + "cpu_period", "0 is not set"),
    "linux.resources.cpu.realtime_runtime": Saying("", _NO_RESOURCE),
    "linux.resources.cpu.realtime_period": Saying("", _NO_RESOURCE),
    "linux.resources.cpu.cpus": Saying(_RESOURCES + "cpuset_cpus", "it can be set, not cleared"),
    "linux.resources.cpu.mems": Saying(_RESOURCES + "cpuset_mems", "it can be set, not cleared"),
    "linux.resources.hugepage_limits": Saying(_RESOURCES + "hugepage_limits"),
    "linux.resources.devices": Saying("", "the CRI has no rules of the device cgroup"),
    "linux.resources.unified": Saying(_RESOURCES + "unified", "has an effect on cgroup v2 only"),
    "linux.resources.blockio_class": Saying("", "the CRI has no block I/O classes"),
    "linux.resources.rdt_class": Saying("", "the CRI has no RDT classes"),
    "linux.resources.pids": Saying("", _NO_RESOURCE),
    "linux.cgroups_path": Saying("", "the CRI has the cgroup of the pod only"),
    "linux.oom_score_adj": Saying(_RESOURCES + "oom_score_adj"),
    "linux.io_priority": Saying("", _NO_FIELD),
    "linux.seccomp_policy": Saying("", "the CRI names a profile, and has no rules of one"),
    "linux.namespaces": Saying("", "the CRI says which namespaces a pod shares, not their paths"),
    "linux.sysctl": Saying("", "the CRI has kernel parameters of pods, not of containers"),
    "linux.net_devices": Saying("", _NO_FIELD),
    "linux.scheduler": Saying("", _NO_FIELD),
    "linux.rdt.remove": Saying("", "the CRI has no RDT"),
    "linux.rdt.clos_id": Saying("", "the CRI has no RDT"),
    "linux.rdt.schemata": Saying("", "the CRI has no RDT"),
    "linux.rdt.enable_monitoring": Saying("", "the CRI has no RDT"),
    "linux.memory_policy": Saying("", _NO_FIELD),
    "rlimits": Saying("", _NO_FIELD),
    "CDI_devices": Saying("CDI_devices"),
}
