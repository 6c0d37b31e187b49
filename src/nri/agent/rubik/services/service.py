"""Service: what the services with rounds share, which is how they are switched on and how often they have a round.

Rules: a service is on if the file says so; what it has set goes back in the round after it was switched off, and so
does what its hook has given a container whose creation had begun by then, and what an agent that was killed has left.
Next: `nri.agent.rubik.services.quota_turbo`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.loops.samples import Sample
from nri.agent.loops.strategy import Strategy
from nri.agent.rubik.configuration import Services
from nri.agent.rubik.decisions.node import Ticks
from nri.agent.settings.values import AgentSettings

__all__ = ["Service", "nanoseconds", "readable", "ticks"]

_NS_PER_S = 1_000_000_000


class Service(Strategy):
    """One service.

    Attributes:
        interval_s: the pause between two rounds in seconds, by the file.
        transient: whether what it sets goes back when the agent ends.
        block: its block of the file; None if it has none, or is off.
        on: whether the file switches it on.
    """

    name: str

    def __init__(self, _settings: AgentSettings, _names: Sequence[str]) -> None:
        self.interval_s = 0.0
        self.block: Any = None
        self.on = False
        #: The containers that ask, as a round without the service has last seen them; None if it was never on.
        self._without: frozenset[str] | None = None

    def wants(self, rules: Services) -> bool:
        """Whether there is work: the file switches it on."""
        self.on = self.name in rules.blocks
        block = rules.blocks.get(self.name)
        if block != self.block:
            self.block = block
            self.changed()
        if self.on:
            self.interval_s = self.pause_s()
            self._without = frozenset()
        return self.on

    def pause_s(self) -> float:
        """Return the pause between two rounds, in seconds; 0 for that of the settings."""
        return 0.0

    def changed(self) -> None:
        """Take in another block."""

    @property
    def was_on(self) -> bool:
        """Whether the file has switched it on at any time, so that containers may have something of its hook."""
        return self._without is not None

    def leftovers(self, made: Round[Services], key: str) -> frozenset[str]:
        """Return the cgroups that a round without the service sees for the first time, of pods that have an annotation.

        They may have been made while it was on: its hook gives a container something before any round sees it. If it
        never was, an agent that was killed may have left them: then all are looked at in the one round that there is.
        """
        if self.on:
            return frozenset()
        asking = frozenset(each.cgroup_parent for pod in made.pods if key in pod.annotations for each in pod.containers)
        found = asking - (self._without or frozenset())
        if self._without is not None:
            self._without = asking
        return found

    @abstractmethod
    def round(self, made: Round[Services]) -> None:
        """Look at a round; a service that is off takes back what it has set."""


def readable(
    made: Round[Services],
    pod: StrategyPod,
    service: str,
    key: str,
    read: Callable[[Mapping[str, str]], object],
) -> Mapping[str, str]:
    """Return a pod's annotations, in which that of a service can be read: else the last good one counts.

    Args:
        made: the round, which collects what is wrong.
        pod: whose annotations they are.
        service: whose annotation it is.
        key: the annotation.
        read: raises ValueError for one that cannot be read.
    """
    try:
        read(pod.annotations)
    except ValueError as error:
        made.errors.append(f"{service}: {pod.key}: {error}")
        made.unreadable[pod.subject(), service] = str(error)
        return made.good.instead(pod.uid, key, pod.annotations) or {}
    made.unreadable[pod.subject(), service] = ""
    made.good.keep(pod.uid, key, pod.annotations)
    return pod.annotations


def ticks(sample: Sample) -> Ticks | None:
    """Return the processors' time as rubik counts it, in which waiting for I/O is in use; None if it is not known."""
    times = sample.times
    return None if times is None else Ticks(times.busy + times.io_wait, times.busy + times.idle)


def nanoseconds(sample: Sample) -> int:
    """Return the time of a sample."""
    return round(sample.at * _NS_PER_S)
