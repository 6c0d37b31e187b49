"""Koordinator's profile as one value: hooks, strategies, documents, and what standalone mode does for it.

Order: hooks as in `nri.agent.koordinator.node`; strategies as they have their rounds. A new strategy is a module
and a row. Next: `nri.agent.profile`, which says what each field is.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Final

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
from nri.agent.koordinator.documents import KINDS, programs
from nri.agent.koordinator.gpu_folder import make_folder
from nri.agent.koordinator.keys import asked, origins
from nri.agent.koordinator.machine import BATCH_POOLS, node_of
from nri.agent.koordinator.names import LABEL_QOS, LS, NONE, SYSTEM, qos_class
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.pod_unread import absent_containers, pod_unread
from nri.agent.koordinator.slo import (
    ANNOTATION_BLOCK_IO,
    ANNOTATION_BURST,
    ANNOTATION_MEMORY,
    NodeSlo,
    pod_rules,
)
from nri.agent.profile import ForeignAgent, Profile, StrategyRow
from nri.policies.changes import HookError
from nri.policies.contexts import PodContext
from nri.policies.ownership import Level, Owns

__all__ = ["PROFILE"]

_HERE: Final = "nri.agent.koordinator"
_CPU_EVICT, _MEMORY_EVICT = (f"{_HERE}.evict:{name}" for name in ("CpuEvict", "MemoryEvict"))
#: Pods that share CPUs, and so may run ahead of their quota.
_SHARING: Final = frozenset({LS, NONE, SYSTEM})
_LEVELS: Final = (Level.KUBE_QOS, Level.POD, Level.CONTAINER)
_MEMORY: Final = (
    "memory.min", "memory.low", "memory.high", "memory.wmark_ratio", "memory.wmark_scale_factor",
    "memory.wmark_min_adj", "memory.oom_group", "memory.priority", "memory.use_priority_oom",
    "memory.pagecache_limit.enable", "memory.pagecache_limit.size", "memory.pagecache_limit.sync",
)  # fmt: skip
_DISKS: Final = ("io.read_bps", "io.write_bps", "io.read_iops", "io.write_iops", "io.device_weight")

#: In the order in which they decide, which is by name as in the original. Of two hooks that set one value the later one
#: wins: CPUSetAllocator takes away the quota that CPUNormalization has scaled.
HOOKS: Final = (
    batch_resource.HOOK,
    core_sched.HOOK,
    cpu_normalization.HOOK,
    cpuset.HOOK,
    gpu.HOOK,
    group_identity.HOOK,
    oom_score_adj.HOOK,
    rdma.HOOK,
    resctrl.HOOK,
    tc.HOOK,
    terway_qos.HOOK,
)

STRATEGIES: Final = (
    StrategyRow(
        "BECPUSuppress",
        True,
        "best-effort pods get the CPU that the others leave",
        f"{_HERE}.cpu_suppress:CpuSuppress",
        (
            Owns(Level.KUBE_QOS, "cpu.cfs_quota"),
            Owns(Level.KUBE_QOS, "cpuset.cpus"),
            Owns(Level.POD, "cpuset.cpus"),
            # Of pods in the best-effort folder, which is a matter of requests and not of classes. There the hook only
            # clears CPUs, and gives some where batch pods have share pools; then, and for pods with CPUs of their own,
            # this does nothing.
            *(
                Owns(level, "cpuset.cpus", unless=frozenset({cpuset.NAME}))
                for level in (Level.SANDBOX, Level.CONTAINER)
            ),
        ),
    ),
    StrategyRow(
        "CPUBurst",
        True,
        "containers that are throttled may borrow CPU",
        f"{_HERE}.cpu_burst:CpuBurst",
        tuple(
            owns
            for level in (Level.POD, Level.CONTAINER)
            for owns in (
                Owns(level, "cpu.cfs_burst", _SHARING),
                # A quota that is scaled to the node's CPUs is repaired each round, and so not borrowed on.
                Owns(level, "cpu.cfs_quota", _SHARING, False, frozenset({cpu_normalization.NAME})),
            )
        ),
        ANNOTATION_BURST,
    ),
    StrategyRow("BECPUEvict", False, "batch pods that get too little CPU are evicted", _CPU_EVICT),
    StrategyRow("CPUEvict", False, "pods that allow it are evicted when the node uses too much CPU", _CPU_EVICT),
    StrategyRow(
        "CPUAllocatableEvict",
        False,
        "batch and mid pods that ask for more CPU than there is for them are evicted",
        _CPU_EVICT,
    ),
    StrategyRow("BEMemoryEvict", False, "batch pods are evicted when memory runs short", _MEMORY_EVICT),
    StrategyRow(
        "MemoryEvict", False, "pods that allow it are evicted when the node uses too much memory", _MEMORY_EVICT
    ),
    StrategyRow(
        "MemoryAllocatableEvict",
        False,
        "batch and mid pods that ask for more memory than there is for them are evicted",
        _MEMORY_EVICT,
    ),
    StrategyRow(
        "CgroupReconcile",
        False,
        "memory QoS: minimum, low and high of pods and containers",
        f"{_HERE}.memory_qos:MemoryQos",
        tuple(Owns(level, knob) for level in _LEVELS for knob in _MEMORY),
        ANNOTATION_MEMORY,
    ),
    StrategyRow(
        "RdtResctrl",
        True,
        "cache and memory bandwidth of the QoS classes",
        f"{_HERE}.class_resctrl:ClassResctrl",
        (Owns(Level.NODE, "resctrl"),),
    ),
    StrategyRow(
        "BlkIOReconcile",
        False,
        "block I/O: weights and limits for each disk",
        f"{_HERE}.block_io:BlockIo",
        (
            *(Owns(Level.NODE, knob) for knob in ("io.cost_qos", "io.cost_model")),
            *(Owns(level, knob) for level in (Level.KUBE_QOS, Level.POD) for knob in _DISKS),
        ),
        ANNOTATION_BLOCK_IO,
    ),
    StrategyRow(
        "SystemConfig",
        False,
        "the machine's sysctls of memory: what the kernel keeps free, and when it begins to reclaim",
        f"{_HERE}.system_config:SystemConfig",
        (Owns(Level.NODE, "sysctl"),),
    ),
)


def _unreadable(context: PodContext, node: Node, strategies: Collection[str]) -> dict[str, str]:
    """Say what is wrong with annotations that no stage of a hook would meet on this machine, by their reader.

    Args:
        context: the pod.
        node: which hooks are on.
        strategies: those that are on.
    """
    wrong: dict[str, str] = {}
    pod_rules(NodeSlo(), qos_class(context.labels), context.annotations, wrong.__setitem__)
    wrong = {strategy: reason for strategy, reason in wrong.items() if strategy in strategies}
    on = node.gates or frozenset()
    try:
        if resctrl.NAME in on:
            resctrl.shares(context.annotations)
    except ValueError as error:
        wrong[resctrl.NAME] = str(error)
    for name, read in ((tc.NAME, tc.own_limits), (terway_qos.NAME, terway_qos.pod_limits)):
        try:
            if name in on:
                read(context.annotations)
        except HookError as error:
            wrong[name] = error.reason
    return wrong


PROFILE: Final = Profile(
    name="koordinator",
    hooks=HOOKS,
    strategies=STRATEGIES,
    switches={BATCH_POOLS: (False, "batch pods may have share pools of their own")},
    kinds=KINDS,
    node=lambda settings, root: node_of(settings, root, HOOKS),
    strategy_rules=NodeSlo,
    class_label=LABEL_QOS,
    programs=programs,
    prepare=make_folder,
    reconciler=f"{_HERE}.reconcile:Reconcile",
    network=f"{_HERE}.network:Network",
    transports={"hooks": f"{_HERE}.hook_server:HooksTransport"},
    foreign=(
        ForeignAgent(
            "koordlet",
            "remove it from this node (its DaemonSet, by node affinity), or set beside_koordlet = true if its hooks "
            "and strategies are off",
        ),
    ),
    unreadable=_unreadable,
    unread=partial(pod_unread, frozenset().union(*(hook.keys for hook in HOOKS))),
    absent_containers=absent_containers,
    class_of=lambda pod: qos_class(pod.labels),
    asked=asked,
    origins=origins,
)
