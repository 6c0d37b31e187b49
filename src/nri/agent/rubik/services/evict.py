"""Evictions of offline pods: psi for pressure on online ones, cpuevict and memoryevict for the use of the node.

Rules: one pod at a time, and only after so many rounds in a row above the threshold as the settings say
(`loops.evict_after`); a cool-down follows an eviction that is under way, and nothing else. A pod that was asked to go
is not asked again for a minute, in which it may end; one that may not go, such as by a disruption budget, leaves it to
the next. Pods of kube-system, static pods and mirrors are no candidates. Next:
`nri.agent.rubik.dyn_memory`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nri.agent.loops.round import Round
from nri.agent.rubik.decisions.evict import (
    BY,
    Cooldown,
    Sample,
    Window,
    candidates,
    cpu_percent,
    memory_mb,
    memory_percent,
    pressed,
    victim,
)
from nri.agent.rubik.pods import Pod, offline, pod_of
from nri.agent.rubik.service import Service, Services, nanoseconds, ticks
from nri.agent.settings.values import AgentSettings
from nri.host import Unsupported, cgroup_pressure

__all__ = ["CpuEvict", "MemoryEvict", "PsiEvict"]

#: Pods of one round that are asked for, of those that may not go.
_MOST_TRIES: Final = 3
#: For how many seconds a pod that was asked to go may end.
_ENDING_S: Final = 60.0


class _Due(NamedTuple):
    """An eviction that is due: the resource by which the victim is chosen, and the reason."""

    resource: str
    reason: str


class _Evicts(Service):
    """The part that all three have in common: the use of offline pods, and who goes."""

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._after = settings.loops.evict_after
        self._from_apiserver = settings.pods.source == "apiserver"
        self._over = 0
        self._used: dict[str, deque[Sample]] = {}
        #: When pods that are there were asked to go.
        self._asked: dict[str, float] = {}
        self._cooldown = Cooldown(0)
        #: The readings of the last round.
        self._seen = ""

    def __len__(self) -> int:
        """The number of pods whose use is remembered."""
        return len(self._used)

    def pause_s(self) -> float:
        """Return the interval of the file."""
        return float(self.block.interval)

    def state(self, now: float) -> str:
        """Say what was seen last, and for how long no pod goes."""
        left = self._cooldown.left(now)
        over = f"{self._over} of {self._after} rounds above it" if 0 < self._over < self._after else ""
        return "; ".join(filter(None, (self._seen, over, f"none goes for {left:.0f} s more" if left else "")))

    def changed(self) -> None:
        """Begin again with another block."""
        self._cooldown = Cooldown(0 if self.block is None else self.block.cooldown or 0)
        self._over = 0

    def round(self, made: Round[Services]) -> None:
        """Look, and evict one pod if it is due."""
        if not self.on:
            self._used.clear()
            return
        pods = {pod.uid: (pod, pod_of(pod)) for pod in made.pods}
        self._sample(made, [pod for _, pod in pods.values() if offline(pod)])
        now = made.sample.at
        self._asked = {uid: at for uid, at in self._asked.items() if uid in pods and now < at + _ENDING_S}
        due = self.due(made, [pod for _, pod in pods.values()])
        self._over = self._over + 1 if due is not None else 0
        if due is None or self._over < self._after or not self._cooldown.over(now):
            return
        possible = candidates((pod for _, pod in pods.values()), from_apiserver=self._from_apiserver)
        left = [pod for pod in possible if pod.uid not in self._asked]
        for _ in range(_MOST_TRIES):
            chosen = victim(left, self.use(due.resource, made.sample.cpus))
            if chosen is None:
                made.errors.append(f"{self.name}: {due.reason}, and there is no offline pod whose use is known")
                return
            if made.evict(pods[chosen.uid][0], self.name, due.reason):
                self._asked[chosen.uid] = now
                self._over = 0
                self._cooldown.begin(now)
                return
            left.remove(chosen)

    @abstractmethod
    def due(self, made: Round[Services], pods: Sequence[Pod]) -> _Due | None:
        """Return whether a pod has to go now, and why; None if none has."""

    def _sample(self, made: Round[Services], pods: Iterable[Pod]) -> None:
        now, used = nanoseconds(made.sample), dict[str, deque[Sample]]()
        for pod in pods:
            found = made.usage(pod.folder)
            if found is not None and found.cpu_ns is not None and found.memory_bytes is not None:
                kept = self._used.get(pod.uid, deque(maxlen=2))
                kept.append(Sample(now, found.cpu_ns, found.memory_bytes))
                used[pod.uid] = kept
        self._used = used

    def use(self, resource: str, cpus: int) -> Mapping[str, float | None]:
        """Return the use of each offline pod by uid: percent of the node, or MB for memory; None if it is not known."""
        if resource == "memory":
            return {uid: memory_mb(list(samples)) for uid, samples in self._used.items()}
        return {uid: cpu_percent(list(samples), cpus) for uid, samples in self._used.items()}


class PsiEvict(_Evicts):
    """psi: an offline pod goes when online pods wait."""

    name = "psi"

    def due(self, made: Round[Services], pods: Sequence[Pod]) -> _Due | None:
        """Return the first resource for which an online pod waits too long."""
        online = [pod for pod in pods if not offline(pod)]
        found = {resource: list(self._waiting(made, resource, online)) for resource in self.block.resource}
        threshold = self.block.avg10threshold
        worst = ", ".join(f"{max(waits):g} % for {resource}" for resource, waits in found.items() if waits)
        self._seen = f"online pods wait {worst}, above {threshold:g} % one goes" if worst else ""
        resource = pressed(self.block.resource, found, threshold)
        if not resource:
            return None
        most = max(found[resource])
        return _Due(BY[resource], f"an online pod waits {most:g} % of the time for {resource}, more than {threshold:g}")

    def _waiting(self, made: Round[Services], resource: str, online: Iterable[Pod]) -> Iterable[float]:
        hierarchies = made.parts.executor.hierarchies
        for pod in online:
            try:
                found = cgroup_pressure(hierarchies, pod.folder, resource)  # type: ignore[arg-type]  # of the file
            except (OSError, ValueError):
                continue
            if isinstance(found, Unsupported):
                made.cannot(self.name, f"no pod goes for {resource}", found.reason)
            elif found.some is not None:
                yield found.some.avg10


class CpuEvict(_Evicts):
    """cpuevict: an offline pod goes when the node's CPUs are in use too much, averaged over a window."""

    name = "cpuevict"

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self.window = Window(0)
        #: The percent of CPU time in use, averaged over the window; None before there are two readings.
        self.average: float | None = None

    def changed(self) -> None:
        """Begin again with another block."""
        super().changed()
        self.window = Window(0 if self.block is None else self.block.windows)

    def due(self, made: Round[Services], pods: Sequence[Pod]) -> _Due | None:  # noqa: ARG002  the node's use alone
        """Return whether the window's average is at the threshold."""
        use = ticks(made.sample)
        if use is None:
            made.cannot(self.name, "no pod goes", made.sample.no_cpu)
            return None
        average = self.average = self.window.add(nanoseconds(made.sample), use)
        if average is not None:
            self._seen = f"the node uses {average:.0f} % of its CPUs, from {self.block.threshold} % on one goes"
        if average is None or average < self.block.threshold:
            return None
        return _Due("cpu", self._seen)


class MemoryEvict(_Evicts):
    """memoryevict: an offline pod goes when too much of the node's memory is in use."""

    name = "memoryevict"

    def due(self, made: Round[Services], pods: Sequence[Pod]) -> _Due | None:  # noqa: ARG002  the node's use alone
        """Return whether the node's memory in use is at the threshold."""
        try:
            used = memory_percent(made.sample.sizes)
        except ValueError as error:
            made.cannot(self.name, "no pod goes", made.sample.no_memory or str(error))
            return None
        self._seen = f"{used:.0f} % of the node's memory are in use, from {self.block.threshold} % on one goes"
        return _Due("memory", self._seen) if used >= self.block.threshold else None
