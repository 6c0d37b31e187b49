"""Stages of GroupIdentity, BatchResource and CPUNormalization. Next: `tests.hook_cases.cpusets`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from nri.policies import paths, writes
from nri.policies.changes import NO_CHANGES, Changes, Decision, HookError
from nri.policies.contexts import HostApplicationContext, KubeQosContext
from nri.policies.koordinator import identities
from nri.policies.koordinator.hooks import batch_resource, cpu_normalization, group_identity, host_application
from nri.policies.koordinator.rules import node, node_slo
from nri.policies.koordinator.rules.node_slo import GroupIdentityRule
from nri.policies.last_good import LastGood
from tests.hook_cases import inputs, refresh, switches
from tests.hook_cases.inputs import Given
from tests.hook_cases.tree import Tree

__all__ = ["STAGES", "decided"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def decided(decide: Callable[[], Decision]) -> tuple[Changes, bool]:
    """Return what a hook decided; of a failed one what it had decided until then, and True."""
    try:
        return decide().changes, False
    except HookError as error:
        return error.partial, True


def _outcome(tree: Tree, folder: str, changes: Changes, error: bool) -> Outcome:
    tree.write(writes.pod_writes(folder, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


# --- group identity


def _sysctl(given: Input, tree: Tree) -> bool | None:
    """Whether the sysctl is on; None if identities hold without one. Raises ValueError if it is said to be there."""
    known = given.get("kernel_sysctl_supported")
    text = tree.sysctl(switches.GROUP_IDENTITY)
    if text is None and given.get("kernel_sysctl_file_exists"):
        text = str(given.get("kernel_sysctl_value") or 0)
    if known is None:
        known = text is not None
    if not known:
        return None
    if text is None:
        raise ValueError("the sysctl cannot be read")
    return text.strip() == "1"


def _supported(given: Input, tree: Tree) -> bool:
    told = given.get("system_supported")
    if told is not None:
        return bool(told)
    folder = paths.kube_class_path("Guaranteed")
    has_file = tree.read(folder, "cpu.bvt") is not None or (given.get("bvt_file_dir") or "").strip("/") == folder
    return has_file or bool(given.get("kernel_sysctl_file_exists")) or tree.sysctl(switches.GROUP_IDENTITY) is not None


def _in_effect(given: Input, tree: Tree) -> GroupIdentityRule | None:
    try:
        sysctl = _sysctl(given, tree)
    except ValueError:
        return None
    return group_identity.in_effect(inputs.identity_rule(given.get("rule")), _supported(given, tree), sysctl)


def _identity_pod(given: Given) -> Outcome:
    tree, context = Tree(given), inputs.pod(given.get("pod"))
    rule = _in_effect(given, tree)
    if rule is None:
        return _outcome(tree, context.cgroup_parent, NO_CHANGES, False)
    changes, error = decided(lambda: group_identity.pod(context, rule))
    return _outcome(tree, context.cgroup_parent, changes, error)


def _identity_folder(given: Given) -> Outcome:
    tree, kube = Tree(given), given.get("kube_qos") or ""
    rule = _in_effect(given, tree)
    changes = NO_CHANGES if rule is None else group_identity.kube_class(KubeQosContext(kube), rule).changes
    tree.write(writes.writes(paths.kube_class_path(kube), changes))
    return {**inputs.shown(changes), "error": False, "files": tree.files}


def _identity_program(given: Given) -> Outcome:
    tree = Tree(given)
    rule = _in_effect(given, tree)
    context = HostApplicationContext("", given.get("qos") or "")
    changes = NO_CHANGES if rule is None else group_identity.host_application(context, rule).changes
    return _outcome(tree, "", changes, False)


def _identity_parse(given: Given) -> Outcome:
    kept = LastGood(inputs.identity_rule(given.get("rule")))
    updated = kept.take(lambda: node_slo.group_identity(given.get("node_slo"), given.quirks))
    return {"updated": updated, "error": bool(kept.error), "rule": _identity_shown(kept.rule)}


def _identity_shown(rule: GroupIdentityRule | None) -> Outcome | None:
    if rule is None:
        return None
    return {
        "enabled": rule.enabled,
        "pod_qos": dict(rule.pods),
        "kube_qos_dir": dict(rule.folders),
        "kube_qos_pod": dict(rule.kube_pods),
    }


def _identity_prepare(given: Given) -> Outcome:
    rule = _in_effect(given, Tree(given))
    return {"rule_in_effect": None if rule is None else {"enabled": rule.enabled}, "error": False}


def _identity_probe(given: Given) -> Outcome:
    return {"supported": _supported(given, Tree(given))}


def _identity_switch(given: Given) -> Outcome:
    tree = Tree(given)
    return {"error": bool(_switched_on(given, tree)), "files": tree.files}


def _switched_on(given: Input, tree: Tree) -> str:
    identity, core = tree.sysctl(switches.GROUP_IDENTITY), tree.sysctl(switches.CORE_SCHED)
    known = {"identity": given.get("kernel_sysctl_supported"), "core": given.get("core_sched_sysctl_supported")}
    plan = switches.for_group_identity(
        identity,
        core,
        identity_known=identity is not None if known["identity"] is None else known["identity"],
        core_known=core is not None if known["core"] is None else known["core"],
    )
    for name, value in plan.writes:
        tree.set_sysctl(name, value)
    return plan.error


def _identity_apply(given: Given) -> Outcome:
    tree, rule = Tree(given), inputs.identity_rule(given.get("rule"))
    pods = inputs.running(given.get("pods"))
    error = False
    if rule is not None and (given.get("system_supported") is not False) and _may_apply(given, tree, rule):
        listed = given.get("pods") is not None
        error = not listed
        tree.write(identities.identities(rule, pods, tree.folders("cpu.bvt")) if listed else identities.folders(rule))
        decide = partial(group_identity.host_application, rule=rule)
        tree.write(host_application.decide(given.get("host_applications") or (), [decide])[0])
    names = given["pods"] if isinstance(given.get("pods"), dict) else [str(place) for place in range(len(pods))]
    return {
        "error": error,
        "files": tree.files,
        "bvt_by_kube_qos": {
            each: tree.number(paths.kube_class_path(each), "cpu.bvt")
            for each in ("Guaranteed", "Burstable", "BestEffort")
        },
        "bvt_by_pod": {name: tree.number(pod.folder, "cpu.bvt") for name, pod in zip(names, pods, strict=True)},
    }


def _may_apply(given: Input, tree: Tree, rule: GroupIdentityRule) -> bool:
    if rule.enabled:
        return not _switched_on(given, tree)
    try:
        return _sysctl(given, tree) is not False
    except ValueError:
        return False


def _pod_bvt(given: Given) -> Outcome:
    rule = inputs.identity_rule(given) or GroupIdentityRule()
    return {"bvt": rule.of_pod(given.get("qos") or "", given.get("kube_qos") or "")}


# --- batch resources and CPU normalization


def _batch_pod(given: Given) -> Outcome:
    tree, context, rule = Tree(given), inputs.pod(given.get("pod")), inputs.batch_rule(given.get("rule"))
    changes, error = decided(lambda: batch_resource.pod(context, rule, given.quirks))
    return _outcome(tree, context.cgroup_parent, changes, error)


def _batch_container(given: Given) -> Outcome:
    context, rule = inputs.container(given), inputs.batch_rule(given.get("rule"))
    changes, error = decided(lambda: batch_resource.container(context, rule, given.quirks))
    return {**inputs.shown(changes), "error": error}


def _batch_apply(given: Given) -> Outcome:
    tree, pods = Tree(given), inputs.running(given.get("pods"))
    if given.get("rule") is not None:
        tree.write(refresh.batch_quotas(pods, inputs.batch_rule(given.get("rule")), given.quirks).writes)
    per_pod = [{"cfsQuota": tree.read(pod.folder, "cpu.cfs_quota")} for pod in pods]
    return {"error": False, "files": tree.files, "per_pod": per_pod}


def _batch_parse_slo(given: Given) -> Outcome:
    kept = LastGood(inputs.batch_rule(given.get("rule")))
    updated = kept.take(lambda: replace(kept.rule, has_quota=node_slo.has_cfs_quota(given.get("node_slo"))))
    rule = {"cfs_quota_enabled": kept.rule.has_quota, "cpu_normalization_ratio": kept.rule.ratio}
    return {"updated": updated, "error": bool(kept.error), "rule": rule}


def _batch_parse_node(given: Given) -> Outcome:
    kept = LastGood(inputs.batch_rule(given.get("rule") or given))
    updated = kept.take(
        lambda: replace(kept.rule, ratio=node.ratio(given.get("node"))),
        lambda old, new: node.same_ratio(old.ratio, new.ratio),
    )
    has_quota = kept.rule.has_quota is not False
    ratio = kept.rule.ratio if has_quota and kept.rule.ratio is not None else node.NO_RATIO
    return {"updated": updated, "error": bool(kept.error), "cfs_quota_enabled": has_quota, "ratio": ratio}


def _normal_pod(given: Given) -> Outcome:
    tree, context = Tree(given), inputs.pod(given.get("pod"))
    changes, error = decided(lambda: cpu_normalization.pod(context, inputs.ratio_of(given.get("rule")), given.quirks))
    return _outcome(tree, context.cgroup_parent, changes, error)


def _normal_container(given: Given) -> Outcome:
    context = inputs.container(given)
    changes, error = decided(
        lambda: cpu_normalization.container(context, inputs.ratio_of(given.get("rule")), given.quirks)
    )
    return {**inputs.shown(changes), "error": error}


def _normal_apply(given: Given) -> Outcome:
    tree = Tree(given)
    pods, ratio = inputs.running(given.get("pods")), inputs.ratio_of(given.get("rule"))
    tree.write(refresh.normalized_quotas(pods, ratio, given.quirks).writes)
    return {"error": False, "files": tree.files}


def _normal_parse(given: Given) -> Outcome:
    current = given.get("current_ratio")
    kept = LastGood(node.NO_RATIO if current is None else float(current))
    updated = kept.take(lambda: node.ratio(given.get("node")), node.same_ratio)
    return {"updated": updated, "error": bool(kept.error), "ratio": kept.rule, "enabled": kept.rule != node.NO_RATIO}


def _shares_cpus(given: Given) -> Outcome:
    labels, annotations = inputs.mapping(given.get("labels")), inputs.mapping(given.get("annotations"))
    return {"is_cpu_share": cpu_normalization.shares_cpus(labels, annotations)}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "groupidentity/PreRunPodSandbox": _identity_pod,
    "groupidentity/reconcile.pod": _identity_pod,
    "groupidentity/reconcile.kubeqos": _identity_folder,
    "groupidentity/reconcile.hostapp": _identity_program,
    "groupidentity/rule.parse": _identity_parse,
    "groupidentity/rule.apply": _identity_apply,
    "groupidentity/setup.prepare": _identity_prepare,
    "groupidentity/setup.sysctl": _identity_switch,
    "groupidentity/probe": _identity_probe,
    "groupidentity/helper.pod_bvt": _pod_bvt,
    "batchresource/PreRunPodSandbox": _batch_pod,
    "batchresource/PreCreateContainer": _batch_container,
    "batchresource/PreUpdateContainerResources": _batch_container,
    "batchresource/reconcile.pod": _batch_pod,
    "batchresource/reconcile.container": _batch_container,
    "batchresource/rule.apply": _batch_apply,
    "batchresource/rule.parse.node": _batch_parse_node,
    "batchresource/rule.parse.node_slo": _batch_parse_slo,
    "cpunormalization/PreRunPodSandbox": _normal_pod,
    "cpunormalization/PreCreateContainer": _normal_container,
    "cpunormalization/PreUpdateContainerResources": _normal_container,
    "cpunormalization/reconcile.pod": _normal_pod,
    "cpunormalization/reconcile.container": _normal_container,
    "cpunormalization/rule.apply": _normal_apply,
    "cpunormalization/rule.parse.node": _normal_parse,
    "cpunormalization/helper.is_cpu_share": _shares_cpus,
}
