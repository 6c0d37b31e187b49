"""The table of adjustable fields: the CRI's field for each, or the reason why the CRI does not have one."""

from __future__ import annotations

from typing import NamedTuple


class CriField(NamedTuple):
    """How the CRI expresses a field.

    Attributes:
        how: the field of the CRI's request; "" if there is no such field.
        limits: what the CRI's field cannot express, or the reason why there is no such field.
    """

    how: str
    limits: str = ""


_RESOURCES = "linux.resources."
_NO_RESOURCE = "the CRI's resources do not have this field"
_NO_FIELD = "the CRI's container does not have this field"

TABLE: dict[str, CriField] = {
    "annotations": CriField(
        "annotations",
        "the runtime decides which annotations reach the OCI spec; annotations that it adds cannot be removed",
    ),
    "mounts": CriField(
        "mounts",
        "bind mounts only; of the options only ro, rro, rw, bind, rbind and propagation; mounts that the runtime adds "
        "cannot be removed",
    ),
    "env": CriField("envs", "a variable of the image can be set, but not removed"),
    "args": CriField("command, args"),
    "hooks": CriField("", "the CRI does not have OCI hooks"),
    "linux.devices": CriField("devices", "only devices with a node on the host; mode and owner are the node's"),
    "linux.resources.memory.limit": CriField(_RESOURCES + "memory_limit_in_bytes", "0 means 'not set'"),
    "linux.resources.memory.reservation": CriField("", _NO_RESOURCE),
    "linux.resources.memory.swap": CriField(_RESOURCES + "memory_swap_limit_in_bytes", "0 means 'not set'"),
    "linux.resources.memory.kernel": CriField("", _NO_RESOURCE),
    "linux.resources.memory.kernel_tcp": CriField("", _NO_RESOURCE),
    "linux.resources.memory.swappiness": CriField("", _NO_RESOURCE),
    "linux.resources.memory.disable_oom_killer": CriField("", _NO_RESOURCE),
    "linux.resources.memory.use_hierarchy": CriField("", _NO_RESOURCE),
    "linux.resources.cpu.shares": CriField(_RESOURCES + "cpu_shares", "0 means 'not set'"),
    "linux.resources.cpu.quota": CriField(_RESOURCES + "cpu_quota", "0 means 'not set'"),
    "linux.resources.cpu.period": CriField(_RESOURCES + "cpu_period", "0 means 'not set'"),
    "linux.resources.cpu.realtime_runtime": CriField("", _NO_RESOURCE),
    "linux.resources.cpu.realtime_period": CriField("", _NO_RESOURCE),
    "linux.resources.cpu.cpus": CriField(_RESOURCES + "cpuset_cpus", "it can be set, but not cleared"),
    "linux.resources.cpu.mems": CriField(_RESOURCES + "cpuset_mems", "it can be set, but not cleared"),
    "linux.resources.hugepage_limits": CriField(_RESOURCES + "hugepage_limits"),
    "linux.resources.devices": CriField("", "the CRI does not have rules of the device cgroup"),
    "linux.resources.unified": CriField(_RESOURCES + "unified", "has an effect on cgroup v2 only"),
    "linux.resources.blockio_class": CriField("", "the CRI does not have block I/O classes"),
    "linux.resources.rdt_class": CriField("", "the CRI does not have RDT classes"),
    "linux.resources.pids": CriField("", _NO_RESOURCE),
    "linux.cgroups_path": CriField("", "the CRI has only the pod's cgroup"),
    "linux.oom_score_adj": CriField(_RESOURCES + "oom_score_adj"),
    "linux.io_priority": CriField("", _NO_FIELD),
    "linux.seccomp_policy": CriField("", "the CRI has the name of a profile, but no rules"),
    "linux.namespaces": CriField("", "the CRI has the namespaces that a pod shares, but not their paths"),
    "linux.sysctl": CriField("", "the CRI has kernel parameters of pods, but not of containers"),
    "linux.net_devices": CriField("", _NO_FIELD),
    "linux.scheduler": CriField("", _NO_FIELD),
    "linux.rdt.remove": CriField("", "the CRI does not have RDT"),
    "linux.rdt.clos_id": CriField("", "the CRI does not have RDT"),
    "linux.rdt.schemata": CriField("", "the CRI does not have RDT"),
    "linux.rdt.enable_monitoring": CriField("", "the CRI does not have RDT"),
    "linux.memory_policy": CriField("", _NO_FIELD),
    "rlimits": CriField("", _NO_FIELD),
    "CDI_devices": CriField("CDI_devices"),
}
