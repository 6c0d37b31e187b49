"""Stages of CPUSetAllocator. Next: `tests.hook_cases.devices`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.policies import manifest, writes
from nri.policies.changes import Decision
from nri.policies.koordinator.hooks import cpuset
from nri.policies.koordinator.hooks.host_application import context_of
from nri.policies.koordinator.rules import node_topology
from nri.policies.koordinator.rules.node_topology import CpusetRule
from nri.policies.last_good import LastGood
from nri.policies.running import RunningPod
from tests.hook_cases import inputs, refresh
from tests.hook_cases.cpu import decided
from tests.hook_cases.inputs import Given
from tests.hook_cases.tree import Tree
from tests.support.pod_folders import pod_folder

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def _container(given: Input, decide: Callable[[], Decision]) -> Outcome:
    tree, context = Tree(given), inputs.container(given)
    changes, error = decided(decide)
    tree.write(writes.writes(context.cgroup_parent, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


def _both(given: Given) -> Outcome:
    context, rule = inputs.container(given), inputs.cpuset_rule(given.get("rule"))
    return _container(
        given,
        lambda: cpuset.container(
            context,
            rule,
            given.quirks,
            batch_pools=bool(given.get("be_cpu_manager")),
            keep_quota=bool(given.get("disable_unset_cpu_quota")),
        ),
    )


def _cpus(given: Given) -> Outcome:
    context, rule = inputs.container(given), inputs.cpuset_rule(given.get("rule"))
    return _container(
        given, lambda: cpuset.container_cpus(context, rule, given.quirks, batch_pools=bool(given.get("be_cpu_manager")))
    )


def _quota(given: Given) -> Outcome:
    context, keep = inputs.container(given), bool(given.get("disable_unset_cpu_quota"))
    return _container(given, lambda: cpuset.container_quota(context, keep_quota=keep))


def _pod_quota(given: Given) -> Outcome:
    tree, context, keep = Tree(given), inputs.pod(given.get("pod")), bool(given.get("disable_unset_cpu_quota"))
    changes, error = decided(lambda: cpuset.pod_quota(context, keep_quota=keep))
    tree.write(writes.pod_writes(context.cgroup_parent, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


def _helper(given: Given) -> Outcome:
    if given.get("container", ...) is None:
        return {"cpuset": None, "error": False}
    return _cpus(given)


def _program(given: Given) -> Outcome:
    tree, application = Tree(given), given.get("host_application")
    if application is None:
        return {"cpuset": None, "error": False, "files": tree.files}
    context = context_of(application)
    rule = inputs.cpuset_rule(given.get("rule"))
    changes, _ = decided(lambda: cpuset.host_application(context, rule))
    tree.write(writes.writes(context.cgroup_parent, changes))
    return {"cpuset": tree.read(context.cgroup_parent, "cpuset.cpus"), "error": False, "files": tree.files}


def _program_helper(given: Given) -> Outcome:
    context = context_of(inputs.mapping(given.get("host_application")))
    rule = inputs.cpuset_rule(given.get("rule"))
    changes, error = decided(lambda: cpuset.host_application(context, rule))
    return {"cpuset": changes.knobs.get("cpuset.cpus"), "error": error}


def _parse(given: Given) -> Outcome:
    kept = LastGood(inputs.cpuset_rule(given.get("rule")))
    updated = kept.take(lambda: node_topology.parse(given.get("node_topology"), given.quirks))
    return {"updated": updated, "error": bool(kept.error), "rule": _shown(kept.rule)}


def _shown(rule: CpusetRule | None) -> Outcome | None:
    if rule is None:
        return None
    shared, batch = (
        [{"socket": each.socket, "node": each.node, "cpuset": each.cpus} for each in pools]
        for pools in (rule.share_pools, rule.batch_pools)
    )
    policy = {"policy": rule.kubelet_policy} if rule.kubelet_policy else None
    found = {"share_pools": shared, "be_share_pools": batch, "kubelet_cpu_manager": policy}
    return {**found, "system_qos_cpuset": rule.system_cpus}


def _apply(given: Given) -> Outcome:
    tree, pods = Tree(given), inputs.running(given.get("pods"))
    # The cases list pods without their folders; they are where the kubelet puts them.
    placed = [_placed(pod.pod, pod.sandbox_id, pod.folder) for pod in pods]
    rule = inputs.cpuset_rule(given.get("rule"))
    tree.write(refresh.cpus(placed, rule, given.quirks, batch_pools=bool(given.get("be_cpu_manager"))).writes)
    by_container = {
        name: tree.read(pod.container(name).cgroup_parent, "cpuset.cpus")
        for pod in placed
        for name in manifest.containers_of(pod.pod)
    }
    by_sandbox = {pod.context().uid: tree.read(pod.sandbox().cgroup_parent, "cpuset.cpus") for pod in placed}
    return {"error": False, "files": tree.files, "cpuset_by_container": by_container, "cpuset_by_sandbox": by_sandbox}


def _placed(pod: Any, sandbox: str, folder: str) -> RunningPod:
    return RunningPod(pod, folder or pod_folder(pod), sandbox)


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "cpuset/PreCreateContainer": _both,
    "cpuset/PreUpdateContainerResources": _both,
    "cpuset/PreCreateContainer.cpuset": _cpus,
    "cpuset/PreCreateContainer.quota": _quota,
    "cpuset/PreRunPodSandbox": _pod_quota,
    "cpuset/PreRunPodSandbox.quota": _pod_quota,
    "cpuset/reconcile.pod": _pod_quota,
    "cpuset/reconcile.sandbox": _cpus,
    "cpuset/reconcile.container": _both,
    "cpuset/helper.container_cpuset": _helper,
    "cpuset/helper.hostapp_cpuset": _program_helper,
    "cpuset/helper.host_app_cpuset": _program_helper,
    "cpuset/rule.apply": _apply,
    "cpuset/rule.apply.hostapp": _program,
    "cpuset/rule.parse": _parse,
}
