"""The hook CPUSetAllocator: CPUs of containers and host applications, and no CPU quota for pods with exclusive CPUs.

The first applicable rule is used: the CPUs that the scheduler assigned to the pod; the batch pools of the pod's memory
nodes; an explicit clear for all pods in the best-effort cgroup, because a strategy sets their CPUs; the share pools of
the pod's memory nodes; the system's CPUs for SYSTEM; all share pools for LS; the CPUs of the kubelet's static policy;
all share pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from nri.agent.cgroup_paths import BEST_EFFORT, kube_class_of
from nri.agent.hooks import CREATE, PROGRAM, RUN_POD, UPDATE, Hook
from nri.agent.koordinator.documents import TOPOLOGY
from nri.agent.koordinator.names import BATCH_CPU, BE, LABEL_QOS, LS, SYSTEM, qos_class
from nri.agent.koordinator.node import CpusetRule, Node, SharePool
from nri.agent.koordinator.pod_annotations import AMOUNTS, read
from nri.agent.koordinator.quirks import Quirks
from nri.agent.model import (
    NO_CHANGES,
    Changes,
    Container,
    Decision,
    HookError,
    HostApplication,
    Pod,
)
from nri.agent.ownership import Level, OwnedKnob
from nri.api.cpuset import parse as parse_cpus
from nri.kube.cgroup_limits import UNLIMITED, amount, milli
from nri.kube.quantity import ceil
from nri.kube.shapes import INT32, QUANTITY, Items, Record, Table

NAME: Final = "CPUSetAllocator"
_NO_DECISION: Final = Decision()
_LEFT: Final = Decision(Changes({"cpuset.cpus": ""}), "cleared: BECPUSuppress limits the CPUs of best-effort pods")
ANNOTATION_STATUS: Final = "scheduling.koordinator.sh/resource-status"
ANNOTATION_RESERVATION: Final = "node.koordinator.sh/reservation"
ANNOTATION_SHARE_POOLS: Final = "node.koordinator.sh/cpu-shared-pools"
ANNOTATION_BE_SHARE_POOLS: Final = "node.koordinator.sh/be-cpu-shared-pools"
ANNOTATION_SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"
ANNOTATION_CPU_MANAGER: Final = "kubelet.koordinator.sh/cpu-manager-policy"
_POOLS = Items(Record({"socket": INT32, "node": INT32, "cpuset": str}))
_POLICY = Record({"policy": str, "options": Table(str), "reservedCPUs": str})
_SYSTEM = Record({"cpuset": str, "cpusetExclusive": bool})
#: The resources that a node reserves, in the annotation of the Node or of its topology.
_RESERVATION = Record({"resources": Table(QUANTITY), "reservedCPUs": str, "applyPolicy": str})
#: The keys that are read of each annotation.
TOPOLOGY_SHAPES = {
    ANNOTATION_SHARE_POOLS: _POOLS,
    ANNOTATION_BE_SHARE_POOLS: _POOLS,
    ANNOTATION_CPU_MANAGER: _POLICY,
    ANNOTATION_SYSTEM_QOS: _SYSTEM,
    ANNOTATION_RESERVATION: _RESERVATION,
}
_STATUS = Record({"cpuset": str, "numaNodeResources": Items(Record({"node": INT32, "resources": AMOUNTS}))})


def rule_of(topology: Any, quirks: Quirks = Quirks.DEFAULT) -> CpusetRule:
    """Read a NodeResourceTopology. Raises ValueError, which names the annotation, if an annotation is malformed."""
    if not isinstance(topology, dict):
        raise ValueError("no NodeResourceTopology document")  # noqa: TRY004  a mistake of the source, not of the caller
    annotations: Mapping[str, str] = (topology.get("metadata") or {}).get("annotations") or {}
    system = read(annotations, ANNOTATION_SYSTEM_QOS, _SYSTEM) or {}
    system_cpus = system.get("cpuset", "")
    system_set = _parsed_cpus(system_cpus, ANNOTATION_SYSTEM_QOS)
    kubelet = read(annotations, ANNOTATION_CPU_MANAGER, _POLICY) or {}
    reservation = read(annotations, ANNOTATION_RESERVATION, _RESERVATION) or {}
    reserved = _parsed_cpus(reservation.get("reservedCPUs", ""), ANNOTATION_RESERVATION)
    return CpusetRule(
        share_pools=_share_pools(annotations, ANNOTATION_SHARE_POOLS, quirks),
        batch_pools=_share_pools(annotations, ANNOTATION_BE_SHARE_POOLS, quirks),
        kubelet_policy=kubelet.get("policy", ""),
        system_cpus=system_cpus,
        withheld=(system_set if system.get("cpusetExclusive", True) else frozenset())
        | reserved
        | _parsed_cpus(kubelet.get("reservedCPUs", ""), ANNOTATION_CPU_MANAGER),
    )


def reserved_milli(annotations: Mapping[str, str]) -> int:
    """Return the CPU that a node's annotation reserves, in thousandths; 0 if the annotation cannot be read."""
    try:
        reservation = read(annotations, ANNOTATION_RESERVATION, _RESERVATION) or {}
        if reservation.get("reservedCPUs"):
            return 1000 * len(parse_cpus(reservation["reservedCPUs"]))
        return ceil(reservation.get("resources", {}).get("cpu", Fraction(0)) * 1000)
    except ValueError:
        return 0


def _share_pools(annotations: Mapping[str, str], key: str, quirks: Quirks) -> tuple[SharePool, ...]:
    pools = tuple(
        SharePool(entry.get("socket", 0), entry.get("node", 0), entry.get("cpuset", ""))
        for entry in read(annotations, key, _POOLS) or ()
    )
    if quirks.bad_share_pool_refused:
        for pool in pools:
            _parsed_cpus(pool.cpus, key)
    return pools


def _parsed_cpus(cpus: str, key: str) -> frozenset[int]:
    try:
        return parse_cpus(cpus)
    except ValueError as error:
        raise ValueError(f"annotation {key}: {error}") from None


def resource_status(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the resources that the scheduler assigned to a pod: `cpuset`, `numaNodeResources`."""
    return read(annotations, ANNOTATION_STATUS, _STATUS) or {}


def own_cpuset(annotations: Mapping[str, str]) -> str:
    """Return the exclusive CPUs that the scheduler assigned to a pod, or "" if it assigned none."""
    cpuset: str = resource_status(annotations).get("cpuset", "")
    return cpuset


def container(
    context: Container,
    rule: CpusetRule | None,
    quirks: Quirks = Quirks.DEFAULT,
    *,
    batch_pools: bool = False,
    keep_quota: bool = False,
) -> Decision:
    """Decide a container's CPUs, and whether to remove its quota. Raises HookError if an annotation is unreadable.

    Args:
        context: the container.
        rule: the topology of the node; None before it was read.
        quirks: the differences from Koordinator.
        batch_pools: whether batch pods may get separate share pools (gate BECPUManager).
        keep_quota: whether pods with exclusive CPUs keep their quota (koordlet's --disable-unset-cpu-quota).
    """
    cpus = container_cpus(context, rule, quirks, batch_pools=batch_pools)
    quota = container_quota(context, keep_quota=keep_quota)
    return Decision(cpus.changes | quota.changes, "; ".join(filter(None, (cpus.reason, quota.reason))))


def container_cpus(
    context: Container, rule: CpusetRule | None, quirks: Quirks = Quirks.DEFAULT, *, batch_pools: bool = False
) -> Decision:
    """Decide a container's CPUs."""
    status = _status(context.pod.annotations)
    if status.get("cpuset"):
        return Decision(Changes({"cpuset.cpus": status["cpuset"]}), "the scheduler assigned these CPUs to the pod")
    if rule is None:
        return _NO_DECISION
    qos = qos_class(context.pod.labels)
    best_effort = kube_class_of(context.folder or context.pod.folder) == BEST_EFFORT
    zones = status.get("numaNodeResources", [])
    has_cpus = any(map(_has_cpu, zones))
    if has_cpus and qos == BE and batch_pools:
        return Decision(_pools(rule.batch_pools, zones), "batch pools of the memory nodes that the scheduler assigned")
    if best_effort and quirks.best_effort_cpus_left:
        return _LEFT
    if has_cpus and qos != BE:
        return Decision(_pools(rule.share_pools, zones), "share pools of the memory nodes that the scheduler assigned")
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
    """Return whether a pod gets existing batch pools. False while its annotation cannot be read."""
    try:
        return qos_class(labels) == BE and any(map(_has_cpu, _status(annotations).get("numaNodeResources", [])))
    except HookError:
        return False


def container_quota(context: Container, *, keep_quota: bool = False) -> Decision:
    """Remove a container's quota if the pod has exclusive CPUs: a quota would only throttle the container."""
    return _quota(context.pod.annotations, keep_quota)


def pod_quota(context: Pod, *, keep_quota: bool = False) -> Decision:
    """Remove a pod's quota if the pod has exclusive CPUs."""
    return _quota(context.annotations, keep_quota)


def host_application(context: HostApplication, rule: CpusetRule | None) -> Decision:
    """Give all share pools to an LS program of the host. Raises HookError if the program has another class."""
    if rule is None:
        return _NO_DECISION
    if context.qos != LS:
        raise HookError(
            NAME, f"host application {context.name}: only class LS gets CPUs; the class is {context.qos or 'empty'}"
        )
    return Decision(Changes({"cpuset.cpus": rule.shared()}), "all share pools, for LS programs")


def _quota(annotations: Mapping[str, str], keep_quota: bool) -> Decision:
    if keep_quota or not _status(annotations).get("cpuset"):
        return _NO_DECISION
    return Decision(Changes({"cpu.cfs_quota": UNLIMITED}), "no quota with exclusive CPUs")


def _status(annotations: Mapping[str, str]) -> dict[str, Any]:
    try:
        return resource_status(annotations)
    except ValueError as error:
        raise HookError(NAME, str(error)) from None


def _has_cpu(zone: Mapping[str, Any]) -> bool:
    """Return whether the scheduler assigned CPU on a memory node. It may have assigned only huge pages."""
    resources = zone.get("resources", {})
    return milli(resources, "cpu") != 0 or amount(resources, BATCH_CPU) > 0


def _pools(pools: Iterable[SharePool], zones: Iterable[Mapping[str, Any]]) -> Changes:
    listed = list(pools)
    cpus = (pool.cpus for zone in zones for pool in listed if pool.node == zone.get("node", 0))
    return Changes({"cpuset.cpus": ",".join(cpus)})


def _decide_container(context: Container, node: Node) -> Decision:
    return container(context, node.cpus, node.quirks, batch_pools=node.batch_pools, keep_quota=node.keep_quota)


HOOK: Final = Hook(
    NAME,
    True,
    (TOPOLOGY,),
    (LABEL_QOS, ANNOTATION_STATUS),
    {
        RUN_POD: lambda context, node: pod_quota(context, keep_quota=node.keep_quota),
        CREATE: _decide_container,
        UPDATE: _decide_container,
        PROGRAM: lambda context, node: host_application(context, node.cpus),
    },
    (
        *(OwnedKnob(level, "cpu.cfs_quota", own_cpus=True) for level in (Level.POD, Level.CONTAINER, Level.SANDBOX)),
        OwnedKnob(Level.SANDBOX, "cpuset.cpus"),
        OwnedKnob(Level.CONTAINER, "cpuset.cpus"),
        OwnedKnob(Level.HOST_APPLICATION, "cpuset.cpus"),
    ),
    document_keys=((TOPOLOGY, f"annotation {ANNOTATION_SHARE_POOLS}"),),
)
