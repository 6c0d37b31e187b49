"""Stages of OOMScoreAdj. Next: `tests.hook_cases.conversions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri import host
from nri.agent.hooks import MEND_CONTAINER
from nri.agent.koordinator import oom_score_adj
from nri.agent.model import HookError, writes
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.hook_cases.machine import Machine, decided
from tests.hook_cases.tree import Tree, is_container_path

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def _scores(given: Input) -> dict[int, int]:
    return {int(pid): score for pid, score in inputs.mapping(given.get("oom_score_adj")).items()}


def _broken(given: Input) -> set[int]:
    return {int(pid) for pid in given.get("pids_with_error") or ()}


def _machine(given: Given) -> Machine:
    machine = Machine(given, oom_score_adj.NAME)
    machine.processes(_scores(given), _broken(given))
    return machine


def _after(machine: Machine, given: Input) -> dict[str, int]:
    scores = {str(pid): score for pid, score in _scores(given).items()}
    return {**scores, **machine.scores(pid for pid in _scores(given) if pid not in _broken(given))}


def _container(given: Given) -> Outcome:
    """What the hook decides for a container that runs, written by the executor."""
    context = inputs.container(given)
    folder = context.folder or _only_folder(given)
    with _machine(given) as machine:
        if not is_container_path(folder):
            return {"error": True, "oom_score_adj": _after(machine, given)}
        if context.pod.uid and context.id:
            changes, _ = decided(given, oom_score_adj.NAME, MEND_CONTAINER, context)
            machine.executor.write(writes(folder, changes))
        return {"error": False, "oom_score_adj": _after(machine, given)}


def _only_folder(given: Input) -> str:
    """The folder that the case's files are of, where it does not name it."""
    folders = Tree({**given, "cgroup_v2": True}).folders("cgroup.procs")
    return min(folders, key=len) if folders else "cri-containerd-yyyyyy.scope"


def _wanted(given: Given) -> Outcome:
    annotations = inputs.mapping(given.get("annotations"))
    try:
        found = oom_score_adj.requested_score(annotations, given.get("container_name") or "")
    except HookError:
        return {"oom_score_adj": None, "error": True}
    return {"oom_score_adj": found, "error": False}


def _write(given: Given) -> Outcome:
    """The original writes the processes that it has read; the executor writes those of a folder."""
    pids, target = given.get("pids") or (), given.get("target") or 0
    files = {"/cpu/all/cgroup.procs": "".join(f"{pid}\n" for pid in pids)}
    with _machine(Given({**given, "files": files}, given.quirks)) as machine:
        results = machine.executor.oom_score("all", target)
        updated = sum(result.outcome is host.Outcome.APPLIED for result in results)
        skipped = sum(not result.in_force for result in results)
        return {"updated": updated, "skipped": skipped, "oom_score_adj": _after(machine, given)}


def _apply(given: Given) -> Outcome:
    by_folder = inputs.mapping(given.get("cgroup_procs_by_dir"))
    files = {f"/cpu/{folder}/cgroup.procs": "".join(f"{pid}\n" for pid in pids) for folder, pids in by_folder.items()}
    with _machine(Given({**given, "files": {**inputs.mapping(given.get("files")), **files}}, given.quirks)) as machine:
        machine.list_pods(given.get("pods"))
        machine.round()
        return {"error": False, "oom_score_adj": _after(machine, given)}


def _trigger(given: Given) -> Outcome:
    trigger = bool(given.get("update_is_pods_trigger"))
    return {"updated": trigger and not given.get("synced_before"), "error": not trigger}


STAGES: dict[str, Callable[[Given], Outcome]] = {
    "oomscoreadj/reconcile.container": _container,
    "oomscoreadj/rule.apply": _apply,
    **{f"{hook}/rule.parse.pods": _trigger for hook in ("oomscoreadj", "resctrl", "tc", "terwayqos")},
    "oomscoreadj/helper.value_for_container": _wanted,
    "oomscoreadj/helper.write_pids": _write,
}
