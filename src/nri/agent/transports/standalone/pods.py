"""One round over all pods: pod, pause container and containers decided, and written as one batch for each pod.

Rules: a pod's values and those of its containers go out together, because the kernel takes a quota only within the one
above it, whichever of them shrinks; a pod that breaks off is counted and the others go on; a container without id or
folder, one that the spec does not have, and those of a pod in a virtual machine are passed over. Next:
:mod:`nri.agent.transports.standalone.groups`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nri.agent.decisions import reason_of
from nri.agent.executor import OOM_SCORE
from nri.agent.parts import Parts
from nri.agent.pods.running import key_of
from nri.agent.transports.standalone.room import with_room
from nri.agent.transports.standalone.tally import Tally
from nri.host import Result
from nri.policies.koordinator.contexts import ContainerContext, PodContext
from nri.policies.koordinator.convert import manifest
from nri.policies.koordinator.hooks import core_sched
from nri.policies.koordinator.profile import MEND_CONTAINER, MEND_POD, MEND_SANDBOX, Node, Outcome
from nri.policies.koordinator.refresh.running import RunningPod
from nri.policies.koordinator.writes import Write, container_writes, pod_writes

__all__ = ["NAME", "PodRound", "switched_on"]

#: What this transport is called.
NAME: Final = "standalone"
#: No pod has more containers than that; what is above comes from no kubelet.
_MOST_CONTAINERS: Final = 256
_log = logging.getLogger("nri.agent")


class _Item(NamedTuple):
    """A pod or a container, what was decided for it, and the writes of that."""

    context: PodContext | ContainerContext
    outcome: Outcome
    writes: list[Write]


class PodRound:
    """Goes over pods.

    Args:
        parts: of the agent.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        #: Pods that broke off the last round; the log has had them.
        self._bad: frozenset[str] = frozenset()
        self._cookies = False
        self._learned = False

    def all(self, pods: Iterable[RunningPod], tally: Tally, *, force: bool) -> None:
        """Decide and write for each pod.

        Args:
            pods: those that run.
            tally: counts.
            force: look also at files that are believed to be right.
        """
        listed = list(pods)
        self._learn(listed)
        bad: set[str] = set()
        for pod in listed:
            try:
                self._one(pod, tally, force)
            except Exception as error:  # noqa: BLE001  one bad pod never stops the others
                key = key_of(pod.pod)
                tally.failed(key, [error])
                bad.add(key)
                level = logging.DEBUG if key in self._bad else logging.ERROR
                _log.log(level, "a pod could not be looked at: %r", key, exc_info=True)
        self._bad = frozenset(bad)

    def _one(self, pod: RunningPod, tally: Tally, force: bool) -> None:
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
            self._parts.decisions.told(item.context, NAME, [*own, *more])

    def _items(self, pod: RunningPod, tally: Tally) -> Iterator[_Item]:
        context = pod.context()
        outcome = self._decide(MEND_POD, context, pod, tally)
        writes = pod_writes(context.cgroup_parent, outcome.changes, reason_of(outcome))
        yield _Item(context, outcome, with_room(writes, context, self._parts.executor.hierarchies))
        names = () if manifest.ignored(pod.pod) else [*manifest.containers_of(pod.pod)][:_MOST_CONTAINERS]
        stages = [(MEND_SANDBOX, pod.sandbox()), *((MEND_CONTAINER, pod.container(name)) for name in names)]
        for stage, container in stages:
            if not container.id or not container.cgroup_parent:
                continue
            outcome = self._decide(stage, container, pod, tally)
            reason = reason_of(outcome)
            writes = container_writes(container.cgroup_parent, outcome.changes, reason)
            if outcome.changes.oom_score_adj is not None:
                writes.append(Write(container.cgroup_parent, OOM_SCORE, str(outcome.changes.oom_score_adj), reason))
            yield _Item(container, outcome, writes)

    def _decide(self, stage: str, context: PodContext | ContainerContext, pod: RunningPod, tally: Tally) -> Outcome:
        outcome = self._parts.decisions.decide(stage, context, NAME)
        tally.items += 1
        tally.failed(key_of(pod.pod), outcome.errors)
        return outcome

    def _beside_cgroups(self, pod: RunningPod, item: _Item) -> list[Result]:
        """Write what is no knob of a cgroup: a pod's resctrl group with its threads, a container's cookie."""
        if isinstance(item.context, ContainerContext):
            return self._cookie(pod, item.context)
        change = item.outcome.changes.resctrl
        return [] if change is None else self._parts.executor.resctrl(change, item.context.cgroup_parent)

    def _learn(self, pods: Iterable[RunningPod]) -> None:
        """Learn once which cookies containers have, from before this agent began: they may have to go."""
        node = self._parts.decisions.node
        if self._learned or not node.core.known or not switched_on(node.gates, core_sched.NAME):
            return
        self._learned = self._cookies = True
        for pod in pods:
            try:
                for context in (pod.sandbox(), *pod.main_containers()):
                    pids = self._parts.executor.processes(context.cgroup_parent)
                    wanted = _membership(pod, context, node)
                    self._parts.executor.cookies.learn(wanted, f"{context.pod.uid}/{context.id}", pids)
            except Exception:  # noqa: BLE001  the round tells what is wrong with it
                _log.debug("cookies of a pod could not be looked at: %r", key_of(pod.pod), exc_info=True)

    def _cookie(self, pod: RunningPod, context: ContainerContext) -> list[Result]:
        node = self._parts.decisions.node
        rule = node.core
        if not rule.known or not switched_on(node.gates, core_sched.NAME) or not (rule.enabled or self._cookies):
            return []
        self._cookies = True  # from now on containers may have one that has to go when the rule changes
        wanted = _membership(pod, context, node)
        return self._parts.executor.core_sched(wanted, f"{context.pod.uid}/{context.id}", context.cgroup_parent)


def _membership(pod: RunningPod, context: ContainerContext, node: Node) -> core_sched.Membership:
    pod_class = manifest.kube_class(pod.pod)
    return core_sched.membership(context.pod.labels, pod_class, context.pod.uid, node.core, node.quirks)


def switched_on(gates: frozenset[str] | None, hook: str) -> bool:
    """Whether a hook that is off by default is on."""
    return gates is not None and hook in gates
