"""Stages of CoreSched. Next: `tests.hook_cases.cookies`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.agent import cgroup_paths as paths
from nri.agent.hooks import FOLDER
from nri.agent.koordinator import core_sched
from nri.agent.koordinator.node import CoreSchedRule
from nri.agent.koordinator.profile import PROFILE
from nri.agent.koordinator.reconcile import CORE_SCHED, Reconcile
from nri.agent.last_good import LastGood
from nri.agent.model import KubeQosFolder, Pod
from nri.agent.pods.manifest import listed_pod
from nri.agent.pods.running import running
from nri.agent.profile import load
from nri.agent.transports.standalone.tally import Tally
from nri.agent.writing.cookie_groups import HeldCookie
from nri.host import set_features, set_switch
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import Machine, decided
from tests.hook_cases.tree import Tree, is_container_path

__all__ = ["STAGES", "switched_on"]

Input = dict[str, Any]
Outcome = dict[str, Any]
_IDENTITY_SYSCTL = "/proc/sys/kernel/sched_group_identity_enabled"


class _Cookies:
    """Cookies of a case's processes, held by the agent."""

    def __init__(self, case: Given) -> None:
        self.machine = Machine(case, core_sched.NAME, core=_rule(case))
        self.reconciler: Reconcile = load(PROFILE.reconciler)(self.machine.parts)
        self._groups = self.machine.executor.cookies.groups
        for group, entry in inputs.mapping(case.get("cookie_cache")).items():
            self._groups.entries[group] = HeldCookie(entry.get("cookie") or 0, entry.get("pids") or ())
        self._groups.members.update(inputs.mapping(case.get("group_cache")))
        self._first = list(self._groups.entries.values())

    def outcome(self) -> Outcome:
        groups = self._groups.entries
        entries = [*self._first, *groups.values()]
        return {
            "cookie_to_pids": {str(entry.cookie): sorted(entry.pids) for entry in entries},
            "group_to_cookie": {group: entry.cookie for group, entry in groups.items()},
            "files": self.machine.files(),
        }

    def running(self) -> list[Pod]:
        hierarchies = self.machine.executor.hierarchies
        return list(running(self.machine.pods.pods(), hierarchies, paths.SYSTEMD))


def _rule(case: Input) -> CoreSchedRule:
    return inputs.core_rule(case.get("rule"))


def _container(case: Given) -> Outcome:
    """A container that runs is reconciled, after the switches of the scheduler."""
    context, cookies = inputs.container(case), _Cookies(case)
    with cookies.machine:
        is_container = is_container_path(context.folder)
        if is_container and context.pod.uid and context.id:
            labels = {"labels": dict(context.pod.labels), "uid": context.pod.uid}
            kube = {"qosClass": paths.kube_class_of(context.folder)}
            pod = listed_pod({"metadata": labels, "status": kube}, context.pod.folder)
            cookies.reconciler.node(Tally())
            cookies.reconciler.container(pod, context)
        return {"error": not is_container, **cookies.outcome()}


def _folder(case: Given) -> Outcome:
    context = KubeQosFolder(case.get("kube_qos") or "", case.get("cgroup_parent") or "")
    changes, _ = decided(case, core_sched.NAME, FOLDER, context, core=_rule(case))
    return {**inputs.shown(changes), "error": False}


def _parse(case: Given) -> Outcome:
    last_good = LastGood(inputs.core_rule(case.get("rule")))
    updated = last_good.take(lambda: core_sched.rule_of(case.get("node_slo")))
    return {"updated": updated, "error": bool(last_good.error), "rule": _shown(last_good.rule)}


def _shown(rule: CoreSchedRule) -> Outcome:
    pods, kube_pods = (
        {
            name: {"enabled": qos_class.enabled, "expeller": qos_class.expeller, "cpu_idle": qos_class.cpu_idle}
            for name, qos_class in classes.items()
        }
        for classes in (rule.pods, rule.kube_pods)
    )
    return {"enabled": rule.enabled, "pod_qos": pods, "kube_qos_pod": kube_pods}


def _pods_trigger(case: Given) -> Outcome:
    trigger = bool(case.get("update_is_pods_trigger"))
    return {"updated": trigger and not case.get("synced_before"), "error": not trigger}


def _member(case: Given) -> Outcome:
    actual = core_sched.membership(
        inputs.mapping(case.get("labels")),
        case.get("kube_qos") or "",
        case.get("uid") or "",
        inputs.core_rule(case.get("rule")),
        case.quirks,
    )
    return {"enabled": actual.enabled, "group": actual.group}


def _load_cookies(case: Given) -> Outcome:
    """What a start learns of the cookies that containers have already."""
    cookies = _Cookies(case)
    with cookies.machine as machine:
        machine.list_pods(case.get("pods"))
        pods = cookies.running()
        cookies.reconciler.begin(pods)
        contexts = [context for pod in pods for context in (pod.sandbox, *pod.main_containers) if context is not None]
        has_processes = any(machine.executor.processes(context.folder) for context in contexts)
        return {"synced": has_processes, **cookies.outcome()}


def _apply(case: Given) -> Outcome:
    cookies, target = _Cookies(case), case.get("target")
    with cookies.machine as machine:
        listed = case.get("pods") if target is None else target.get("pods")
        machine.list_pods(listed)
        if listed is not None:
            machine.round("NodeSLO")
        folders = Tree(case).folders("cpu.idle")
        return {
            "error": target is None and case.get("pods") is None,
            "rule": _shown(_rule(case)),
            "cpu_idle_by_dir": {folder: int(machine.read(f"/cpu/{folder}/cpu.idle") or 0) for folder in folders},
            **cookies.outcome(),
        }


def _switch(case: Given) -> Outcome:
    """The switches of the scheduler, as a round sets them where core scheduling is on."""
    rule = CoreSchedRule(enabled=bool(case.get("enable")))
    with Machine(case, core_sched.NAME, core=rule) as machine:
        before = machine.read(_IDENTITY_SYSCTL)
        machine.round()
        return {"error": False, "group_identity_sysctl_supported": before is not None, "files": machine.files()}


def switched_on(case: Given) -> Outcome:
    """Whether core scheduling can be switched on by a sysctl or by a feature of the scheduler."""
    with Machine(case, core_sched.NAME) as machine:
        results = [set_switch(machine.root, CORE_SCHED, 1), *set_features(machine.root, {"CORE_SCHED": True})]
    return {"supported": any(result.in_force for result in results)}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "coresched/reconcile.container": _container,
    "coresched/reconcile.sandbox": _container,
    "coresched/reconcile.kubeqos": _folder,
    "coresched/rule.parse": _parse,
    "coresched/rule.parse.pods": _pods_trigger,
    "coresched/rule.apply": _apply,
    "coresched/setup.load_cookies": _load_cookies,
    "coresched/setup.sysctl": _switch,
    "coresched/probe": switched_on,
    "coresched/helper.pod_enabled": _member,
}
