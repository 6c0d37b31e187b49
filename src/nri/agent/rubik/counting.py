"""Events of processors that pods cause, counted from one round to a later one.

Rules: counters are open only while something is counted, and their number is bounded: those beyond it are reported. A
machine that does not count an event is reported, with the event's name. Next:
`nri.agent.rubik.services.dyn_cache`.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Sequence
from typing import Final

from nri.agent.loops.round import Round, StrategyPod
from nri.agent.rubik.service import Services
from nri.host import Unsupported
from nri.host.perf import Counters, Event, count, probe_events

__all__ = ["Counting"]

#: Descriptors of counters that are open at once, but no more than this part of those that the process may have.
_MOST: Final = 4096
_PART: Final = 8


class Counting:
    """Counts events of pods.

    Args:
        service: whose it is.
        events: what is counted.
    """

    def __init__(self, service: str, events: Sequence[Event]) -> None:
        self._service, self._events = service, events
        self._counters: dict[str, Counters] = {}
        self._lacking: tuple[str, str] | None = None
        #: When it began, in seconds; None while nothing is counted.
        self.since: float | None = None

    def __len__(self) -> int:
        """The number of pods whose events are counted."""
        return len(self._counters)

    def begin(self, made: Round[Services], pods: Iterable[StrategyPod], otherwise: str) -> bool:
        """Begin to count; return whether this machine does. `otherwise` is what does not happen if it does not."""
        self.end()
        lacking = probe_events(self._events)
        if lacking is not None:
            self._lacking = otherwise, lacking.reason
            return False
        self._lacking = None
        processors = sorted(made.topology.cpus)
        most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART)
        room = most // max(len(processors) * len(self._events), 1)
        hierarchies = made.parts.executor.hierarchies
        for pod in pods:
            if len(self._counters) >= room:
                why = f"{most} counters are the most" + ("" if most == _MOST else "; a higher LimitNOFILE allows more")
                made.errors.append(f"{self._service}: only {room} pods are measured, for {why}")
                break
            try:
                found = count(hierarchies, made.parts.root, pod.folder, self._events, processors)
            except (OSError, ValueError) as error:
                made.errors.append(f"{self._service}: {pod.key}: {error}")
                continue
            if isinstance(found, Unsupported):
                self._lacking = otherwise, found.reason
                self.end()
                return False
            self._counters[pod.uid] = found
        self.since = made.sample.at
        return True

    def tell(self, made: Round[Services]) -> None:
        """Tell what does not happen here, in each round, whether something is to be counted in it or not."""
        if self._lacking is not None:
            made.cannot(self._service, *self._lacking)

    def end(self) -> dict[str, dict[Event, int]]:
        """Count no longer; return the events of each pod, by uid. A pod that is gone has none."""
        counters, self._counters, self.since = self._counters, {}, None
        found: dict[str, dict[Event, int]] = {}
        for uid, each in counters.items():
            try:
                found[uid] = each.read()
            except OSError:
                pass
            finally:
                each.close()
        return found
