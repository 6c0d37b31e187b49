"""The profile: which hook decides at which stage, from which rules and annotations; and the run of all of them.

Order: by name, as in the original, and of two hooks that set one thing the later one's word counts (CPUSetAllocator
takes away the quota that CPUNormalization has scaled). A hook that fails stops no other unless the failure policy is
"Fail". Next: `nri.policies.koordinator.hooks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from nri.policies.koordinator import names as n
from nri.policies.koordinator.hooks import (
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
from nri.policies.koordinator.hooks.batch_resource import BatchRule
from nri.policies.koordinator.quirks import Quirks
from nri.policies.koordinator.rules.node import NO_RATIO
from nri.policies.koordinator.rules.node_slo import CoreSchedRule, GroupIdentityRule
from nri.policies.koordinator.rules.node_topology import CpusetRule
from nri.policies.koordinator.values import NO_CHANGES, Changes, Decision, HookError

__all__ = [
    "CREATE",
    "LATER",
    "MEND_CONTAINER",
    "MEND_POD",
    "PROFILE",
    "REMOVE_POD",
    "RUN_POD",
    "STAGES",
    "UPDATE",
    "Because",
    "Node",
    "Outcome",
    "Row",
    "decide",
]

RUN_POD, CREATE, UPDATE, REMOVE_POD = (
    "PreRunPodSandbox",
    "PreCreateContainer",
    "PreUpdateContainerResources",
    "PreRemoveRunPodSandbox",
)
#: What a timer or a changed rule decides for, beside pods and containers.
FOLDER, PROGRAM = "KubeQoS", "HostApplication"
MEND_POD, MEND_SANDBOX, MEND_CONTAINER = "ReconcilePod", "ReconcileSandbox", "ReconcileContainer"
#: The stages for what runs already, with the one whose hooks decide at them, and which switches them off with it.
LATER: Final = {MEND_POD: RUN_POD, MEND_SANDBOX: UPDATE, MEND_CONTAINER: UPDATE}
#: The stages, with the call of the CRI that each belongs to; the last five belong to none.
STAGES: Final = {
    RUN_POD: "RunPodSandbox",
    CREATE: "CreateContainer",
    UPDATE: "UpdateContainer",
    REMOVE_POD: "RemovePodSandbox",
    FOLDER: "",
    PROGRAM: "",
    **dict.fromkeys(LATER, ""),
}


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


_Decide = Callable[[Any, Node], Decision]


@dataclass(frozen=True, slots=True)
class Row:
    """One hook: its name, whether it is on by default, where its rule comes from, what it reads, and its stages."""

    name: str
    default: bool
    sources: tuple[str, ...]
    keys: tuple[str, ...]
    stages: dict[str, _Decide]


@dataclass(frozen=True, slots=True)
class Because:
    """The decision of one hook, and why: for `explain`."""

    hook: str
    changes: Changes
    reason: str


@dataclass(slots=True)
class Outcome:
    """The decision of all hooks of a stage together. `failed` is the error that stops the request, if one does.

    `asked` are the hooks that there are at the stage and that are on, whether they had anything to say or not.
    """

    changes: Changes = NO_CHANGES
    asked: list[str] = field(default_factory=list)
    because: list[Because] = field(default_factory=list)
    errors: list[HookError] = field(default_factory=list)
    failed: HookError | None = None


def _identity(decide: Callable[[Any, GroupIdentityRule], Decision]) -> _Decide:
    return lambda context, node: Decision() if node.identity is None else decide(context, node.identity)


def _resctrl_pod(context: Any, node: Node) -> Decision:
    return Decision() if node.cache is None else resctrl.pod(context, node.cache)


def _resctrl_container(context: Any, node: Node) -> Decision:
    return Decision() if node.cache is None else resctrl.container(context, node.quirks)


def _cpuset(context: Any, node: Node) -> Decision:
    return cpuset.container(context, node.cpus, batch_pools=node.batch_pools, keep_quota=node.keep_quota)


def _oom(context: Any, node: Node) -> Decision:
    return oom_score_adj.container(context) if node.quirks.oom_score_at_creation else Decision()


def _batch(context: Any, node: Node) -> Decision:
    return batch_resource.container(context, node.batch, node.quirks)


def _normal(context: Any, node: Node) -> Decision:
    return cpu_normalization.container(context, node.ratio, node.quirks)


_SLO, _TOPOLOGY, _NODE, _PODS = "NodeSLO", "NodeResourceTopology", "Node", "pods"

#: The hooks, in the order in which they decide.
PROFILE: Final = (
    Row(
        batch_resource.NAME,
        True,
        (_SLO, _NODE),
        (n.LABEL_QOS, n.ANNOTATION_EXTENDED),
        {
            RUN_POD: lambda context, node: batch_resource.pod(context, node.batch, node.quirks),
            CREATE: _batch,
            UPDATE: _batch,
        },
    ),
    Row(
        core_sched.NAME,
        False,
        (_SLO, _PODS),
        (n.LABEL_QOS, n.LABEL_CORE_GROUP, n.LABEL_CORE_POLICY),
        {FOLDER: lambda context, node: core_sched.kube_class(context, node.core)},
    ),
    Row(
        cpu_normalization.NAME,
        False,
        (_NODE,),
        (n.LABEL_QOS, n.ANNOTATION_STATUS),
        {
            RUN_POD: lambda context, node: cpu_normalization.pod(context, node.ratio, node.quirks),
            CREATE: _normal,
            UPDATE: _normal,
        },
    ),
    Row(
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
    ),
    Row(
        gpu.NAME,
        False,
        (),
        (n.ANNOTATION_DEVICES, n.LABEL_GPU_ISOLATION),
        {CREATE: lambda context, node: gpu.container(context, library=node.gpu_library, monitor=node.gpu_monitor)},
    ),
    Row(
        group_identity.NAME,
        True,
        (_SLO,),
        (n.LABEL_QOS, n.ANNOTATION_CPU_QOS),
        {
            RUN_POD: _identity(group_identity.pod),
            FOLDER: _identity(group_identity.kube_class),
            PROGRAM: _identity(group_identity.host_application),
        },
    ),
    Row(
        oom_score_adj.NAME,
        False,
        (_PODS,),
        (n.ANNOTATION_OOM_SCORE, n.ANNOTATION_OOM_SCORES),
        {CREATE: _oom, MEND_CONTAINER: lambda context, _: oom_score_adj.container(context)},
    ),
    Row(
        rdma.NAME,
        False,
        (),
        (n.ANNOTATION_DEVICES,),
        {CREATE: lambda context, node: Decision() if node.devices is None else rdma.container(context, node.devices)},
    ),
    Row(
        resctrl.NAME,
        False,
        (_PODS,),
        (n.ANNOTATION_RESCTRL,),
        {
            RUN_POD: _resctrl_pod,
            CREATE: _resctrl_container,
            REMOVE_POD: lambda context, node: Decision() if node.cache is None else resctrl.removal(context),
        },
    ),
    Row(tc.NAME, False, (_SLO, _PODS), (n.LABEL_QOS, n.ANNOTATION_NETWORK_QOS), {}),
    Row(terway_qos.NAME, False, (_SLO, _PODS), (n.LABEL_QOS, n.ANNOTATION_NETWORK_QOS), {}),
)


def decide(stage: str, context: Any, node: Node) -> Outcome:
    """Run the hooks of a stage for a context; KeyError for a stage that is none."""
    STAGES[stage]
    outcome = Outcome()
    earlier = LATER.get(stage, stage)
    if node.quirks.disabled_stages_honoured and not node.disabled_stages.isdisjoint((stage, earlier)):
        return outcome
    for row in PROFILE:
        hook = row.stages.get(stage) or row.stages.get(earlier)
        if hook is None or not (row.default if node.gates is None else row.name in node.gates):
            continue
        outcome.asked.append(row.name)
        try:
            decision = hook(context, node)
        except HookError as error:
            outcome.errors.append(error)
            if node.fail:
                outcome.failed = error
                return outcome
            partial = NO_CHANGES if node.quirks.failed_hook_changes_nothing else error.partial
            decision = Decision(partial, f"until it failed: {error.reason}")
        if decision.changes:
            outcome.changes |= decision.changes
            outcome.because.append(Because(row.name, decision.changes, decision.reason))
    return outcome
