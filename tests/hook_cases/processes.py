"""Stages of OOMScoreAdj. Next: `tests.hook_cases.conversions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nri.policies import manifest
from nri.policies.changes import HookError
from nri.policies.contexts import ContainerContext
from nri.policies.koordinator.hooks import oom_score_adj
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.hook_cases.tree import Tree, is_container_path

__all__ = ["STAGES"]

Input = dict[str, Any]
Outcome = dict[str, Any]


def _scores(given: Input) -> dict[int, int]:
    return {int(pid): score for pid, score in inputs.mapping(given.get("oom_score_adj")).items()}


def _broken(given: Input) -> set[int]:
    return {int(pid) for pid in given.get("pids_with_error") or ()}


def _apply_to(scores: dict[int, int], broken: set[int], pids: Iterable[int], target: int) -> oom_score_adj.Needed:
    needed = oom_score_adj.needed({pid: None if pid in broken else scores.get(pid, 0) for pid in pids}, target)
    scores.update(dict.fromkeys(needed.pids, target))
    return needed


def _container(given: Given) -> Outcome:
    scores = _scores(given)
    context = inputs.container(given)
    if not is_container_path(context.cgroup_parent or _only_folder(given)):
        return {"error": True, "oom_score_adj": _texts(scores)}
    _reconcile(given, context, scores, context.cgroup_parent or _only_folder(given))
    return {"error": False, "oom_score_adj": _texts(scores)}


def _only_folder(given: Input) -> str:
    """The folder that the case's files are of, where it does not name it."""
    folders = Tree({**given, "cgroup_v2": True}).folders("cgroup.procs")
    return min(folders, key=len) if folders else "cri-containerd-yyyyyy.scope"


def _reconcile(given: Input, context: ContainerContext, scores: dict[int, int], folder: str) -> None:
    """Reconcile one container. What the original only logs, it logs here too: nothing changes."""
    if not context.pod.uid or not context.id:
        return
    try:
        target = oom_score_adj.container(context).changes.knobs.get("oom_score_adj")
        pids = Tree(given).processes(folder)
    except (HookError, ValueError):
        return
    if target is not None:
        _apply_to(scores, _broken(given), pids, target)


def _texts(scores: dict[int, int]) -> dict[str, int]:
    return {str(pid): score for pid, score in scores.items()}


def _wanted(given: Given) -> Outcome:
    annotations = inputs.mapping(given.get("annotations"))
    try:
        found = oom_score_adj.wanted(annotations, given.get("container_name") or "")
    except HookError:
        return {"oom_score_adj": None, "error": True}
    return {"oom_score_adj": found, "error": False}


def _write(given: Given) -> Outcome:
    scores = _scores(given)
    needed = _apply_to(scores, _broken(given), given.get("pids") or (), given.get("target") or 0)
    return {"updated": len(needed.pids), "skipped": needed.unreadable, "oom_score_adj": _texts(scores)}


def _apply(given: Given) -> Outcome:
    scores, by_folder = _scores(given), inputs.mapping(given.get("cgroup_procs_by_dir"))
    for pod in inputs.running(given.get("pods")):
        if not manifest.active(pod.pod):
            continue
        for name in manifest.containers_of(pod.pod):
            context = pod.container(name)
            lines = "".join(f"{pid}\n" for pid in by_folder.get(context.cgroup_parent) or ())
            path = Tree(given).path(context.cgroup_parent, "cgroup.procs")
            files = {**inputs.mapping(given.get("files")), **({path: lines} if lines else {})}
            _reconcile({**given, "files": files}, context, scores, context.cgroup_parent)
    return {"error": False, "oom_score_adj": _texts(scores)}


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
