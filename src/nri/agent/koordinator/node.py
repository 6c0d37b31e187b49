"""The table of hooks: which of them decides at which stage, from which rules and annotations, and which knobs it owns.

Order: by name, as in the original, and of two hooks that set one thing the later one's word counts (CPUSetAllocator
takes away the quota that CPUNormalization has scaled). Next: `nri.agent.koordinator`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from nri.agent.koordinator import (
    batch_resource,
    core_sched,
    cpu_normalization,
    cpuset,
    gpu,
    group_identity,
    oom_score_adj,
    rdma,
    resctrl,
    tc,
    terway_qos,
)
from nri.agent.koordinator import names as n
from nri.agent.koordinator.batch_resource import BatchRule
from nri.agent.koordinator.names import BE, LS, NONE
from nri.agent.koordinator.node_slo import CoreSchedRule, GroupIdentityRule
from nri.agent.koordinator.node_topology import CpusetRule
from nri.agent.koordinator.quirks import Quirks
from nri.agent.koordinator.ratio import NO_RATIO
from nri.policies.changes import Decision
from nri.policies.hooks import CREATE, FOLDER, MEND_CONTAINER, PROGRAM, REMOVE_POD, RUN_POD, UPDATE, Decide, Hook
from nri.policies.ownership import Level, Owns

__all__ = ["HOOKS", "Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """All rules that are known now, and how this node is set up.

    Attributes:
        identity: None while there is no NodeSLO, or nothing to do under it.
        cpus: None while there is no NodeResourceTopology.
        batch: for batch pods.
        ratio: how fast the node's CPUs are; -1 if that does not matter.
        core: core scheduling.
        cache: None on a machine that cannot share out its caches.
        devices: the machine's RDMA devices, None if they cannot be asked for.
        gates: the hooks that are switched on; None is Koordinator's defaults.
        disabled_stages: stages at which no hook decides anything.
        fail: whether the first hook that fails stops the rest and fails the request (failure policy "Fail").
        batch_pools: whether batch pods may have share pools of their own.
        keep_quota: whether pods with CPUs of their own keep their CPU quota.
        gpu_library: HAMi-core's library.
        gpu_monitor: whether HAMi's monitor is used.
        quirks: where to decide as the original.
    """

    identity: GroupIdentityRule | None = None
    cpus: CpusetRule | None = None
    batch: BatchRule = field(default_factory=BatchRule)
    ratio: float = NO_RATIO
    core: CoreSchedRule = field(default_factory=CoreSchedRule)
    cache: resctrl.Cache | None = None
    devices: rdma.Devices | None = None
    gates: frozenset[str] | None = None
    disabled_stages: frozenset[str] = frozenset()
    fail: bool = False
    batch_pools: bool = False
    keep_quota: bool = False
    gpu_library: str = "/usr/local/vgpu/libvgpu.so"
    gpu_monitor: bool = False
    quirks: Quirks = Quirks.DEFAULT

    @property
    def stages_off(self) -> frozenset[str]:
        """The stages at which no hook decides."""
        return self.disabled_stages if self.quirks.disabled_stages_honoured else frozenset()

    @property
    def keeps_partial(self) -> bool:
        """Whether what a hook had decided until it failed is applied."""
        return not self.quirks.failed_hook_changes_nothing


def _identity(decide: Callable[[Any, GroupIdentityRule], Decision]) -> Decide:
    return lambda context, node: Decision() if node.identity is None else decide(context, node.identity)


def _resctrl_pod(context: Any, node: Node) -> Decision:
    return Decision() if node.cache is None else resctrl.pod(context, node.cache)


def _resctrl_container(context: Any, node: Node) -> Decision:
    return Decision() if node.cache is None else resctrl.container(context, node.quirks)


def _cpuset(context: Any, node: Node) -> Decision:
    return cpuset.container(context, node.cpus, node.quirks, batch_pools=node.batch_pools, keep_quota=node.keep_quota)


def _oom(context: Any, node: Node) -> Decision:
    return oom_score_adj.container(context) if node.quirks.oom_score_at_creation else Decision()


def _batch(context: Any, node: Node) -> Decision:
    return batch_resource.container(context, node.batch, node.quirks)


def _normal(context: Any, node: Node) -> Decision:
    return cpu_normalization.container(context, node.ratio, node.quirks)


_SLO, _TOPOLOGY, _NODE, _PODS = "NodeSLO", "NodeResourceTopology", "Node", "pods"

_BATCH, _SHARED = frozenset({BE}), frozenset({LS, NONE})
_POD_AND_CONTAINER: Final = (Level.POD, Level.CONTAINER)

#: The hooks, in the order in which they decide.
HOOKS: Final = (
    Hook(
        batch_resource.NAME,
        True,
        (_SLO, _NODE),
        (n.LABEL_QOS, n.ANNOTATION_EXTENDED),
        {
            RUN_POD: lambda context, node: batch_resource.pod(context, node.batch, node.quirks),
            CREATE: _batch,
            UPDATE: _batch,
        },
        tuple(
            owns
            for level in _POD_AND_CONTAINER
            for owns in (
                Owns(level, "cpu.shares", _BATCH),
                Owns(level, "cpu.cfs_quota", _BATCH, own_cpus=False),
                Owns(level, "memory.limit", _BATCH),
            )
        ),
    ),
    Hook(
        core_sched.NAME,
        False,
        (_SLO, _PODS),
        (n.LABEL_QOS, n.LABEL_CORE_GROUP, n.LABEL_CORE_POLICY),
        {FOLDER: lambda context, node: core_sched.kube_class(context, node.core)},
        (
            Owns(Level.KUBE_QOS, "cpu.idle"),
            Owns(Level.SANDBOX, "core_sched.cookie"),
            Owns(Level.CONTAINER, "core_sched.cookie"),
        ),
    ),
    Hook(
        cpu_normalization.NAME,
        False,
        (_NODE,),
        (n.LABEL_QOS, n.ANNOTATION_STATUS),
        {
            RUN_POD: lambda context, node: cpu_normalization.pod(context, node.ratio, node.quirks),
            CREATE: _normal,
            UPDATE: _normal,
        },
        tuple(Owns(level, "cpu.cfs_quota", _SHARED, own_cpus=False) for level in _POD_AND_CONTAINER),
    ),
    Hook(
        cpuset.NAME,
        True,
        (_TOPOLOGY,),
        (n.LABEL_QOS, n.ANNOTATION_STATUS),
        {
            RUN_POD: lambda context, node: cpuset.pod_quota(context, keep_quota=node.keep_quota),
            CREATE: _cpuset,
            UPDATE: _cpuset,
            PROGRAM: lambda context, node: cpuset.host_application(context, node.cpus),
        },
        (
            *(Owns(level, "cpu.cfs_quota", own_cpus=True) for level in (*_POD_AND_CONTAINER, Level.SANDBOX)),
            Owns(Level.SANDBOX, "cpuset.cpus"),
            Owns(Level.CONTAINER, "cpuset.cpus"),
            Owns(Level.HOST_APPLICATION, "cpuset.cpus"),
        ),
    ),
    Hook(
        gpu.NAME,
        False,
        (),
        (n.ANNOTATION_DEVICES, n.LABEL_GPU_ISOLATION),
        {CREATE: lambda context, node: gpu.container(context, library=node.gpu_library, monitor=node.gpu_monitor)},
        (Owns(Level.CONTAINER, "env"), Owns(Level.CONTAINER, "mounts")),
    ),
    Hook(
        group_identity.NAME,
        True,
        (_SLO,),
        (n.LABEL_QOS, n.ANNOTATION_CPU_QOS),
        {
            RUN_POD: _identity(group_identity.pod),
            FOLDER: _identity(group_identity.kube_class),
            PROGRAM: _identity(group_identity.host_application),
        },
        tuple(Owns(level, "cpu.bvt") for level in (Level.KUBE_QOS, Level.POD, Level.HOST_APPLICATION)),
    ),
    Hook(
        oom_score_adj.NAME,
        False,
        (_PODS,),
        (n.ANNOTATION_OOM_SCORE, n.ANNOTATION_OOM_SCORES),
        {CREATE: _oom, MEND_CONTAINER: lambda context, _: oom_score_adj.container(context)},
        (Owns(Level.CONTAINER, "oom_score_adj"),),
    ),
    Hook(
        rdma.NAME,
        False,
        (),
        (n.ANNOTATION_DEVICES,),
        {CREATE: lambda context, node: Decision() if node.devices is None else rdma.container(context, node.devices)},
        (Owns(Level.CONTAINER, "devices"),),
    ),
    Hook(
        resctrl.NAME,
        False,
        (_PODS,),
        (n.ANNOTATION_RESCTRL,),
        {
            RUN_POD: _resctrl_pod,
            CREATE: _resctrl_container,
            REMOVE_POD: lambda context, node: Decision() if node.cache is None else resctrl.removal(context),
        },
        (Owns(Level.POD, "resctrl"),),
    ),
    Hook(
        tc.NAME,
        False,
        (_SLO, _PODS),
        (n.LABEL_QOS, n.ANNOTATION_NETWORK_QOS),
        {},
        (Owns(Level.NODE, "tc"), Owns(Level.POD, "net_cls.classid")),
    ),
    Hook(
        terway_qos.NAME,
        False,
        (_SLO, _PODS),
        (n.LABEL_QOS, n.ANNOTATION_NETWORK_QOS),
        {},
        (Owns(Level.NODE, "terway"),),
    ),
)
