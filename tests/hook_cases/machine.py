"""A machine of files as a recorded case describes it, with the agent's standalone mode on it.

The hooks that decide are rows of the profile, and what is written is written by the agent's executor. This module
prepares files, processes, pods and rules.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nri.agent import cgroup_paths as paths
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.hooks import decide
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import HOOKS, PROFILE
from nri.agent.model import Changes
from nri.agent.observer import Observer
from nri.agent.parts import Parts
from nri.agent.pods.source import PodList
from nri.agent.rules.store import RuleStore
from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone import Standalone
from nri.host import CoreScheduler
from tests.hook_cases import inputs
from tests.hook_cases.inputs import Given
from tests.support.host_trees import write_files
from tests.support.recorded_files import KernelRoot, RecordedTree

__all__ = ["Machine", "Prctl", "decided"]

Json = dict[str, Any]


def decided(case: Given, hook: str, stage: str, context: Any, **rules: Any) -> tuple[Changes, bool]:
    """Return what a hook's row decides at a stage, and whether it failed.

    Args:
        given: the input of a case.
        hook: the name of the hook.
        stage: one of `nri.agent.hooks.STAGES`.
        context: what is decided for.
        rules: the attributes of the node's rules that count.
    """
    node = Node(gates=frozenset({hook}), **{"quirks": case.quirks, **rules})
    # The cases have what a hook had decided until it failed, also where that is not applied.
    node = replace(node, quirks=replace(node.quirks, failed_hook_changes_nothing=False))
    outcome = decide(HOOKS, stage, context, node)
    return outcome.changes, bool(outcome.errors)


class Prctl:
    """The cookies of processes: the system call of a kernel that has core scheduling."""

    def __init__(self, case: Json) -> None:
        threads = inputs.mapping(case.get("threads"))
        self.cookies = {int(pid): int(cookie) for pid, cookie in inputs.mapping(threads.get("cookies")).items()}
        self._broken = {int(pid) for pid in threads.get("pids_with_error") or ()}
        leaders = inputs.mapping(threads.get("tgid") or threads.get("pgid"))
        self._leaders = {int(pid): leader for pid, leader in leaders.items()}
        self._next = case.get("next_cookie_id") or threads.get("next_cookie") or 1
        self._own = 0

    def __call__(self, command: int, pid: int, scope: int) -> int:
        get, create, share_to, share_from = range(4)
        if pid in self._broken:
            raise OSError(errno.ESRCH, "no such process")
        if command == get:
            return self._own if pid == 0 else self.cookies.get(pid, 0)
        if command == share_from:
            self._own = self.cookies.get(pid, 0)
            return 0
        cookie = self._own
        if command == create:
            cookie, self._next = self._next, self._next + 1
        assert command in (create, share_to)
        for entry in (pid, *(one for one, leader in self._leaders.items() if scope and leader == pid)):
            self.cookies[entry] = cookie
        return 0


class _Pods(PodList):
    """Pods that are listed by hand."""

    def start(self) -> None:
        """Nothing to connect to."""

    def stop(self) -> None:
        """Nothing to end."""


class Machine:
    """A machine, and standalone mode with one hook on it.

    Args:
        given: the input of a case.
        hook: the hook that is on.
        rules: the attributes of the node's rules.
    """

    def __init__(self, case: Given, hook: str, **rules: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path, self._given = Path(self._folder.name), case
        self._tree = RecordedTree(v2=bool(case.get("cgroup_v2")))
        recorded = dict(inputs.mapping(case.get("files")))
        # Some cases have the processes of both versions.
        other = "/cpu/" if self._tree.v2 else "/kubepods"
        recorded = {name: text for name, text in recorded.items() if not name.startswith(other)}
        self._recorded = recorded
        write_files(self.path, {"proc/1/mountinfo": "", **self._tree.files(recorded)})
        self.root, self.prctl = KernelRoot(self.path), Prctl(case)
        self.pods, observer, history = _Pods(), Observer(), History()
        store = RuleStore(Node(gates=frozenset({hook}), **{"quirks": case.quirks, **rules}), PROFILE.kinds)
        self.executor = Executor(self.root, refresh_s=0, scheduler=CoreScheduler(self.prctl))
        self.parts = Parts(
            PROFILE,
            self.root,
            store,
            self.pods,
            Decisions(PROFILE, store, self.executor, history, observer),
            self.executor,
            history,
            observer,
            chosen_driver=paths.SYSTEMD,
        )
        self.store = store
        self.standalone = Standalone(AgentSettings(), self.parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def processes(self, scores: Mapping[int, int], broken: Iterable[int] = ()) -> None:
        """Make processes with their OOM scores; those of `broken` have none that can be read."""
        for pid, score in scores.items():
            stat = f"{pid} (sleep) S 1 {pid} {pid} 0 -1" + " 0" * 13 + f" {pid * 10} 0 0\n"
            write_files(self.path, {f"proc/{pid}/stat": stat})
            if pid not in broken:
                write_files(self.path, {f"proc/{pid}/oom_score_adj": f"{score}\n"})

    def scores(self, pids: Iterable[int]) -> dict[str, int]:
        """Return the OOM scores of processes."""
        return {str(pid): int((self.path / f"proc/{pid}/oom_score_adj").read_text()) for pid in pids}

    def list_pods(self, listed: Any) -> list[str]:
        """List the pods of a case as their source would; return their uids.

        The cases leave out what no pod of a node lacks: a uid, and that it runs.
        """
        entries = list(listed.values()) if isinstance(listed, dict) else list(listed or ())
        pods = []
        for number, entry in enumerate(entries):
            pod = dict(inputs.mapping(entry.get("pod")))
            meta = {"namespace": "default", **inputs.mapping(pod.get("metadata"))}
            meta.setdefault("uid", f"uid-{number}")
            status = dict(inputs.mapping(pod.get("status")))
            status.setdefault("phase", "Running")
            pods.append({**pod, "metadata": meta, "status": status})
            if folder := entry.get("cgroup_parent"):
                pods[-1]["cgroupParent"] = folder
        self.pods.replace(pods)
        return [pod["metadata"]["uid"] for pod in pods]

    def round(self, *kinds: str) -> bool:
        """Have a round; return whether something could not be decided."""
        self.standalone.round(frozenset({"timer", *kinds}))
        return bool(self.standalone.last.errors)

    def read(self, name: str) -> str | None:
        """Return the text of a case's file, None if there is no such file."""
        path = self.path / self._tree.place(name)
        return path.read_text().strip("\n") if path.exists() else None

    def files(self) -> Json:
        """Return the files of the case as they are now."""
        return {name: self.read(name) for name in self._recorded}
