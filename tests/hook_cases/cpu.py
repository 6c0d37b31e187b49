"""Stages of GroupIdentity, BatchResource and CPUNormalization. Next: `tests.hook_cases.cpusets`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.hooks import CREATE, FOLDER, PROGRAM, RUN_POD
from nri.agent.koordinator import batch_resource, cpu_normalization, group_identity
from nri.agent.koordinator.node import NO_RATIO, GroupIdentityRule
from nri.agent.koordinator.reconcile import GROUP_IDENTITY
from nri.agent.last_good import LastGood
from nri.agent.model import NO_CHANGES, Changes, HostApplication, KubeQosFolder, pod_writes, writes
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import Machine, decided
from tests.hook_cases.tree import Tree

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]
_SYSCTL = "/proc/sys/kernel/sched_group_identity_enabled"


def _outcome(tree: Tree, folder: str, changes: Changes, error: bool) -> Outcome:
    tree.write(pod_writes(folder, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


# --- group identity


def _sysctl(case: Input, tree: Tree) -> bool | None:
    """Whether the sysctl is on; None if identities hold without one. Raises ValueError if it is said to be there."""
    known_entry = case.get("kernel_sysctl_supported")
    text = tree.sysctl(GROUP_IDENTITY)
    if text is None and case.get("kernel_sysctl_file_exists"):
        text = str(case.get("kernel_sysctl_value") or 0)
    if known_entry is None:
        known_entry = text is not None
    if not known_entry:
        return None
    if text is None:
        raise ValueError("the sysctl cannot be read")
    return text.strip() == "1"


def _supported(case: Input, tree: Tree) -> bool:
    message = case.get("system_supported")
    if message is not None:
        return bool(message)
    folder = paths.kube_class_path("Guaranteed")
    has_file = tree.read(folder, "cpu.bvt") is not None or (case.get("bvt_file_dir") or "").strip("/") == folder
    return has_file or bool(case.get("kernel_sysctl_file_exists")) or tree.sysctl(GROUP_IDENTITY) is not None


def _in_effect(case: Input, tree: Tree) -> GroupIdentityRule | None:
    try:
        sysctl = _sysctl(case, tree)
    except ValueError:
        return None
    return group_identity.in_effect(inputs.identity_rule(case.get("rule")), _supported(case, tree), sysctl)


def _identity_pod(case: Given) -> Outcome:
    tree, context = Tree(case), inputs.pod(case.get("pod"))
    rule = _in_effect(case, tree)
    if rule is None:
        return _outcome(tree, context.folder, NO_CHANGES, False)
    changes, error = decided(case, group_identity.NAME, RUN_POD, context, identity=rule)
    return _outcome(tree, context.folder, changes, error)


def _identity_folder(case: Given) -> Outcome:
    tree, kube = Tree(case), case.get("kube_qos") or ""
    rule = _in_effect(case, tree)
    changes, _ = decided(case, group_identity.NAME, FOLDER, KubeQosFolder(kube), identity=rule)
    tree.write(writes(paths.kube_class_path(kube), changes))
    return {**inputs.shown(changes), "error": False, "files": tree.files}


def _identity_program(case: Given) -> Outcome:
    tree = Tree(case)
    rule = _in_effect(case, tree)
    context = HostApplication("", case.get("qos") or "")
    changes, _ = decided(case, group_identity.NAME, PROGRAM, context, identity=rule)
    return _outcome(tree, "", changes, False)


def _identity_parse(case: Given) -> Outcome:
    last_good = LastGood(inputs.identity_rule(case.get("rule")))
    updated = last_good.take(lambda: group_identity.rule_of(case.get("node_slo"), case.quirks))
    return {"updated": updated, "error": bool(last_good.error), "rule": _identity_shown(last_good.rule)}


def _identity_shown(rule: GroupIdentityRule | None) -> Outcome | None:
    if rule is None:
        return None
    return {
        "enabled": rule.enabled,
        "pod_qos": dict(rule.pods),
        "kube_qos_dir": dict(rule.folders),
        "kube_qos_pod": dict(rule.kube_pods),
    }


def _identity_prepare(case: Given) -> Outcome:
    rule = _in_effect(case, Tree(case))
    return {"rule_in_effect": None if rule is None else {"enabled": rule.enabled}, "error": False}


def _identity_probe(case: Given) -> Outcome:
    return {"supported": _supported(case, Tree(case))}


def _identity_switch(case: Given) -> Outcome:
    """The switches of the scheduler, as a round sets them where identities are on."""
    with Machine(case, group_identity.NAME, identity=GroupIdentityRule(enabled=True)) as machine:
        machine.round()
        is_lacking = case.get("kernel_sysctl_supported") is True and machine.read(_SYSCTL) is None
        return {"error": is_lacking, "files": machine.files()}


def _identity_apply(case: Given) -> Outcome:
    rule = inputs.identity_rule(case.get("rule"))
    with Machine(case, group_identity.NAME, identity=rule) as machine:
        machine.list_pods(case.get("pods"))
        applications = case.get("host_applications")
        if applications is not None:
            machine.store.put("NodeSLO", {"spec": {"hostApplications": applications}}, "a case")
        if rule is not None and case.get("system_supported") is not False and case.get("pods") is not None:
            machine.round("NodeSLO")
        bvt = {
            name: machine.read(f"/cpu/{paths.kube_class_path(name)}/cpu.bvt_warp_ns")
            for name in ("Guaranteed", "Burstable", "BestEffort")
        }
        pods = case.get("pods") or {}
        listed = pods.items() if isinstance(pods, dict) else ((str(place), pod) for place, pod in enumerate(pods))
        by_pod = {
            name: machine.read(f"/cpu/{(pod.get('cgroup_parent') or '').strip('/')}/cpu.bvt_warp_ns")
            for name, pod in listed
        }
        return {
            "error": rule is not None and case.get("pods") is None,
            "files": machine.files(),
            "bvt_by_kube_qos": {name: None if text is None else int(text) for name, text in bvt.items()},
            "bvt_by_pod": {name: None if text is None else int(text) for name, text in by_pod.items()},
        }


def _pod_bvt(case: Given) -> Outcome:
    rule = inputs.identity_rule(case) or GroupIdentityRule()
    return {"bvt": rule.of_pod(case.get("qos") or "", case.get("kube_qos") or "")}


# --- batch resources and CPU normalization


def _batch_pod(case: Given) -> Outcome:
    tree, context, rule = Tree(case), inputs.pod(case.get("pod")), inputs.batch_rule(case.get("rule"))
    changes, error = decided(case, batch_resource.NAME, RUN_POD, context, batch=rule)
    return _outcome(tree, context.folder, changes, error)


def _batch_container(case: Given) -> Outcome:
    context, rule = inputs.container(case), inputs.batch_rule(case.get("rule"))
    changes, error = decided(case, batch_resource.NAME, CREATE, context, batch=rule)
    return {**inputs.shown(changes), "error": error}


def _batch_apply(case: Given) -> Outcome:
    with Machine(case, batch_resource.NAME, batch=inputs.batch_rule(case.get("rule"))) as machine:
        machine.list_pods(case.get("pods"))
        if case.get("rule") is not None:
            machine.round()
        quotas = [
            f"/cpu/{(pod.get('cgroup_parent') or '').strip('/')}/cpu.cfs_quota_us" for pod in case.get("pods") or ()
        ]
        per_pod = [{"cfsQuota": machine.read(name)} for name in quotas]
        return {"error": False, "files": machine.files(), "per_pod": per_pod}


def _batch_parse_slo(case: Given) -> Outcome:
    last_good = LastGood(inputs.batch_rule(case.get("rule")))
    updated = last_good.take(
        lambda: replace(last_good.rule, has_quota=batch_resource.has_cfs_quota(case.get("node_slo")))
    )
    rule = {"cfs_quota_enabled": last_good.rule.has_quota, "cpu_normalization_ratio": last_good.rule.ratio}
    return {"updated": updated, "error": bool(last_good.error), "rule": rule}


def _batch_parse_node(case: Given) -> Outcome:
    last_good = LastGood(inputs.batch_rule(case.get("rule") or case))
    updated = last_good.take(
        lambda: replace(last_good.rule, ratio=cpu_normalization.ratio_of(case.get("node"))),
        lambda old, new: cpu_normalization.same_ratio(old.ratio, new.ratio),
    )
    has_quota = last_good.rule.has_quota is not False
    ratio = last_good.rule.ratio if has_quota and last_good.rule.ratio is not None else NO_RATIO
    return {"updated": updated, "error": bool(last_good.error), "cfs_quota_enabled": has_quota, "ratio": ratio}


def _normal_pod(case: Given) -> Outcome:
    tree, context = Tree(case), inputs.pod(case.get("pod"))
    ratio = inputs.ratio_of(case.get("rule"))
    changes, error = decided(case, cpu_normalization.NAME, RUN_POD, context, ratio=ratio)
    return _outcome(tree, context.folder, changes, error)


def _normal_container(case: Given) -> Outcome:
    context = inputs.container(case)
    ratio = inputs.ratio_of(case.get("rule"))
    changes, error = decided(case, cpu_normalization.NAME, CREATE, context, ratio=ratio)
    return {**inputs.shown(changes), "error": error}


def _normal_apply(case: Given) -> Outcome:
    with Machine(case, cpu_normalization.NAME, ratio=inputs.ratio_of(case.get("rule"))) as machine:
        machine.list_pods(case.get("pods"))
        machine.round()
        return {"error": False, "files": machine.files()}


def _normal_parse(case: Given) -> Outcome:
    current = case.get("current_ratio")
    last_good = LastGood(NO_RATIO if current is None else float(current))
    updated = last_good.take(lambda: cpu_normalization.ratio_of(case.get("node")), cpu_normalization.same_ratio)
    return {
        "updated": updated,
        "error": bool(last_good.error),
        "ratio": last_good.rule,
        "enabled": last_good.rule != NO_RATIO,
    }


def _shares_cpus(case: Given) -> Outcome:
    labels, annotations = inputs.mapping(case.get("labels")), inputs.mapping(case.get("annotations"))
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
