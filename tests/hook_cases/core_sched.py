"""Stages of CoreSched. Next: `tests.hook_cases.cookies`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nri.host.cgroups.drivers import Driver, container_name
from nri.policies import manifest, paths, writes
from nri.policies.contexts import ContainerContext, KubeQosContext
from nri.policies.cookie_groups import CookieGroups, HeldCookie
from nri.policies.koordinator.hooks import core_sched
from nri.policies.koordinator.names import SYSTEM
from nri.policies.koordinator.rules import node_slo
from nri.policies.koordinator.rules.node_slo import CoreSchedRule
from nri.policies.last_good import LastGood
from nri.policies.paths import KUBE_CLASSES
from nri.policies.running import RunningPod
from tests.hook_cases import inputs, switches
from tests.hook_cases.cookies import Threads
from tests.hook_cases.inputs import Given
from tests.hook_cases.refresh import reconciled_class
from tests.hook_cases.tree import SCHED_FEATURES, Tree, container_id_of, is_container_path
from tests.support.pod_folders import pod_folder

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


class _Node:
    """Core scheduling on the node of a case."""

    def __init__(self, given: Given) -> None:
        self.given, self.tree = given, Tree(given)
        self.rule = inputs.core_rule(given.get("rule"))
        self.quirks = given.quirks
        self.groups = CookieGroups(Threads(given))
        for group, entry in inputs.mapping(given.get("cookie_cache")).items():
            self.groups.entries[group] = HeldCookie(entry.get("cookie") or 0, entry.get("pids") or ())
        self.groups.members.update(inputs.mapping(given.get("group_cache")))
        self.first = list(self.groups.entries.values())

    def supported(self) -> bool:
        told = self.given.get("system_supported")
        return bool(self._probe()[0] if told is None else told)

    def _probe(self) -> tuple[bool, str]:
        if self.given.get("not_anolis"):
            return False, "not unsupported by prctl"
        if self.tree.sysctl(switches.CORE_SCHED) is not None:
            return True, "sysctl supported"
        features = self.tree.files.get(SCHED_FEATURES)
        if features is None:
            return False, "file not exist"
        if switches.core_sched(None, features).possible:
            return True, "sched_features supported"
        return False, "not supported neither by sysctl nor by sched_features"

    def switched_on(self) -> str:
        """Switch core scheduling on; return why that could not be done."""
        identity = self.tree.sysctl(switches.GROUP_IDENTITY)
        known = self.given.get("group_identity_sysctl_supported")
        plan = switches.for_core_sched(
            identity,
            self.tree.sysctl(switches.CORE_SCHED),
            self.tree.files.get(SCHED_FEATURES),
            identity_known=identity is not None if known is None else known,
        )
        for name, value in plan.writes:
            if name == switches.FEATURES:
                self.tree.files[SCHED_FEATURES] = value
            else:
                self.tree.set_sysctl(name, value)
        return plan.error

    def container(self, context: ContainerContext) -> bool:
        """Reconcile a container; False if it is none."""
        if not is_container_path(context.cgroup_parent):
            return False
        if not context.pod.uid or not context.id or not self.supported() or not self.rule.known:
            return True
        kube = paths.kube_class_of(context.cgroup_parent)
        enabled, group = core_sched.membership(context.pod.labels, kube, context.pod.uid, self.rule, self.quirks)
        if enabled and self.switched_on():
            return True
        try:
            pids = self.tree.processes(context.cgroup_parent)
        except ValueError:
            return True
        key = f"{context.pod.uid}/{context.id}"
        if enabled:
            self.groups.enable(group, key, pids, forget_moved=self.quirks.moved_processes_forgotten)
        else:
            self.groups.disable(key, pids)
        return True

    def outcome(self) -> Outcome:
        groups = self.groups.entries
        entries = [*self.first, *groups.values()]
        return {
            "cookie_to_pids": {str(entry.cookie): sorted(entry.pids) for entry in entries},
            "group_to_cookie": {group: entry.cookie for group, entry in groups.items()},
            "files": self.tree.files,
        }


def _container(given: Given) -> Outcome:
    node = _Node(given)
    done = node.container(inputs.container(given))
    return {"error": not done, **node.outcome()}


def _folder(given: Given) -> Outcome:
    context = KubeQosContext(given.get("kube_qos") or "", given.get("cgroup_parent") or "")
    changes = core_sched.kube_class(context, inputs.core_rule(given.get("rule"))).changes
    return {**inputs.shown(changes), "error": False}


def _parse(given: Given) -> Outcome:
    kept = LastGood(inputs.core_rule(given.get("rule")))
    updated = kept.take(lambda: node_slo.core_sched(given.get("node_slo")))
    return {"updated": updated, "error": bool(kept.error), "rule": _shown(kept.rule)}


def _shown(rule: CoreSchedRule) -> Outcome:
    pods, kube_pods = (
        {
            name: {"enabled": each.enabled, "expeller": each.expeller, "cpu_idle": each.cpu_idle}
            for name, each in classes.items()
        }
        for classes in (rule.pods, rule.kube_pods)
    )
    return {"enabled": rule.enabled, "pod_qos": pods, "kube_qos_pod": kube_pods}


def _pods_trigger(given: Given) -> Outcome:
    trigger = bool(given.get("update_is_pods_trigger"))
    return {"updated": trigger and not given.get("synced_before"), "error": not trigger}


def _member(given: Given) -> Outcome:
    found = core_sched.membership(
        inputs.mapping(given.get("labels")),
        given.get("kube_qos") or "",
        given.get("uid") or "",
        inputs.core_rule(given.get("rule")),
        given.quirks,
    )
    return {"enabled": found.enabled, "group": found.group}


def _load(node: _Node, pods: Sequence[RunningPod]) -> bool:
    """Learn the cookies of pods that run; return whether any container has processes."""
    synced = False
    for pod in pods:
        if not manifest.active(pod.pod):
            continue
        context = pod.context()
        kube = manifest.kube_class(pod.pod)
        group = core_sched.membership(context.labels, kube, context.uid, node.rule, node.quirks).group
        for container in (_sandbox(node, pod), *_started(pod)):
            if container is not None:
                pids = node.tree.processes(container.cgroup_parent)
                synced |= node.groups.load(group, f"{context.uid}/{container.id}", pids)
    return synced


def _started(pod: RunningPod) -> list[ContainerContext]:
    statuses = (pod.pod.get("status") or {}).get("containerStatuses") or ()
    running = {each.get("name", "") for each in statuses if (each.get("state") or {}).get("running") is not None}
    return [each for each in pod.main_containers() if each.name in running]


def _sandbox(node: _Node, pod: RunningPod) -> ContainerContext | None:
    """The pause container: the one folder of the pod that no listed container has."""
    folder = pod_folder(pod.pod)
    listed = {container_name(Driver.SYSTEMD, each.id)[1]: each.id for each in pod.main_containers() if each.id}
    names = node.tree.children(folder)
    if node.tree.v2 and not names:
        names = Tree({**node.given, "cgroup_v2": False}).children(folder)
    others = [name for name in names if name not in listed]
    if len(others) != 1 or not listed:
        return None
    runtime = next(iter(listed.values())).partition("://")[0]
    number = f"{runtime}://{container_id_of(others[0])}"
    return RunningPod(pod.pod, pod.folder, number).sandbox()


def _load_cookies(given: Given) -> Outcome:
    node = _Node(given)
    return {"synced": _load(node, inputs.running(given.get("pods"))), **node.outcome()}


def _apply(given: Given) -> Outcome:
    node, target = _Node(given), given.get("target")
    pods = inputs.running((target or {}).get("pods") if target is not None else given.get("pods"))
    initialized = False
    if node.rule.known and node.supported() and pods and not (node.rule.enabled and node.switched_on()):
        initialized = _load(node, pods)
    if initialized:
        for kube in KUBE_CLASSES:
            context = KubeQosContext(kube, paths.kube_class_path(kube))
            changes = core_sched.kube_class(context, node.rule).changes
            node.tree.write(writes.writes(context.cgroup_parent, changes))
        for pod in pods:
            if reconciled_class(pod.context()) != SYSTEM:
                for container in (_sandbox(node, pod), *pod.main_containers()):
                    if container is not None:
                        node.container(container)
    folders = node.tree.folders("cpu.idle")
    return {
        "error": target is None and given.get("pods") is None,
        "initialized": initialized,
        "system_supported": node.supported(),
        "rule": _shown(node.rule),
        "cpu_idle_by_dir": {folder: node.tree.number(folder, "cpu.idle") for folder in folders},
        **node.outcome(),
    }


def _probe(given: Given) -> Outcome:
    supported, message = _Node(given)._probe()
    return {"supported": supported, "message": message}


def _switch(given: Given) -> Outcome:
    node = _Node(given)
    known = given.get("group_identity_sysctl_supported")
    error = False
    if given.get("enable"):
        known = (node.tree.sysctl(switches.GROUP_IDENTITY) is not None) if known is None else known
        error = bool(node.switched_on())
    return {"error": error, "group_identity_sysctl_supported": known, "files": node.tree.files}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "coresched/reconcile.container": _container,
    "coresched/reconcile.sandbox": _container,
    "coresched/reconcile.kubeqos": _folder,
    "coresched/rule.parse": _parse,
    "coresched/rule.parse.pods": _pods_trigger,
    "coresched/rule.apply": _apply,
    "coresched/setup.load_cookies": _load_cookies,
    "coresched/setup.sysctl": _switch,
    "coresched/probe": _probe,
    "coresched/helper.pod_enabled": _member,
}
