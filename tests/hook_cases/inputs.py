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


def pod(given: Any) -> Pod:
    """Return a pod's context."""
    found = mapping(given)
    extended = found.get("extended_resources")
    return Pod(
        namespace=found.get("namespace") or "",
        name=found.get("name") or "",
        uid=found.get("uid") or "",
        labels=mapping(found.get("labels")),
        annotations=mapping(found.get("annotations")),
        folder=found.get("cgroup_parent") or "",
        resources=resources(found["resources"]) if found.get("resources") is not None else None,
        extended=None
        if extended is None
        else {name: _extended(each) for name, each in mapping(extended.get("containers")).items()},
    )


def container(given: Input) -> Container:
    """Return the context of a case's container in its pod."""
    found = mapping(given.get("container"))
    extended = found.get("extended_resources")
    return Container(
        pod=pod(given.get("pod")),
        id=found.get("id") or "",
        name=found.get("name") or "",
        folder=found.get("cgroup_parent") or "",
        sandbox=bool(found.get("sandbox")),
        env=mapping(found.get("env")),
        resources=resources(found["resources"]) if found.get("resources") is not None else None,
        extended=None if extended is None else _extended(extended),
    )


def resources(given: Any) -> Resources:
    """Return what is set already."""
    found = mapping(given)
    return Resources(*(found.get(key) for key in ("cpu_shares", "cfs_quota", "cpuset", "memory_limit")))


def running(given: Any) -> list[Pod]:
    """Return pods of the API with their folders."""
    listed = given.values() if isinstance(given, dict) else given or ()
    return [
        listed_pod(mapping(each.get("pod")), each.get("cgroup_parent") or "", each.get("sandboxID") or "")
        for each in listed
    ]


def identity_rule(given: Any) -> GroupIdentityRule | None:
    """Return a rule of group identities; null is none yet."""
    if given is None:
        return None
    return GroupIdentityRule(
        enabled=bool(given.get("enabled")),
        pods=mapping(given.get("pod_qos")),
        folders=mapping(given.get("kube_qos_dir")),
        kube_pods=mapping(given.get("kube_qos_pod")),
    )


def core_rule(given: Any) -> CoreSchedRule:
    """Return a rule of core scheduling."""
    found = mapping(given)
    pods, kube_pods = (
        {
            name: CoreSchedClass(bool(each.get("enabled")), bool(each.get("expeller")), bool(each.get("cpu_idle")))
            for name, each in mapping(found.get(key)).items()
        }
        for key in ("pod_qos", "kube_qos_pod")
    )
    return CoreSchedRule(bool(found.get("enabled")), pods, kube_pods)


def cpuset_rule(given: Any) -> CpusetRule | None:
    """Return a rule of CPU sets; null is none yet."""
    if given is None:
        return None
    shared, batch = (
        tuple(
            SharePool(each.get("socket") or 0, each.get("node") or 0, each.get("cpuset") or "")
            for each in given.get(key) or ()
        )
        for key in ("share_pools", "be_share_pools")
    )
    policy = mapping(given.get("kubelet_cpu_manager")).get("policy") or ""
    return CpusetRule(shared, batch, policy, given.get("system_qos_cpuset") or "")


def batch_rule(given: Any) -> BatchRule:
    """Return a rule of batch resources."""
    found = mapping(given)
    ratio = found.get("cpu_normalization_ratio")
    return BatchRule(found.get("cfs_quota_enabled"), None if ratio is None else float(ratio))


def ratio_of(given: Any) -> float:
    """Return the ratio of a rule of CPU normalization; one that is switched off has none."""
    found = mapping(given)
    ratio = found.get("ratio")
    return float(ratio) if found.get("enabled", ratio is not None) and ratio is not None else -1.0


def changes_of(given: Any) -> Changes:
    """Return the changes that a case gives as a hook's response."""
    found = mapping(given)
    group = found.get("resctrl")
    return Changes(
        {knob: found[name] for name, knob in KNOBS.items() if found.get(name) is not None},
        resctrl=None if group is None else Resctrl(group.get("closid") or "", group.get("schemata") or ""),
        env=mapping(found.get("env")),
        mounts=tuple(
            Mount(
                each.get("destination") or "",
                each.get("type") or "",
                each.get("source") or "",
                tuple(each.get("options") or ()),
            )
            for each in found.get("mounts") or ()
        ),
        devices=tuple(
            Device(
                each.get("path") or "",
                each.get("type") or "",
                each.get("major") or 0,
                each.get("minor") or 0,
                int(each.get("file_mode") or "0", 8),
            )
            for each in found.get("devices") or ()
        ),
    )


def shown(changes: Changes) -> dict[str, Any]:
    """Return changes as the cases have them; what is not set is left out."""
    found: dict[str, Any] = {name: changes.knobs[knob] for name, knob in KNOBS.items() if knob in changes.knobs}
    if changes.env:
        found["env"] = dict(changes.env)
    if changes.mounts:
        found["mounts"] = [
            {"destination": each.destination, "type": each.type, "source": each.source, "options": list(each.options)}
            for each in changes.mounts
        ]
    if changes.devices:
        found["devices"] = [
            {
                "path": each.path,
                "type": each.type,
                "major": each.major,
                "minor": each.minor,
                "file_mode": f"{each.mode:04o}",
            }
            for each in changes.devices
        ]
    if changes.resctrl is not None:
        group = changes.resctrl
        found["resctrl"] = {"closid": group.group, "schemata": group.schemata, "new_task_ids": list(group.tasks)}
    return found


def _extended(given: Any) -> ExtendedResources:
    requests, limits = (
        {name: quantity.parse(value) for name, value in mapping(mapping(given).get(key)).items()}
        for key in ("requests", "limits")
    )
    return ExtendedResources(requests, limits)
