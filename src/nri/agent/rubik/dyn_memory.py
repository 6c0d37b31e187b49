"""dynMemory: `memory.high` of offline pods follows the node's free memory, so that their memory is reclaimed first.

The policy `fssr` falls fast and rises slowly. With T bytes of memory on the node, the limit begins at 0.8 T. Less than
T/10 free: it falls by T/10, down to 0.3 T. More than T/5 free in thirteen readings in a row: it rises by T/100, up to
0.8 T. Readings are five seconds apart.

The limit of a pod is removed when the pod becomes online, or the service is switched off. A limit that a killed agent
has left on an offline pod is recognized by its value. A kernel without `memory.high` is reported as unsupported; the
start of reclaim below the limit is left out where only openEuler's kernels have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from nri.agent.hooks import RUN_POD, Hook
from nri.agent.loops.round import Round
from nri.agent.model import Changes, Decision, Pod, Setting, Write
from nri.agent.rubik.pods import OFFLINE, PREEMPTIBLE, class_of, offline
from nri.agent.rubik.service import Node, Service, Services
from nri.agent.settings.values import AgentSettings
from nri.kube.cgroup_limits import UNLIMITED

__all__ = ["HOOK", "INTERVAL_S", "Block", "DynMemory", "MemoryHigh", "limits", "writes"]

NAME: Final = "dynMemory"
INTERVAL_S: Final = 5
_HIGH, _ASYNC_RATIO = "memory.high", "memory.high_async_ratio"
#: Readings that are only counted before the next one raises.
_QUIET_READINGS: Final = 12
_ASYNC_PERCENT: Final = 80
#: The largest page of a kernel, which rounds limits down to whole pages.
_MAX_PAGE_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of offline pods by the node's free memory."""

    policy: Literal["fssr"]


class MemoryHigh:
    """The limit over time.

    Attributes:
        high: the limit in bytes.
        quiet: readings in a row with much memory free.
    """

    def __init__(self, total: int | None) -> None:
        """Begin with the node's memory in bytes. Raises ValueError if it is unknown."""
        if not total or total < 0:
            raise ValueError("dynMemory: the node's memory is unknown: /proc/meminfo has no MemTotal")
        self._total, self.reserved = total, total // 10
        self._floor, self._ceiling = total * 3 // 10, total * 8 // 10
        self.high, self.quiet = self._ceiling, 0

    def read(self, free: int) -> bool:
        """Apply a reading of the free bytes; return whether the limit has changed."""
        before = self.high
        if free > 2 * self.reserved and self.quiet < _QUIET_READINGS:
            self.quiet += 1
            return False
        self.quiet = 0
        if free < self.reserved:
            self.high = max(self.high - self.reserved, self._floor)
        elif free > 2 * self.reserved:
            self.high = min(self.high + self._total // 100, self._ceiling)
        return self.high != before

    def has(self, high: int) -> bool:
        """Whether a limit that is in force, in whole pages, can be one of these."""
        return self._floor - _MAX_PAGE_BYTES < high <= self._ceiling


def limits(high: int) -> dict[str, int]:
    """Return the values of an offline pod by cgroup file, in the order in which they are written.

    Reclaim begins before the limit where a kernel can do that.
    """
    return {_ASYNC_RATIO: _ASYNC_PERCENT, _HIGH: high}


def writes(before: Pod, pod: Pod, high: int) -> list[Write]:
    """Return the writes for a pod that was as `before`.

    A pod that becomes online loses its limit; one that always was online does not get any.
    """
    if not offline(pod):
        return [Write(pod.folder, _HIGH, str(UNLIMITED), NAME)] if offline(before) else []
    return [Write(pod.folder, knob, str(value), NAME) for knob, value in limits(high).items()]


def at_start(pod: Pod, node: Node) -> Decision:
    """Give a new offline pod the limit that the last round gave the others; nothing before the first round."""
    in_force = node.in_force.get(NAME, {}) if class_of(pod) == OFFLINE else {}
    values: dict[str, Setting] = {knob: value for knob, value in in_force.items() if node.has(knob)}
    return Decision(Changes(values), "that of all offline pods now") if values else Decision()


HOOK: Final = Hook(NAME, False, (), (PREEMPTIBLE,), {RUN_POD: at_start})


class DynMemory(Service):
    """Keeps `memory.high` of offline pods at the limit of now."""

    name = NAME
    prompt = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._limit: MemoryHigh | None = None
        #: When the free memory is read next, in monotonic seconds.
        self._due = 0.0
        #: The pods with a limit that this service has set.
        self._limited_pods: frozenset[str] = frozenset()
        self._leftovers_searched = False

    def __len__(self) -> int:
        """The number of pods that have a limit."""
        return len(self._limited_pods)

    def wants(self, rules: Services) -> bool:
        """Whether the file switches it on, or limits remain to be removed."""
        return super().wants(rules) or bool(self._limited_pods)

    def pause_s(self) -> float:
        """Return the interval, which is always the same."""
        return float(INTERVAL_S)

    def state(self, now: float) -> str:  # noqa: ARG002  no part of it depends on the time
        """Return the limit, and the number of quiet readings for which it has not changed."""
        limit = self._limit
        return "" if limit is None else f"memory.high is {limit.high >> 20} MiB; {limit.quiet} quiet readings"

    def round(self, round_: Round[Services]) -> None:
        """Set and remove the limits of all pods, and read the free memory when that is due."""
        node = round_.parts.store.node
        if reason := node.lacks(_HIGH):
            round_.cannot(NAME, "offline pods have no limit", reason)
            return
        limit = self._next_limit(round_) if self.on else None
        # The hook gives these to a new pod before its first process.
        node.in_force[NAME] = {} if limit is None else limits(limit.high)
        if not self._leftovers_searched:
            self._leftovers_searched, self._limited_pods = True, _limited_by_killed_agent(round_)
        reason = f"{round_.sample.sizes.get('MemFree', 0) >> 20} MiB are free on the node"
        limited = set[str]()
        for pod in round_.pods:
            now, before = pod, _as_offline(pod) if pod.uid in self._limited_pods else Pod()
            if limit is None:
                now = replace(now, annotations={}, labels={})
            for write in writes(before, now, 0 if limit is None else limit.high):
                if not node.has(write.knob):
                    continue
                round_.set(pod.subject(), write.folder, write.knob, write.value, NAME, reason)
                if write.knob == _HIGH and int(write.value) >= 0:
                    limited.add(pod.uid)
        self._limited_pods = frozenset(limited)

    def _next_limit(self, round_: Round[Services]) -> MemoryHigh | None:
        """Return the limit after this reading; None if the node's memory is unknown, and no pod gets a limit."""
        sizes = round_.sample.sizes
        try:
            if self._limit is None:
                self._limit = MemoryHigh(sizes.get("MemTotal"))
        except ValueError as error:
            round_.cannot(NAME, "offline pods have no limit", round_.sample.no_memory or str(error))
            return None
        if "MemFree" in sizes and round_.sample.at >= self._due:
            self._limit.read(sizes["MemFree"])
            # A round of the timer that begins a little early is not put off by a whole interval.
            self._due = round_.sample.at + INTERVAL_S * 0.9
        return self._limit


def _as_offline(pod: Pod) -> Pod:
    """Return the pod as it was when it got its limit."""
    return replace(pod, annotations={PREEMPTIBLE: "true"})


def _limited_by_killed_agent(round_: Round[Services]) -> frozenset[str]:
    """Return the offline pods that have a limit in the first round."""
    try:
        limit = MemoryHigh(round_.sample.sizes.get("MemTotal"))
    except ValueError:
        return frozenset()
    highs = {pod.uid: round_.read(pod.folder, _HIGH) for pod in round_.pods if offline(pod)}
    return frozenset(uid for uid, high in highs.items() if isinstance(high, int) and limit.has(high))
