"""dynCache: the last-level cache and memory bandwidth of offline pods, by five resctrl groups.

Rules: a pod's level is that of its annotation; one that cannot be read costs it the service and keeps the last good
one. Misses of online pods move the dynamic group, where the processor counts them; else it stays where it starts, which
is reported. Caches have the numbers of their domains. Groups go when the service is switched off. Next:
`nri.agent.rubik.io_cost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.rubik.counting import Counting
from nri.agent.rubik.decisions.dyn_cache import (
    ANNOTATION,
    DYNAMIC,
    GROUPS,
    Misses,
    Shares,
    group_of,
    group_shares,
    miss_percent,
    schemata,
    step,
    tasks,
    uses,
)
from nri.agent.rubik.pods import PREEMPTIBLE, Pod, offline, pod_of
from nri.agent.rubik.service import Service, Services, readable
from nri.agent.settings.values import AgentSettings
from nri.host import Unsupported
from nri.host import resctrl as host
from nri.host.perf import Event
from nri.policies.changes import Resctrl

__all__ = ["NAME", "DynCache"]

NAME: Final = "dynCache"
_EVENTS: Final = (Event.REFERENCES, Event.MISSES, Event.LAST_LEVEL_READS, Event.LAST_LEVEL_MISSES)
#: The longest pause between two looks at the processes of offline pods, in seconds.
_SYNC_S: Final = 1.0
_MS_PER_S: Final = 1000


class DynCache(Service):
    """Shares out caches and bandwidth."""

    name = NAME

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._counting = Counting(NAME, _EVENTS)
        #: The shares of the group that moves; None before the first round.
        self.dynamic: Shares | None = None
        self._due = 0.0
        self._made = False

    def __len__(self) -> int:
        """The number of pods whose misses are counted."""
        return len(self._counting)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or groups are to go."""
        return super().wants(rules) or self._made

    def pause_s(self) -> float:
        """Return the interval of the file, but no more than a second: processes come and go."""
        return min(float(self.block.adjustInterval) / _MS_PER_S, _SYNC_S)

    def changed(self) -> None:
        """Begin again with another block."""
        self.dynamic = None
        self._counting.end()

    def state(self, now: float) -> str:  # noqa: ARG002  it has no time to tell
        """Say what the group that moves has now."""
        shares = self.dynamic
        return "" if shares is None else f"the dynamic group has {shares.l3} % of the cache, {shares.mb} % of bandwidth"

    def round(self, made: Round[Services]) -> None:
        """Put the processes of offline pods into their groups, whose shares follow the misses of online ones."""
        try:
            found = host.Resctrl(made.parts.root).capabilities()
        except ValueError as error:
            found = Unsupported(str(error))
        cache = None if isinstance(found, Unsupported) else found.caches.get("L3")
        if isinstance(found, Unsupported) or cache is None:
            reason = found.reason if isinstance(found, Unsupported) else "the processor shares no last-level cache"
            made.cannot(NAME, "offline pods have all of the cache", reason)
            return
        if not self.on:
            made.groups += [Resctrl(group, remove=True) for group in GROUPS.values()]
            self._counting.end()
            self._made = False
            return
        online, pods = self._sorted(made)
        shares = {**group_shares(self.block), DYNAMIC: self._moved(made, online, pods)}
        processes = {each.folder: made.parts.executor.threads(each.folder) for pod in pods for each in pod.containers}
        members = tasks(pods, self.block.defaultLimitMode, processes)
        if processes and not any(processes.values()):
            made.errors.append(f"{NAME}: no process of an offline pod is seen: an agent in a pod needs hostPID")
        for group, share in shares.items():
            wanted = schemata(cache.mask.bit_length(), share, found.domains, cache.least_bits)
            lines = "".join(host.format_line(resource, parts) for resource, parts in wanted.items())
            made.groups.append(Resctrl(group, lines, tuple(members.get(group, ()))))
        self._made = True

    def _sorted(self, made: Round[Services]) -> tuple[list[StrategyPod], list[Pod]]:
        """The online pods; and the offline ones that have a level, with that."""

        def read(annotations: Mapping[str, str]) -> object:
            return group_of(Pod("", annotations=annotations), "static")

        online, pods = list[StrategyPod](), list[Pod]()
        for pod in made.pods:
            now = pod_of(pod)
            if not offline(now):
                online.append(pod)
                continue
            annotations = readable(made, pod, NAME, ANNOTATION, read)
            if ANNOTATION in annotations or ANNOTATION not in pod.annotations:
                pods.append(replace(now, annotations={**annotations, PREEMPTIBLE: "true"}))
        return online, pods

    def _moved(self, made: Round[Services], online: list[StrategyPod], pods: list[Pod]) -> Shares:
        """The shares of the dynamic group now."""
        shares = self.dynamic = self.dynamic or group_shares(self.block)[DYNAMIC]
        if not uses(pods, self.block.defaultLimitMode):
            self._counting.end()
            return shares
        now, since = made.sample.at, self._counting.since
        if since is not None and now - since >= self.block.perfDuration / _MS_PER_S:
            misses = [
                Misses(
                    miss_percent(each[Event.MISSES], each[Event.REFERENCES]),
                    miss_percent(each[Event.LAST_LEVEL_MISSES], each[Event.LAST_LEVEL_READS]),
                )
                for each in self._counting.end().values()
            ]
            self.dynamic = step(shares, misses, self.block)
            self._due = now + self.block.adjustInterval / _MS_PER_S
        elif since is None and now >= self._due:
            self._counting.begin(made, online, "the dynamic group stays as it starts")
        self._counting.tell(made)
        return self.dynamic
