"""The transport: two threads, one for cgroups and one for the network, so that a hanging tc delays no quota.

Rules: a change of pods or rules is taken up at once, however many there are; every `interval` all is looked at, also
what is believed to be right, so that a value that is overwritten is back a round later. Nothing is decided before all
pods are known once, but for folders and programs, which need none. Next: :mod:`nri.agent.loops`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from nri.agent.explain import Subject
from nri.agent.parts import Parts
from nri.agent.pods.running import running
from nri.agent.profile import load
from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone import folders
from nri.agent.transports.standalone.pods import NAME, NothingMore, PodRound, Reconciler
from nri.agent.transports.standalone.tally import Tally
from nri.agent.worker import TIMER, Worker
from nri.host import Result
from nri.policies.running import RunningPod

__all__ = ["NetworkRound", "Standalone"]

_PODS, _RULES = "pods", "rules"
#: What is set for the node's network is found under this in `explain`.
_NETWORK: Final = Subject("node/network", name="network")
#: More pods than that are on no node.
_MOST_PODS: Final = 4096


class NetworkRound(Protocol):
    """What a round over the network does; made with the settings and the parts of the agent."""

    def apply(self, pods: Iterable[RunningPod], tally: Tally, *, force: bool) -> list[Result]:
        """Bring the network to what the rules of now want; `force` looks also at what is believed to be right."""
        ...


class Standalone:
    """Standalone mode: what is in force is compared with what should be, and repaired.

    Args:
        settings: of the agent; `standalone` is read, the rest by the profile.
        parts: what the agent shares.
        network: the round over the network; None for the profile's.
        now: monotonic seconds.
    """

    name = NAME
    values = None

    def __init__(
        self,
        settings: AgentSettings,
        parts: Parts,
        *,
        network: NetworkRound | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        profile = parts.profile
        self._reconciler: Reconciler = load(profile.reconciler)(parts) if profile.reconciler else NothingMore()
        self._pods = PodRound(parts, self._reconciler)
        self._network = network or (load(profile.network)(settings, parts) if profile.network else NothingMore())
        interval_s = settings.standalone.interval
        self._workers = (
            Worker("nri-standalone", self.round, interval_s, now=now),
            Worker("nri-standalone-network", self.network_round, interval_s, now=now),
        )
        self._subscribed = False
        self.last = Tally()
        self.last_network = Tally()
        self._passed = False

    def start(self) -> None:
        """Begin; the first round is at once."""
        if not self._subscribed:
            self._subscribed = True
            self._parts.pods.subscribe(lambda: self._poke(_PODS))
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """End within the rounds that run. What was written stays."""
        for worker in self._workers:
            worker.stop()

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Look at everything again, soon."""
        self._poke(_RULES, *kinds)

    def health(self) -> tuple[bool, str]:
        """Whether all pods have been looked at once, and what the last round has met."""
        error = next((worker.error for worker in self._workers if worker.error), "")
        if error:
            return False, f"a round has failed: {error}"
        if not self._passed:
            return False, "pods are not known yet"
        return True, str(self.last)

    def round(self, reasons: frozenset[str]) -> None:
        """Go once over folders, pods and programs.

        Args:
            reasons: why; `timer` looks also at what is believed to be right, a kind of rules tells the profile of it.
        """
        force, tally = TIMER in reasons or _RULES in reasons, Tally()
        if reasons != {_PODS}:
            self._reconciler.node(tally)
            folders.kube_classes(self._parts, tally, force=force)
            folders.programs(self._parts, tally, force=force)
        if self._parts.pods.synced:
            pods = self._running(tally)
            self._pods.all(pods, tally, force=force)
            self._reconciler.end(pods, reasons, tally)
            self._passed = True
        self.last = tally

    def network_round(self, reasons: frozenset[str]) -> None:
        """Go once over what is set in the network."""
        if not self._parts.pods.synced:
            return
        tally = Tally()
        pods = self._running(tally)
        results = self._network.apply(pods, tally, force=TIMER in reasons)
        self._parts.history.record(_NETWORK, NAME, results)
        self.last_network = tally

    def _running(self, tally: Tally) -> list[RunningPod]:
        listed = self._parts.pods.pods()
        if len(listed) > _MOST_PODS:
            self._parts.observer.left_out("pods", len(listed) - _MOST_PODS)
        hierarchies, driver = self._parts.executor.hierarchies, self._parts.driver
        return list(running(listed[:_MOST_PODS], hierarchies, driver, lambda key, error: tally.failed(key, [error])))

    def _poke(self, *reasons: str) -> None:
        for worker in self._workers:
            worker.poke(*reasons)
