"""One round over all pods: pod, pause container and containers decided, and written as one batch for each pod.

Rules: a pod's values and those of its containers go out together, because the kernel takes a quota only within the one
above it, whichever of them shrinks; a pod that breaks off is counted and the others go on; a container without id or
folder, one that the spec does not have, and those of a pod in a virtual machine are passed over. Next:
:mod:`nri.agent.transports.standalone.transport`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from nri.agent.decisions import reason_of
from nri.agent.hooks import MEND_CONTAINER, MEND_POD, MEND_SANDBOX, Outcome
from nri.agent.model import MAX_CONTAINERS, QUOTA, Container, Pod, Write, pod_writes, writes
from nri.agent.parts import Parts
from nri.agent.pods import manifest
from nri.agent.transports.standalone.tally import Tally
from nri.host import Result
from nri.host.cgroups.hierarchies import Hierarchies

__all__ = ["NAME", "NothingMore", "PodRound", "Reconciler", "with_room"]

#: The name of this transport.
NAME: Final = "standalone"
_ROOM: Final = "what its containers are made with, or they could not start"
_log = logging.getLogger("nri.agent")


class _Item(NamedTuple):
    """A pod or a container, what was decided for it, and the writes of that."""

    context: Pod | Container
    outcome: Outcome
    writes: list[Write]


class Reconciler(Protocol):
    """The work of a round over cgroups beside asking hooks; made with the parts of the agent."""

    def node(self, tally: Tally) -> None:
        """Set what holds for the whole machine, before anything else."""
        ...

    def begin(self, pods: Sequence[Pod]) -> None:
        """Look at the pods of a round before any of them is decided."""
        ...

    def container(self, pod: Pod, context: Container) -> list[Result]:
        """Set what is no knob of a cgroup for a container, once its values are written."""
        ...

    def end(self, pods: Sequence[Pod], kinds: frozenset[str], tally: Tally) -> None:
        """Clear up when all pods of a round were decided; `kinds` are those of changed rules."""
        ...


class NothingMore:
    """The part of a profile that does nothing in standalone mode beside asking hooks."""

    def node(self, tally: Tally) -> None:
        """Set nothing."""

    def begin(self, pods: Sequence[Pod]) -> None:
        """Look at nothing."""

    def container(self, _pod: Pod, _context: Container) -> list[Result]:
        """Set nothing."""
        return []

    def end(self, pods: Sequence[Pod], kinds: frozenset[str], tally: Tally) -> None:
        """Clear nothing up."""


class PodRound:
    """Goes over pods.

    Args:
        parts: of the agent.
        reconciler: of the profile.
    """

    def __init__(self, parts: Parts, reconciler: Reconciler) -> None:
        self._parts, self._reconciler = parts, reconciler
        #: Pods that broke off the last round; the log has had them.
        self._bad: frozenset[str] = frozenset()

    def all(self, pods: Iterable[Pod], tally: Tally, *, force: bool) -> None:
        """Decide and write for each pod.

        Args:
            pods: those that run.
            tally: counts.
            force: look also at files that are believed to be right.
        """
        listed = list(pods)
        self._reconciler.begin(listed)
        bad: set[str] = set()
        for pod in listed:
            try:
                self._one(pod, tally, force)
            except Exception as error:  # noqa: BLE001  one bad pod never stops the others
                key = pod.key
                tally.failed(key, [error])
                bad.add(key)
                level = logging.DEBUG if key in self._bad else logging.ERROR
                _log.log(level, "a pod could not be looked at: %r", key, exc_info=True)
        self._bad = frozenset(bad)

    def _one(self, pod: Pod, tally: Tally, force: bool) -> None:
        items = list(self._items(pod, tally))
        results = self._parts.executor.write(
            [write for item in items for write in item.writes], force=force, keep=False
        )
        tally.wrote(results)
        place = 0
        for item in items:
            own = results[place : place + len(item.writes)]
            place += len(item.writes)
            more = self._beside_cgroups(pod, item)
            tally.wrote(more)
            self._parts.decisions.record(item.context, NAME, [*own, *more])

    def _items(self, pod: Pod, tally: Tally) -> Iterator[_Item]:
        if pod.problem is not None:
            raise pod.problem
        outcome = self._decide(MEND_POD, pod, pod, tally)
        writes_of_pod = pod_writes(pod.folder, outcome.changes, reason_of(outcome))
        yield _Item(pod, outcome, with_room(writes_of_pod, pod, self._parts.executor.hierarchies))
        stages = [] if pod.sandbox is None else [(MEND_SANDBOX, pod.sandbox)]
        if not manifest.ignored(pod.manifest):
            listed = [c for c in (*pod.main_containers, *pod.init_containers) if c.resources is not None]
            stages += [(MEND_CONTAINER, container) for container in listed[:MAX_CONTAINERS]]
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
        """Write what is no knob of a cgroup: a pod's resctrl group with its threads, and what the profile has."""
        if isinstance(item.context, Container):
            return self._reconciler.container(pod, item.context)
        change = item.outcome.changes.resctrl
        return [] if change is None else self._parts.executor.resctrl(change, item.context.folder)


def with_room(wanted: Iterable[Write], context: Pod, hierarchies: Hierarchies) -> list[Write]:
    """The writes of a pod's folder, with the quota that it asks for in place of a smaller one.

    On cgroup v1 the kernel refuses a quota above that of the folder above. In standalone mode the runtime knows nothing
    of smaller quotas: it makes each container with what the pod asks for, also when one is started again, and under a
    pod with less the container would not start. There a pod keeps what it asks for; its containers have the smaller
    quotas. On cgroup v2 a child may say more than its parent.
    """
    hierarchy = hierarchies.of("cpu")
    asked = None if context.resources is None else context.resources.cfs_quota
    if hierarchy is None or hierarchy.version != 1 or asked is None or asked <= 0:
        return list(wanted)
    return [
        Write(each.folder, QUOTA, str(asked), _ROOM) if each.knob == QUOTA and 0 < int(each.value) < asked else each
        for each in wanted
    ]
