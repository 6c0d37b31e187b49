"""Koordinator's profile: the hooks, strategies, sections of NodeSLO and kinds of documents.

A new hook or strategy is a module of this package and a row in this module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from nri.agent.cgroup_paths import BEST_EFFORT, BURSTABLE, GUARANTEED
from nri.agent.koordinator import (
    batch_resource,
    block_io,
    core_sched,
    cpu_burst,
    cpu_normalization,
    cpu_suppress,
    cpuset,
    evict,
    gpu,
    group_identity,
    host_application,
    memory_qos,
    oom_score_adj,
    rdma,
    resctrl,
    slo_controller,
    system_config,
    tc,
    terway,
    thresholds,
)
from nri.agent.koordinator.documents import NODE, SLO, TOPOLOGY, NodeSlo, PodAnnotation
from nri.agent.koordinator.gpu_folder import make_folder
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.keys import requested_gates
from nri.agent.koordinator.machine import BATCH_POOLS, node_of
from nri.agent.koordinator.names import LABEL_QOS, qos_class
from nri.agent.koordinator.node import NO_RATIO, BatchRule, CoreSchedRule, GroupIdentityRule, Node
from nri.agent.koordinator.unread_keys import unread, unread_annotations
from nri.agent.koordinator.unread_pod_keys import absent_containers, pod_unread
from nri.agent.model import HookError, HostApplication, Pod
from nri.agent.profile import Documents, ForeignAgent, Kind, Profile
from nri.kube.shapes import Record, Table, fit

Document = Mapping[str, Any]
_META: Final = Record({"metadata": Record({"name": str, "annotations": Table(str)})})
_HERE: Final = "nri.agent.koordinator"
#: The hooks, in the order of their decisions, by name as in Koordinator. If two hooks set the same value, the later
#: hook
#: takes precedence: CPUSetAllocator removes the quota that CPUNormalization has scaled.
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
    terway.HOOK,
)
#: The strategies, in the order of their rounds.
STRATEGIES: Final = (
    cpu_suppress.STRATEGY,
    cpu_burst.STRATEGY,
    *evict.STRATEGIES,
    memory_qos.STRATEGY,
    resctrl.STRATEGY,
    block_io.STRATEGY,
    system_config.STRATEGY,
)
#: The sections of NodeSLO that strategies read.
PARTS: Final = (
    thresholds.THRESHOLD,
    cpu_burst.BURST,
    memory_qos.MEMORY,
    resctrl.CACHES,
    block_io.DISKS,
    block_io.ROOT_DISKS,
    system_config.SYSTEM_CONFIG,
)
#: NodeSLO's key of each QoS class and Kubernetes class.
_CLASS_KEYS: Final = {
    **memory_qos.CLASS_KEYS, GUARANTEED: "lsrClass", BURSTABLE: "lsClass", BEST_EFFORT: "beClass",
}  # fmt: skip
#: The annotations that strategies read.
POD_ANNOTATIONS: Final[tuple[PodAnnotation[Any], ...]] = (
    cpu_burst.POD_BURST,
    memory_qos.POD_MEMORY,
    block_io.POD_DISKS,
)


class SloRule(NamedTuple):
    """The rules of hooks from a NodeSLO, and its spec, which strategies and network hooks read."""

    identity: GroupIdentityRule
    core: CoreSchedRule
    has_quota: bool
    spec: Mapping[str, Any]


def _checked_document(document: Document) -> Document:
    """Check the types of a document's metadata, on which readers of annotations rely."""
    if not isinstance(document, dict):
        raise ValueError("the document is not an object")  # noqa: TRY004  a mistake of the source, not of the caller
    fit(document, _META, "")
    return document


def _slo(document: Document) -> SloRule:
    spec_or_none = _checked_document(document).get("spec")
    spec = {} if spec_or_none is None else spec_or_none
    rule = SloRule(group_identity.rule_of(spec), core_sched.rule_of(spec), batch_resource.has_cfs_quota(spec), spec)
    applications = spec.get("hostApplications")
    if applications is not None and not isinstance(applications, list):
        raise ValueError("hostApplications: must be a list")
    host_application.by_name(applications)
    if terway.is_chosen(spec):
        terway.rule_of(spec)
    else:
        tc.rule_of(spec, tc.TcRule())
    return rule


def _slo_into(rules: Node, rule: SloRule | None) -> Node:
    if rule is None:
        return rules
    batch = BatchRule(rule.has_quota, rules.batch.ratio)
    return replace(rules, identity=rule.identity, core=rule.core, batch=batch)


def _ratio_into(rules: Node, ratio: float | None) -> Node:
    if ratio is None:
        return rules
    return replace(rules, ratio=ratio, batch=BatchRule(rules.batch.has_quota, ratio))


#: The kinds of documents. Without a NodeSLO the defaults apply: all features are off, and their values are reset.
KINDS: Final = {
    SLO: Kind(
        _slo,
        _slo({}),
        None,
        _slo_into,
        unread,
        derived_from=(slo_controller.CONFIG_MAP, NODE),
        derive=slo_controller.node_slo,
    ),
    slo_controller.CONFIG_MAP: Kind(
        slo_controller.read,
        None,
        None,
        lambda rules, _: rules,
        slo_controller.unread,
        object_name=slo_controller.NAME,
        namespace=slo_controller.NAMESPACE,
        salvage=slo_controller.salvage,
    ),
    TOPOLOGY: Kind(
        lambda document: cpuset.rule_of(_checked_document(document)),
        None,
        None,
        lambda rules, cpus: rules if cpus is None else replace(rules, cpus=cpus),
        unread_annotations,
    ),
    NODE: Kind(
        lambda document: cpu_normalization.ratio_of(_checked_document(document)),
        NO_RATIO,
        cpu_normalization.same_ratio,
        _ratio_into,
        unread_annotations,
    ),
}


def programs(documents: Documents, driver: str) -> Iterator[HostApplication]:
    """Yield the programs of the host that NodeSLO lists. Raises ValueError if the list is malformed."""
    spec = (documents(SLO) or {}).get("spec") or {}
    try:
        listed = host_application.by_name(spec.get("hostApplications"))
    except TypeError as error:
        raise ValueError(str(error)) from None
    for application in listed.values():
        yield context_of(application, driver)


def _annotation_errors(context: Pod, node: Node, strategies: Collection[str]) -> dict[str, str]:
    """Return the errors of annotations that strategies or network hooks read, by hook or strategy.

    Args:
        context: the pod.
        node: the rules, with the enabled hooks.
        strategies: the enabled strategies.
    """
    wrong: dict[str, str] = {}
    rules, qos = NodeSlo(PARTS), qos_class(context.labels)
    for annotation in POD_ANNOTATIONS:
        try:
            if annotation.strategy in strategies:
                annotation.value(rules, qos, context.annotations)
        except ValueError as error:
            wrong[annotation.strategy] = str(error)
    on = node.gates or frozenset()
    try:
        if resctrl.NAME in on:
            resctrl.shares(context.annotations)
    except ValueError as error:
        wrong[resctrl.NAME] = str(error)
    for name, read in ((tc.NAME, tc.own_limits), (terway.NAME, terway.pod_limits)):
        try:
            if name in on:
                read(context.annotations)
        except HookError as error:
            wrong[name] = error.reason
    return wrong


def _origins(name: str, pod_class: str) -> tuple[tuple[str, str], ...]:
    """Return the kinds and keys of the documents that a hook or strategy uses.

    Args:
        name: the name of the hook or strategy.
        pod_class: the QoS class or Kubernetes class of the pod.
    """
    keys = next((row.document_keys for row in (*HOOKS, *STRATEGIES) if row.name == name), ())
    return tuple((kind, key.format(_CLASS_KEYS.get(pod_class, "lsClass"))) for kind, key in keys)


PROFILE: Final = Profile(
    name="koordinator",
    hooks=HOOKS,
    strategies=STRATEGIES,
    switches={BATCH_POOLS: (False, "batch pods may have their own share pools")},
    kinds=KINDS,
    node=lambda settings, root: node_of(settings, root, HOOKS),
    strategy_rules=lambda: NodeSlo(PARTS),
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
    unreadable=_annotation_errors,
    unread=partial(pod_unread, frozenset().union(*(hook.keys for hook in HOOKS))),
    absent_containers=absent_containers,
    class_of=lambda pod: qos_class(pod.labels),
    requested_gates=requested_gates,
    origins=_origins,
)
