"""dynMemory: `memory.high` of offline pods by the node's free memory, so that their reclaim comes first.

Rules: what a pod no longer is to have is taken back: it became online, or the service was switched off; so is what an
agent that was killed has left an offline pod, told by being one of these limits. Where a kernel has no `memory.high`
all of it is unsupported, which is reported; the part that begins to reclaim before the limit is left out where only
openEuler's kernels have it. Next: `nri.agent.rubik.profile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.rubik.decisions.dyn_memory import INTERVAL_S, MemoryHigh, limits, writes
from nri.agent.rubik.pods import PREEMPTIBLE, Pod, offline, pod_of
from nri.agent.rubik.service import Service, Services
from nri.agent.settings.values import AgentSettings

__all__ = ["NAME", "DynMemory"]

NAME: Final = "dynMemory"
_HIGH: Final = "memory.high"


class DynMemory(Service):
    """Sets `memory.high` of offline pods."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._walk: MemoryHigh | None = None
        #: When the free memory is read next, in seconds.
        self._due = 0.0
        #: The pods that have a limit of ours.
        self._limited: frozenset[str] = frozenset()
        self._looked = False

    def __len__(self) -> int:
        """The number of pods that have a limit."""
        return len(self._limited)

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on, or limits are to go."""
        return super().wants(rules) or bool(self._limited)

    def pause_s(self) -> float:
        """Return the interval, which is always the same."""
        return float(INTERVAL_S)

    def state(self, now: float) -> str:  # noqa: ARG002  it has no time to tell
        """Say what the limit is, and for how many quiet readings it has not moved."""
        walk = self._walk
        return "" if walk is None else f"memory.high is {walk.high >> 20} MiB; {walk.quiet} quiet readings"

    def round(self, made: Round[Services]) -> None:
        """Look at all pods, and at the free memory when that is due."""
        node = made.parts.store.node
        if reason := node.lacks(_HIGH):
            made.cannot(NAME, "offline pods have no limit", reason)
            return
        walk = self._moved(made) if self.on else None
        # A pod that comes has them before its first process.
        node.in_force[NAME] = {} if walk is None else limits(walk.high)
        if not self._looked:
            self._looked, self._limited = True, _left(made)
        limited = set[str]()
        for pod in made.pods:
            now, before = pod_of(pod), _as_offline(pod) if pod.uid in self._limited else Pod("")
            if walk is None:
                now = replace(now, annotations={}, labels={})
            found = writes(before, now, 0 if walk is None else walk.high)
            for write in found:
                if not node.has(write.knob):
                    continue
                reason = f"{made.sample.sizes.get('MemFree', 0) >> 20} MiB are free on the node"
                made.set(pod.subject(), write.folder, write.knob, write.value, NAME, reason)
                if write.knob == _HIGH and int(write.value) >= 0:
                    limited.add(pod.uid)
        self._limited = frozenset(limited)

    def _moved(self, made: Round[Services]) -> MemoryHigh | None:
        """The limit after this reading; None if the node's memory is not known, and nothing is limited."""
        sizes = made.sample.sizes
        try:
            if self._walk is None:
                self._walk = MemoryHigh(sizes.get("MemTotal"))
        except ValueError as error:
            made.cannot(NAME, "offline pods have no limit", made.sample.no_memory or str(error))
            return None
        if "MemFree" in sizes and made.sample.at >= self._due:
            self._walk.read(sizes["MemFree"])
            # A round of the timer that begins a little early is not put off by a whole interval.
            self._due = made.sample.at + INTERVAL_S * 0.9
        return self._walk


def _as_offline(pod: StrategyPod) -> Pod:
    """The pod as it was when it got its limit."""
    return replace(pod_of(pod), annotations={PREEMPTIBLE: "true"})


def _left(made: Round[Services]) -> frozenset[str]:
    """The pods that have a limit at the start."""
    try:
        limits = MemoryHigh(made.sample.sizes.get("MemTotal"))
    except ValueError:
        return frozenset()
    found = {pod.uid: made.read(pod.folder, _HIGH) for pod in made.pods if offline(pod_of(pod))}
    return frozenset(uid for uid, high in found.items() if isinstance(high, int) and limits.has(high))
