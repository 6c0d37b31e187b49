"""CPUSetAllocator: the CPUs of containers and host applications, and no CPU quota for pods that have CPUs of their own.

Order: the CPUs that the scheduler gave the pod; batch pools of the memory nodes it gave; a clear for all pods in the
best-effort folder, whatever their class, because a loop sets their CPUs; the share pools of those memory nodes; the
system's CPUs for SYSTEM; all share pools for LS; what the kubelet's static policy gave; all share pools. Next:
`nri.agent.koordinator.batch_resource`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nri.agent.koordinator import pod_annotations
from nri.agent.koordinator.names import BATCH_CPU, BE, LS, SYSTEM, qos_class
from nri.agent.koordinator.node_topology import CpusetRule, SharePool
from nri.agent.koordinator.quirks import Quirks
from nri.policies.changes import NO_CHANGES, Changes, Decision, HookError
from nri.policies.contexts import ContainerContext, HostApplicationContext, PodContext
from nri.policies.formulas import UNLIMITED, amount, milli
from nri.policies.paths import BEST_EFFORT, kube_class_of

__all__ = ["NAME", "container", "container_cpus", "container_quota", "host_application", "in_batch_pools", "pod_quota"]

NAME: Final = "CPUSetAllocator"
_NOTHING: Final = Decision()
_LEFT: Final = Decision(Changes({"cpuset.cpus": ""}), "cleared: the CPUs of best-effort pods are limited elsewhere")


def container(
    context: ContainerContext,
    rule: CpusetRule | None,
    quirks: Quirks = Quirks.DEFAULT,
    *,
    batch_pools: bool = False,
    keep_quota: bool = False,
) -> Decision:
    """Decide a container's CPUs and whether its quota goes. Raises HookError for an annotation that cannot be read.

    Args:
        context: the container.
        rule: the node's topology, None while it has not been read.
        quirks: where to decide as the original.
        batch_pools: whether batch pods may be given share pools of their own (gate BECPUManager).
        keep_quota: whether pods with CPUs of their own keep their quota (--disable-unset-cpu-quota).
    """
    cpus = container_cpus(context, rule, quirks, batch_pools=batch_pools)
    quota = container_quota(context, keep_quota=keep_quota)
    return Decision(cpus.changes | quota.changes, "; ".join(filter(None, (cpus.reason, quota.reason))))


def container_cpus(
    context: ContainerContext, rule: CpusetRule | None, quirks: Quirks = Quirks.DEFAULT, *, batch_pools: bool = False
) -> Decision:
    """Decide a container's CPUs."""
    status = _status(context.pod.annotations)
    if status.get("cpuset"):
        return Decision(Changes({"cpuset.cpus": status["cpuset"]}), "the scheduler gave the pod these CPUs")
    if rule is None:
        return _NOTHING
    qos = qos_class(context.pod.labels)
    best_effort = kube_class_of(context.cgroup_parent or context.pod.cgroup_parent) == BEST_EFFORT
    zones = status.get("numaNodeResources", [])
    given = any(map(_has_cpu, zones))
    if given and qos == BE and batch_pools:
        return Decision(_pools(rule.batch_pools, zones), "batch pools of the memory nodes the scheduler gave")
    if best_effort and quirks.best_effort_cpus_left:
        return _LEFT
    if given and qos != BE:
        return Decision(_pools(rule.share_pools, zones), "share pools of the memory nodes the scheduler gave")
    if qos == SYSTEM and rule.system_cpus:
        return Decision(Changes({"cpuset.cpus": rule.system_cpus}), "the node's CPUs for SYSTEM pods")
    if qos == LS:
        return Decision(Changes({"cpuset.cpus": rule.shared()}), "all share pools, for LS pods")
    if best_effort:
        return _LEFT
    if rule.kubelet_policy == "static":
        return Decision(NO_CHANGES, "left to the kubelet's static policy")
    return Decision(Changes({"cpuset.cpus": rule.shared()}), "all share pools, for pods without a class")


def in_batch_pools(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether a pod gets batch pools where there are some; not while its annotation cannot be read."""
    try:
        return qos_class(labels) == BE and any(map(_has_cpu, _status(annotations).get("numaNodeResources", [])))
    except HookError:
        return False


def container_quota(context: ContainerContext, *, keep_quota: bool = False) -> Decision:
    """Take a container's quota away if its pod has CPUs of its own: it would only throttle them."""
    return _quota(context.pod.annotations, keep_quota)


def pod_quota(context: PodContext, *, keep_quota: bool = False) -> Decision:
    """Take a pod's quota away if it has CPUs of its own."""
    return _quota(context.annotations, keep_quota)


def host_application(context: HostApplicationContext, rule: CpusetRule | None) -> Decision:
    """Give all share pools to an LS program of the host; raises HookError for one of another class."""
    if rule is None:
        return _NOTHING
    if context.qos != LS:
        raise HookError(
            NAME, f"host application {context.name}: CPUs are given to LS only, not to {context.qos or 'none'}"
        )
    return Decision(Changes({"cpuset.cpus": rule.shared()}), "all share pools, for LS programs")


def _quota(given: Mapping[str, str], keep_quota: bool) -> Decision:
    if keep_quota or not _status(given).get("cpuset"):
        return _NOTHING
    return Decision(Changes({"cpu.cfs_quota": UNLIMITED}), "no quota beside CPUs of its own")


def _status(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return pod_annotations.resource_status(given)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None


def _has_cpu(zone: Mapping[str, Any]) -> bool:
    """Whether the scheduler gave CPU on a memory node; it may have given huge pages alone."""
    resources = zone.get("resources", {})
    return milli(resources, "cpu") != 0 or amount(resources, BATCH_CPU) > 0


def _pools(pools: Iterable[SharePool], zones: Iterable[Mapping[str, Any]]) -> Changes:
    listed = list(pools)
    cpus = (pool.cpus for zone in zones for pool in listed if pool.node == zone.get("node", 0))
    return Changes({"cpuset.cpus": ",".join(cpus)})
