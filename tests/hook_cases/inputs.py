"""Contexts, rules and pods as the cases have them. Next: `tests.hook_cases.tree`."""

from __future__ import annotations

from typing import Any

from nri.agent.koordinator.node import (
    BatchRule,
    CoreSchedClass,
    CoreSchedRule,
    CpusetRule,
    GroupIdentityRule,
    SharePool,
)
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import Changes, Container, Device, ExtendedResources, Mount, Pod, Resctrl, Resources
from nri.agent.pods.manifest import listed_pod
from nri.kube import quantity

__all__ = [
    "KNOBS",
    "Given",
    "batch_rule",
    "changes_of",
    "container",
    "core_rule",
    "cpuset_rule",
    "identity_rule",
    "mapping",
    "pod",
    "ratio_of",
    "running",
    "shown",
]

Input = dict[str, Any]

#: The names of knobs in the cases.
KNOBS = {
    "bvt": "cpu.bvt",
    "cpuset": "cpuset.cpus",
    "cpu_shares": "cpu.shares",
    "cfs_quota": "cpu.cfs_quota",
    "memory_limit": "memory.limit",
    "cpu_idle": "cpu.idle",
    "oom_score_adj": "oom_score_adj",
}


class Given(Input):
    """The inputs of a case, and in which way to decide."""

    def __init__(self, inputs: Input, quirks: Quirks) -> None:
        super().__init__(inputs)
        self.quirks = quirks


def mapping(value: Any) -> dict[str, Any]:
    """Return an object of a case; null is an empty one."""
    return dict(value or {})


def pod(case: Any) -> Pod:
    """Return a pod's context."""
    actual = mapping(case)
    extended = actual.get("extended_resources")
    return Pod(
        namespace=actual.get("namespace") or "",
        name=actual.get("name") or "",
        uid=actual.get("uid") or "",
        labels=mapping(actual.get("labels")),
        annotations=mapping(actual.get("annotations")),
        folder=actual.get("cgroup_parent") or "",
        resources=resources(actual["resources"]) if actual.get("resources") is not None else None,
        extended=None
        if extended is None
        else {name: _extended(entry) for name, entry in mapping(extended.get("containers")).items()},
    )


def container(case: Input) -> Container:
    """Return the context of a case's container in its pod."""
    actual = mapping(case.get("container"))
    extended = actual.get("extended_resources")
    return Container(
        pod=pod(case.get("pod")),
        id=actual.get("id") or "",
        name=actual.get("name") or "",
        folder=actual.get("cgroup_parent") or "",
        sandbox=bool(actual.get("sandbox")),
        env=mapping(actual.get("env")),
        resources=resources(actual["resources"]) if actual.get("resources") is not None else None,
        extended=None if extended is None else _extended(extended),
    )


def resources(case: Any) -> Resources:
    """Return what is set already."""
    actual = mapping(case)
    return Resources(*(actual.get(key) for key in ("cpu_shares", "cfs_quota", "cpuset", "memory_limit")))


def running(case: Any) -> list[Pod]:
    """Return pods of the API with their folders."""
    listed = case.values() if isinstance(case, dict) else case or ()
    return [
        listed_pod(mapping(entry.get("pod")), entry.get("cgroup_parent") or "", entry.get("sandboxID") or "")
        for entry in listed
    ]


def identity_rule(case: Any) -> GroupIdentityRule | None:
    """Return a rule of group identities; null is none yet."""
    if case is None:
        return None
    return GroupIdentityRule(
        enabled=bool(case.get("enabled")),
        pods=mapping(case.get("pod_qos")),
        folders=mapping(case.get("kube_qos_dir")),
        kube_pods=mapping(case.get("kube_qos_pod")),
    )


def core_rule(case: Any) -> CoreSchedRule:
    """Return a rule of core scheduling."""
    actual = mapping(case)
    pods, kube_pods = (
        {
            name: CoreSchedClass(bool(entry.get("enabled")), bool(entry.get("expeller")), bool(entry.get("cpu_idle")))
            for name, entry in mapping(actual.get(key)).items()
        }
        for key in ("pod_qos", "kube_qos_pod")
    )
    return CoreSchedRule(bool(actual.get("enabled")), pods, kube_pods)


def cpuset_rule(case: Any) -> CpusetRule | None:
    """Return a rule of CPU sets; null is none yet."""
    if case is None:
        return None
    shared, batch = (
        tuple(
            SharePool(entry.get("socket") or 0, entry.get("node") or 0, entry.get("cpuset") or "")
            for entry in case.get(key) or ()
        )
        for key in ("share_pools", "be_share_pools")
    )
    policy = mapping(case.get("kubelet_cpu_manager")).get("policy") or ""
    return CpusetRule(shared, batch, policy, case.get("system_qos_cpuset") or "")


def batch_rule(case: Any) -> BatchRule:
    """Return a rule of batch resources."""
    actual = mapping(case)
    ratio = actual.get("cpu_normalization_ratio")
    return BatchRule(actual.get("cfs_quota_enabled"), None if ratio is None else float(ratio))


def ratio_of(case: Any) -> float:
    """Return the ratio of a rule of CPU normalization; one that is switched off has none."""
    actual = mapping(case)
    ratio = actual.get("ratio")
    return float(ratio) if actual.get("enabled", ratio is not None) and ratio is not None else -1.0


def changes_of(case: Any) -> Changes:
    """Return the changes that a case gives as a hook's response."""
    actual = mapping(case)
    group = actual.get("resctrl")
    return Changes(
        {knob: actual[name] for name, knob in KNOBS.items() if actual.get(name) is not None},
        resctrl=None if group is None else Resctrl(group.get("closid") or "", group.get("schemata") or ""),
        env=mapping(actual.get("env")),
        mounts=tuple(
            Mount(
                mount.get("destination") or "",
                mount.get("type") or "",
                mount.get("source") or "",
                tuple(mount.get("options") or ()),
            )
            for mount in actual.get("mounts") or ()
        ),
        devices=tuple(
            Device(
                device.get("path") or "",
                device.get("type") or "",
                device.get("major") or 0,
                device.get("minor") or 0,
                int(device.get("file_mode") or "0", 8),
            )
            for device in actual.get("devices") or ()
        ),
    )


def shown(changes: Changes) -> dict[str, Any]:
    """Return changes as the cases have them; what is not set is left out."""
    actual: dict[str, Any] = {name: changes.knobs[knob] for name, knob in KNOBS.items() if knob in changes.knobs}
    if changes.env:
        actual["env"] = dict(changes.env)
    if changes.mounts:
        actual["mounts"] = [
            {
                "destination": mount.destination,
                "type": mount.type,
                "source": mount.source,
                "options": list(mount.options),
            }
            for mount in changes.mounts
        ]
    if changes.devices:
        actual["devices"] = [
            {
                "path": device.path,
                "type": device.type,
                "major": device.major,
                "minor": device.minor,
                "file_mode": f"{device.mode:04o}",
            }
            for device in changes.devices
        ]
    if changes.resctrl is not None:
        group = changes.resctrl
        actual["resctrl"] = {"closid": group.group, "schemata": group.schemata, "new_task_ids": list(group.tasks)}
    return actual


def _extended(case: Any) -> ExtendedResources:
    requests, limits = (
        {name: quantity.parse(value) for name, value in mapping(mapping(case).get(key)).items()}
        for key in ("requests", "limits")
    )
    return ExtendedResources(requests, limits)
