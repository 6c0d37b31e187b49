"""One round over all pods: decide for pods and their containers, and write one batch for each pod.

Values of a pod and its containers are written together, because the kernel accepts a quota only within the parent's
quota. An error of one pod is counted and does not stop the others. Containers are skipped if they have no id or cgroup,
are not in the pod's spec, or run in a virtual machine.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from nri.agent.decisions import reason_of
from nri.agent.hooks import RECONCILE_CONTAINER, RECONCILE_POD, RECONCILE_SANDBOX, Outcome
from nri.agent.model import MAX_CONTAINERS, QUOTA, Container, Pod, Write, pod_writes, writes
from nri.agent.parts import Parts
from nri.agent.pods import manifest
from nri.agent.transports.standalone.tally import Tally
from nri.host import Result
from nri.host.cgroups.hierarchies import Hierarchies

#: The name of this transport.
NAME: Final = "standalone"
_ROOM_REASON: Final = "the quota with which its containers are created; they could not start with a smaller quota"
_log = logging.getLogger("nri.agent")


class _Item(NamedTuple):
    """A pod or a container, with its decision and writes."""

    context: Pod | Container
    outcome: Outcome
    writes: list[Write]


class Reconciler(Protocol):
    """The profile's additional work in a round over cgroups."""

    def node(self, tally: Tally) -> None:
        """Set values of the whole machine, before all other values."""
        ...

    def begin(self, pods: Sequence[Pod]) -> None:
        """Read the pods of a round before the first decision."""
        ...

    def container(self, pod: Pod, context: Container) -> list[Result]:
        """Set additional values of a container, after the values of its cgroup."""
        ...

    def end(self, pods: Sequence[Pod], kinds: frozenset[str], tally: Tally) -> None:
        """Clean up at the end of a round. `kinds` are the kinds of changed rules."""
        ...


class NothingMore:
    """The reconciler of a profile without additional work in standalone mode."""

    def node(self, tally: Tally) -> None:
        """Do nothing."""

    def begin(self, pods: Sequence[Pod]) -> None:
        """Do nothing."""

    def container(self, _pod: Pod, _context: Container) -> list[Result]:
        """Do nothing."""
        return []

    def end(self, pods: Sequence[Pod], kinds: frozenset[str], tally: Tally) -> None:
        """Do nothing."""


class PodRound:
    """Decides for all pods of a round, and writes their values.

    Args:
        parts: the shared parts of the agent.
        reconciler: the profile's additional work.
    """

    def __init__(self, parts: Parts, reconciler: Reconciler) -> None:
        self._parts, self._reconciler = parts, reconciler
        #: The pods with an error in the last round, which is already logged.
        self._bad: frozenset[str] = frozenset()

    def all(self, pods: Iterable[Pod], tally: Tally, *, force: bool) -> None:
        """Decide and write for each pod.

        Args:
            pods: the running pods.
            tally: the counts of the round.
            force: also compare files that are believed to be correct.
        """
        listed = list(pods)
        self._reconciler.begin(listed)
        bad: set[str] = set()
        for pod in listed:
            try:
                self._apply_pod(pod, tally, force)
            except Exception as error:  # noqa: BLE001  an error of one pod must not stop the others
                key = pod.key
                tally.failed(key, [error])
                bad.add(key)
                level = logging.DEBUG if key in self._bad else logging.ERROR
                _log.log(level, "decision for a pod failed: %r", key, exc_info=True)
        self._bad = frozenset(bad)

    def _apply_pod(self, pod: Pod, tally: Tally, force: bool) -> None:
        items = list(self._items(pod, tally))
        results = self._parts.executor.write(
            [write for item in items for write in item.writes], force=force, keep=False
        )
        tally.wrote(results)
        place = 0
        for item in items:
            item_results = results[place : place + len(item.writes)]
            place += len(item.writes)
            more = self._beside_cgroups(pod, item)
            tally.wrote(more)
            self._parts.decisions.record(item.context, NAME, [*item_results, *more])

    def _items(self, pod: Pod, tally: Tally) -> Iterator[_Item]:
        if pod.problem is not None:
            raise pod.problem
        outcome = self._decide(RECONCILE_POD, pod, pod, tally)
        writes_of_pod = pod_writes(pod.folder, outcome.changes, reason_of(outcome))
        yield _Item(pod, outcome, with_room(writes_of_pod, pod, self._parts.executor.hierarchies))
        stages = [] if pod.sandbox is None else [(RECONCILE_SANDBOX, pod.sandbox)]
        if not manifest.ignored(pod.manifest):
            listed = [c for c in (*pod.main_containers, *pod.init_containers) if c.resources is not None]
            stages += [(RECONCILE_CONTAINER, container) for container in listed[:MAX_CONTAINERS]]
        for stage, container in stages:
            if not container.id or not container.folder:
                continue
            outcome = self._decide(stage, container, pod, tally)
            yield _Item(container, outcome, writes(container.folder, outcome.changes, reason_of(outcome)))

    def _decide(self, stage: str, context: Pod | Container, pod: Pod, tally: Tally) -> Outcome:
        outcome = self._parts.decisions.decide(stage, context, NAME)
        tally.items += 1
        tally.failed(pod.key, outcome.errors)
        return outcome

    def _beside_cgroups(self, pod: Pod, item: _Item) -> list[Result]:
        """Write values that are not cgroup files: a pod's resctrl group, or the profile's values of a container."""
        if isinstance(item.context, Container):
            return self._reconciler.container(pod, item.context)
        change = item.outcome.changes.resctrl
        return [] if change is None else self._parts.executor.resctrl(change, item.context.folder)


def with_room(pod_writes_: Iterable[Write], context: Pod, hierarchies: Hierarchies) -> list[Write]:
    """Return the writes for a pod's cgroup, with the requested quota instead of a smaller quota.

    On cgroup v1 the kernel refuses a quota above the parent's quota. In standalone mode the runtime does not know
    smaller
    quotas: it creates and restarts each container with the requested quota, which would fail under a smaller quota of
    the pod. So the pod keeps its requested quota, and its containers get the smaller quotas. On cgroup v2 a child's
    quota may exceed its parent's.
    """
    hierarchy = hierarchies.of("cpu")
    quota = None if context.resources is None else context.resources.cfs_quota
    if hierarchy is None or hierarchy.version != 1 or quota is None or quota <= 0:
        return list(pod_writes_)
    return [
        Write(write.folder, QUOTA, str(quota), _ROOM_REASON)
        if write.knob == QUOTA and 0 < int(write.value) < quota
        else write
        for write in pod_writes_
    ]
