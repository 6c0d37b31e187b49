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


def _container(case: Input, changes: Changes, error: bool) -> Outcome:
    tree, context = Tree(case), inputs.container(case)
    tree.write(writes(context.folder, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


def _node(case: Input) -> dict[str, Any]:
    """The attributes of the node's rules that the hook reads."""
    return {
        "cpus": inputs.cpuset_rule(case.get("rule")),
        "batch_pools": bool(case.get("be_cpu_manager")),
        "keep_quota": bool(case.get("disable_unset_cpu_quota")),
    }


def _both(case: Given) -> Outcome:
    return _container(case, *decided(case, cpuset.NAME, CREATE, inputs.container(case), **_node(case)))


def _half(*knobs: str) -> Callable[[Given], Outcome]:
    """The original decides CPUs and quota in two steps; here they are one decision."""

    def run(case: Given) -> Outcome:
        changes, error = decided(case, cpuset.NAME, CREATE, inputs.container(case), **_node(case))
        return _container(case, changes.only(knobs), error)

    return run


_cpus, _quota = _half("cpuset.cpus"), _half("cpu.cfs_quota")


def _pod_quota(case: Given) -> Outcome:
    tree, context = Tree(case), inputs.pod(case.get("pod"))
    changes, error = decided(case, cpuset.NAME, RUN_POD, context, **_node(case))
    tree.write(pod_writes(context.folder, changes))
    return {**inputs.shown(changes), "error": error, "files": tree.files}


def _helper(case: Given) -> Outcome:
    if case.get("container", ...) is None:
        return {"cpuset": None, "error": False}
    return _cpus(case)


def _program(case: Given) -> Outcome:
    tree, application = Tree(case), case.get("host_application")
    if application is None:
        return {"cpuset": None, "error": False, "files": tree.files}
    context = context_of(application)
    changes, _ = decided(case, cpuset.NAME, PROGRAM, context, **_node(case))
    tree.write(writes(context.folder, changes))
    return {"cpuset": tree.read(context.folder, "cpuset.cpus"), "error": False, "files": tree.files}


def _program_helper(case: Given) -> Outcome:
    context = context_of(inputs.mapping(case.get("host_application")))
    changes, error = decided(case, cpuset.NAME, PROGRAM, context, **_node(case))
    return {"cpuset": changes.knobs.get("cpuset.cpus"), "error": error}


def _parse(case: Given) -> Outcome:
    last_good = LastGood(inputs.cpuset_rule(case.get("rule")))
    updated = last_good.take(lambda: cpuset.rule_of(case.get("node_topology"), case.quirks))
    return {"updated": updated, "error": bool(last_good.error), "rule": _shown(last_good.rule)}


def _shown(rule: CpusetRule | None) -> Outcome | None:
    if rule is None:
        return None
    shared, batch = (
        [{"socket": pool.socket, "node": pool.node, "cpuset": pool.cpus} for pool in pools]
        for pools in (rule.share_pools, rule.batch_pools)
    )
    policy = {"policy": rule.kubelet_policy} if rule.kubelet_policy else None
    actual = {"share_pools": shared, "be_share_pools": batch, "kubelet_cpu_manager": policy}
    return {**actual, "system_qos_cpuset": rule.system_cpus}


def _apply(case: Given) -> Outcome:
    """A round over all pods, whose folders are where the kubelet puts them."""
    listed = [{**entry, "sandboxID": ""} for entry in case.get("pods") or ()]
    with Machine(case, cpuset.NAME, **_node(case)) as machine:
        machine.list_pods(listed)
        machine.round()
        by_container, by_sandbox = {}, {}
        for entry in case.get("pods") or ():
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
