"""Stages of CPUSetAllocator. Next: `tests.hook_cases.devices`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.agent.hooks import CREATE, PROGRAM, RUN_POD
from nri.agent.koordinator import cpuset
from nri.agent.koordinator.host_application import context_of
from nri.agent.koordinator.node import CpusetRule
from nri.agent.last_good import LastGood
from nri.agent.model import Changes, pod_writes, writes
from nri.agent.pods.manifest import listed_pod
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import Machine, decided
from tests.hook_cases.tree import Tree
from tests.support.pod_folders import pod_folder

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def _container(given: Input, changes: Changes, error: bool) -> Outcome:
    tree, context = Tree(given), inputs.container(given)
    tree.write(writes(context.folder, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


def _node(given: Input) -> dict[str, Any]:
    """The attributes of the node's rules that the hook reads."""
    return {
        "cpus": inputs.cpuset_rule(given.get("rule")),
        "batch_pools": bool(given.get("be_cpu_manager")),
        "keep_quota": bool(given.get("disable_unset_cpu_quota")),
    }


def _both(given: Given) -> Outcome:
    return _container(given, *decided(given, cpuset.NAME, CREATE, inputs.container(given), **_node(given)))


def _half(*knobs: str) -> Callable[[Given], Outcome]:
    """The original decides CPUs and quota in two steps; here they are one decision."""

    def run(given: Given) -> Outcome:
        changes, error = decided(given, cpuset.NAME, CREATE, inputs.container(given), **_node(given))
        return _container(given, changes.only(knobs), error)

    return run


_cpus, _quota = _half("cpuset.cpus"), _half("cpu.cfs_quota")


def _pod_quota(given: Given) -> Outcome:
    tree, context = Tree(given), inputs.pod(given.get("pod"))
    changes, error = decided(given, cpuset.NAME, RUN_POD, context, **_node(given))
    tree.write(pod_writes(context.folder, changes))
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
    changes, _ = decided(given, cpuset.NAME, PROGRAM, context, **_node(given))
    tree.write(writes(context.folder, changes))
    return {"cpuset": tree.read(context.folder, "cpuset.cpus"), "error": False, "files": tree.files}


def _program_helper(given: Given) -> Outcome:
    context = context_of(inputs.mapping(given.get("host_application")))
    changes, error = decided(given, cpuset.NAME, PROGRAM, context, **_node(given))
    return {"cpuset": changes.knobs.get("cpuset.cpus"), "error": error}


def _parse(given: Given) -> Outcome:
    kept = LastGood(inputs.cpuset_rule(given.get("rule")))
    updated = kept.take(lambda: cpuset.rule_of(given.get("node_topology"), given.quirks))
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
    """A round over all pods, whose folders are where the kubelet puts them."""
    listed = [{**entry, "sandboxID": ""} for entry in given.get("pods") or ()]
    with Machine(given, cpuset.NAME, **_node(given)) as machine:
        machine.list_pods(listed)
        machine.round()
        by_container, by_sandbox = {}, {}
        for entry in given.get("pods") or ():
            manifest_ = inputs.mapping(entry.get("pod"))
            folder = (entry.get("cgroup_parent") or pod_folder(manifest_)).strip("/")
            pod = listed_pod(manifest_, folder, entry.get("sandboxID") or "")
            for container in (*pod.main_containers, *pod.init_containers):
                if container.resources is not None:
                    by_container[container.name] = machine.read(f"/cpuset/{container.folder}/cpuset.cpus")
            by_sandbox[pod.uid] = machine.read(f"/cpuset/{pod.sandbox.folder}/cpuset.cpus")
        files = machine.files()
    return {"error": False, "files": files, "cpuset_by_container": by_container, "cpuset_by_sandbox": by_sandbox}


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
