"""Parts of an agent on a machine made of files, with a clock that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import PROFILE
from nri.agent.observer import Observer
from nri.agent.parts import Parts
from nri.agent.pods.source import PodList
from nri.agent.rules.store import RuleStore
from nri.host import CoreScheduler, Root
from tests.support.clock import Clock

UID = "6f1b1c0e-0000-4000-8000-000000000001"
POD = f"kubepods/burstable/pod{UID}"
TOPOLOGY = {
    "metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": '[{"socket": 0, "node": 0, "cpuset": "0-3"}]'}}
}


class Pods(PodList):
    """A source of pods that a test fills by `replace`."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass


def parts(
    root: Root,
    *,
    clock: Callable[[], float] | None = None,
    node: Node | None = None,
    scheduler: CoreScheduler | None = None,
    rules: Mapping[str, Any] | None = None,
    history: History | None = None,
) -> Parts:
    """All shared parts of an agent on a machine; `rules` are documents by kind."""
    clock = clock or Clock()
    observer = Observer()
    executor = Executor(root, observer=observer, clock=clock, scheduler=scheduler)
    history = History(now=clock) if history is None else history
    store = RuleStore(node or Node(), PROFILE.kinds, clock=clock)
    for kind, document in (rules or {}).items():
        store.put(kind, document, "a test")
    decisions = Decisions(PROFILE, store, executor, history, observer, clock)
    return Parts(PROFILE, root, store, Pods(), decisions, executor, history, observer)


def text(root: Root, controller: str, cgroup: str, file: str) -> str:
    """The text of a cgroup's file on a machine of cgroup v1, without the end of its line."""
    return (Path(root.path) / "sys/fs/cgroup" / controller / cgroup / file).read_text().strip()
