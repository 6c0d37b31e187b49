"""The service dynMemory: `memory.high` of offline pods follows the node's free memory, so that it is reclaimed first.

The policy `fssr` falls fast and rises slowly. With T bytes of memory on the node, the limit starts at 0.8 T. If less
than T/10 is free, the limit falls by T/10, down to 0.3 T. If more than T/5 is free in thirteen consecutive readings,
the limit rises by T/100, up to 0.8 T. Readings are five seconds apart.

The limit of a pod is removed when the pod becomes online, or the service is switched off. A limit that an earlier agent
has left on an offline pod is recognized by its value. A kernel without `memory.high` is reported as unsupported. The
threshold of asynchronous reclaim is written only on openEuler's kernels.
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

NAME: Final = "dynMemory"
INTERVAL_S: Final = 5
_HIGH, _ASYNC_RATIO = "memory.high", "memory.high_async_ratio"
#: The number of readings with much free memory before the limit rises.
_QUIET_READINGS: Final = 12
_ASYNC_PERCENT: Final = 80
#: The size of a kernel's largest page; kernels round limits down to whole pages.
_MAX_PAGE_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Block:
    """The settings of dynMemory."""

    policy: Literal["fssr"]


class MemoryHigh:
    """The limit, which follows readings of the free memory.

    Attributes:
        high: the limit in bytes.
        quiet: the number of consecutive readings with much free memory.
    """

    def __init__(self, total: int | None) -> None:
        """Start with the node's memory in bytes. Raises ValueError if it is unknown."""
        if not total or total < 0:
            raise ValueError("dynMemory: the node's memory is unknown: /proc/meminfo has no MemTotal")
        self._total, self.reserved = total, total // 10
        self._floor, self._ceiling = total * 3 // 10, total * 8 // 10
        self.high, self.quiet = self._ceiling, 0

    def read(self, free: int) -> bool:
        """Apply a reading of the free bytes, and return whether the limit has changed."""
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
        """Return whether a limit in force can be a value of this service."""
        return self._floor - _MAX_PAGE_BYTES < high <= self._ceiling


def limits(high: int) -> dict[str, int]:
    """Return the values of an offline pod by cgroup file, in the order of writes.

    Reclaim begins below the limit if the kernel supports that.
    """
    return {_ASYNC_RATIO: _ASYNC_PERCENT, _HIGH: high}


def writes(before: Pod, pod: Pod, high: int) -> list[Write]:
    """Return the writes for a pod; `before` is its earlier state.

    A pod that becomes online loses its limit. A pod that was always online gets no write.
    """
    if not offline(pod):
        return [Write(pod.folder, _HIGH, str(UNLIMITED), NAME)] if offline(before) else []
    return [Write(pod.folder, knob, str(value), NAME) for knob, value in limits(high).items()]


def at_start(pod: Pod, node: Node) -> Decision:
    """Give a new offline pod the limit of the last round. Before the first round there is no limit."""
    in_force = node.in_force.get(NAME, {}) if class_of(pod) == OFFLINE else {}
    values: dict[str, Setting] = {knob: value for knob, value in in_force.items() if node.has(knob)}
    return Decision(Changes(values), "the current limit of all offline pods") if values else Decision()


HOOK: Final = Hook(NAME, False, (), (PREEMPTIBLE,), {RUN_POD: at_start})


class DynMemory(Service):
    """The service that sets `memory.high` of offline pods to the current limit."""

    name = NAME
    runs_on_pod_changes = True

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self._limit: MemoryHigh | None = None
        #: The time of the next reading of free memory, in monotonic seconds.
        self._due = 0.0
        #: The pods that have a limit of this service.
        self._limited_pods: frozenset[str] = frozenset()
        self._leftovers_searched = False

    def __len__(self) -> int:
        """The number of pods with a limit."""
        return len(self._limited_pods)

    def is_needed(self, rules: Services) -> bool:
        """Return whether the file switches the service on, or limits must be removed."""
        return super().is_needed(rules) or bool(self._limited_pods)

    def pause_s(self) -> float:
        """Return the constant interval."""
        return float(INTERVAL_S)

    def state(self, now: float) -> str:  # noqa: ARG002  the state does not depend on the time
        """Return the limit, and the number of consecutive readings with much free memory."""
        limit = self._limit
        return (
            "" if limit is None else f"memory.high is {limit.high >> 20} MiB; {limit.quiet} readings with free memory"
        )

    def round(self, round_: Round[Services]) -> None:
        """Set and remove the limits of all pods, and read the free memory if that is due."""
        node = round_.parts.store.node
        if reason := node.missing_reason(_HIGH):
            round_.cannot(NAME, "offline pods have no limit", reason)
            return
        limit = self._next_limit(round_) if self.on else None
        # The hook gives these values to a new pod before its first process.
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
        """Return the limit after this reading, or None if the node's memory is unknown."""
        sizes = round_.sample.sizes
        try:
            if self._limit is None:
                self._limit = MemoryHigh(sizes.get("MemTotal"))
        except ValueError as error:
            round_.cannot(NAME, "offline pods have no limit", round_.sample.no_memory or str(error))
            return None
        if "MemFree" in sizes and round_.sample.at >= self._due:
            self._limit.read(sizes["MemFree"])
            # A round that begins slightly early is not postponed by a whole interval.
            self._due = round_.sample.at + INTERVAL_S * 0.9
        return self._limit


def _as_offline(pod: Pod) -> Pod:
    """Return a pod in the state in which it got its limit."""
    return replace(pod, annotations={PREEMPTIBLE: "true"})


def _limited_by_killed_agent(round_: Round[Services]) -> frozenset[str]:
    """Return the offline pods that already have a limit of this service in the first round."""
    try:
        limit = MemoryHigh(round_.sample.sizes.get("MemTotal"))
    except ValueError:
        return frozenset()
    highs = {pod.uid: round_.read(pod.folder, _HIGH) for pod in round_.pods if offline(pod)}
    return frozenset(uid for uid, high in highs.items() if isinstance(high, int) and limit.has(high))
