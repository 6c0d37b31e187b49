"""Count events of processors that pods cause, from one round to a later round.

Counters are open only during a count. Their number is limited; further pods are reported. A machine that does not count
an event is reported with the name of the event.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Sequence
from typing import Final

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.rubik.service import Services
from nri.host import Unsupported
from nri.host.perf import Counters, Event, probe_events, start_counters

#: The maximum number of open counters.
_MAX_DESCRIPTORS: Final = 4096
#: Counters use at most this fraction (1/8) of the process's file descriptors.
_PART: Final = 8


class EventCounter:
    """A counter of events of pods.

    Args:
        service: the name of the service that counts.
        events: the events to count.
    """

    def __init__(self, service: str, events: Sequence[Event]) -> None:
        self._service, self._events = service, events
        self._counters: dict[str, Counters] = {}
        self._missing: tuple[str, str] | None = None
        #: When the count began, in monotonic seconds; None between two counts.
        self.since: float | None = None

    def __len__(self) -> int:
        """The number of counted pods."""
        return len(self._counters)

    def begin(self, round_: Round[Services], pods: Iterable[Pod], effect: str) -> bool:
        """Begin to count, and return whether this machine can. `report` shows `effect` if it cannot."""
        self.end()
        unsupported = probe_events(self._events)
        if unsupported is not None:
            self._missing = effect, unsupported.reason
            return False
        self._missing = None
        processors = sorted(round_.topology.cpus)
        limit = min(_MAX_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART)
        max_pods = limit // max(len(processors) * len(self._events), 1)
        hierarchies = round_.parts.executor.hierarchies
        for pod in pods:
            if len(self._counters) >= max_pods:
                advice = "" if limit == _MAX_DESCRIPTORS else "; raise LimitNOFILE to measure more"
                reason = f"the limit is {limit} counters{advice}"
                round_.errors.append(f"{self._service}: only {max_pods} pods are measured: {reason}")
                break
            try:
                counters = start_counters(hierarchies, round_.parts.root, pod.folder, self._events, processors)
            except (OSError, ValueError) as error:
                round_.errors.append(f"{self._service}: {pod.key}: {error}")
                continue
            if isinstance(counters, Unsupported):
                self._missing = effect, counters.reason
                self.end()
                return False
            self._counters[pod.uid] = counters
        self.since = round_.sample.at
        return True

    def report(self, round_: Round[Services]) -> None:
        """Report the effect of missing counters. Call it in every round."""
        if self._missing is not None:
            round_.cannot(self._service, *self._missing)

    def end(self) -> dict[str, dict[Event, int]]:
        """End the count, and return the events of existing pods, by uid."""
        counters_by_uid, self._counters, self.since = self._counters, {}, None
        events: dict[str, dict[Event, int]] = {}
        for uid, counters in counters_by_uid.items():
            try:
                events[uid] = counters.read()
            except OSError:
                pass
            finally:
                counters.close()
        return events
