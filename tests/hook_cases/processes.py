"""Stages of OOMScoreAdj. Next: `tests.hook_cases.conversions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri import host
from nri.agent.hooks import RECONCILE_CONTAINER
from nri.agent.koordinator import oom_score_adj
from nri.agent.model import HookError, writes
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import Machine, decided
from tests.hook_cases.tree import Tree, is_container_path

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def _scores(case: Input) -> dict[int, int]:
    return {int(pid): score for pid, score in inputs.mapping(case.get("oom_score_adj")).items()}


def _broken(case: Input) -> set[int]:
    return {int(pid) for pid in case.get("pids_with_error") or ()}


def _machine(case: Given) -> Machine:
    machine = Machine(case, oom_score_adj.NAME)
    machine.processes(_scores(case), _broken(case))
    return machine


def _after(machine: Machine, case: Input) -> dict[str, int]:
    scores = {str(pid): score for pid, score in _scores(case).items()}
    return {**scores, **machine.scores(pid for pid in _scores(case) if pid not in _broken(case))}


def _container(case: Given) -> Outcome:
    """What the hook decides for a container that runs, written by the executor."""
    context = inputs.container(case)
    folder = context.folder or _only_folder(case)
    with _machine(case) as machine:
        if not is_container_path(folder):
            return {"error": True, "oom_score_adj": _after(machine, case)}
        if context.pod.uid and context.id:
            changes, _ = decided(case, oom_score_adj.NAME, RECONCILE_CONTAINER, context)
            machine.executor.write(writes(folder, changes))
        return {"error": False, "oom_score_adj": _after(machine, case)}


def _only_folder(case: Input) -> str:
    """The folder that the case's files are of, where it does not name it."""
    folders = Tree({**case, "cgroup_v2": True}).folders("cgroup.procs")
    return min(folders, key=len) if folders else "cri-containerd-yyyyyy.scope"


def _wanted(case: Given) -> Outcome:
    annotations = inputs.mapping(case.get("annotations"))
    try:
        actual = oom_score_adj.requested_score(annotations, case.get("container_name") or "")
    except HookError:
        return {"oom_score_adj": None, "error": True}
    return {"oom_score_adj": actual, "error": False}


def _write(case: Given) -> Outcome:
    """The original writes the processes that it has read; the executor writes those of a folder."""
    pids, target = case.get("pids") or (), case.get("target") or 0
    files = {"/cpu/all/cgroup.procs": "".join(f"{pid}\n" for pid in pids)}
    with _machine(Given({**case, "files": files}, case.quirks)) as machine:
        results = machine.executor.oom_score("all", target)
        updated = sum(result.outcome is host.Outcome.APPLIED for result in results)
        skipped = sum(not result.in_force for result in results)
        return {"updated": updated, "skipped": skipped, "oom_score_adj": _after(machine, case)}


def _apply(case: Given) -> Outcome:
    by_folder = inputs.mapping(case.get("cgroup_procs_by_dir"))
    files = {f"/cpu/{folder}/cgroup.procs": "".join(f"{pid}\n" for pid in pids) for folder, pids in by_folder.items()}
    with _machine(Given({**case, "files": {**inputs.mapping(case.get("files")), **files}}, case.quirks)) as machine:
        machine.list_pods(case.get("pods"))
        machine.round()
        return {"error": False, "oom_score_adj": _after(machine, case)}


def _trigger(case: Given) -> Outcome:
    trigger = bool(case.get("update_is_pods_trigger"))
    return {"updated": trigger and not case.get("synced_before"), "error": not trigger}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "oomscoreadj/reconcile.container": _container,
    "oomscoreadj/rule.apply": _apply,
    **{f"{hook}/rule.parse.pods": _trigger for hook in ("oomscoreadj", "resctrl", "tc", "terwayqos")},
    "oomscoreadj/helper.value_for_container": _wanted,
    "oomscoreadj/helper.write_pids": _write,
}
