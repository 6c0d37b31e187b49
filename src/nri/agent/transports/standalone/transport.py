"""The standalone transport: one thread for cgroups and one for the network, so that a hanging tc does not delay quotas.

A change of pods or rules is applied immediately. Once per `interval` all values are compared, including values that are
believed to be correct. Decisions for pods wait until all pods are known; decisions for kube-QoS classes and host
programs do not wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Protocol

from nri.agent import cgroup_paths as paths
from nri.agent.cgroup_paths import KUBE_CLASSES
from nri.agent.decisions import reason_of
from nri.agent.hooks import FOLDER, PROGRAM
from nri.agent.model import HostApplication, KubeQosFolder, Pod, Subject, writes
from nri.agent.parts import Parts
from nri.agent.pods.running import running
from nri.agent.profile import load
from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone.pods import NAME, NothingMore, PodRound, Reconciler
from nri.agent.transports.standalone.tally import Tally
from nri.agent.worker import TIMER, Worker
from nri.host import Result

_PODS, _RULES = "pods", "rules"
#: The subject of values of the node's network in `explain`.
_NETWORK: Final = Subject("node/network", name="network")
#: The maximum number of pods of a round; a node has fewer pods.
_MAX_PODS: Final = 4096
#: The maximum number of host programs of a round; a longer list is a mistake.
_MAX_PROGRAMS: Final = 1024
_log = logging.getLogger("nri.agent")


class NetworkRound(Protocol):
    """The profile's work in a round over the network."""

    def apply(self, pods: Iterable[Pod], tally: Tally, *, force: bool) -> list[Result]:
        """Apply the current rules to the network. `force` also checks values that are believed to be correct."""
        ...


class Standalone:
    """Standalone mode: compares values in force with decisions, and corrects them.

    Args:
        settings: the settings of the agent.
        parts: the shared parts of the agent.
        network: the round over the network; None means the profile's round.
        now: returns monotonic seconds.
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
        self._network = network or (load(profile.network)(settings, parts) if profile.network else None)
        interval_s = settings.standalone.interval
        self._workers = [Worker("nri-standalone", self.round, interval_s, now=now)]
        if self._network is not None:
            self._workers.append(Worker("nri-standalone-network", self.network_round, interval_s, now=now))
        self._subscribed = False
        self.last = Tally()
        self.last_network = Tally()
        self._has_run = False

    def start(self) -> None:
        """Start the rounds; the first round begins immediately."""
        if not self._subscribed:
            self._subscribed = True
            self._parts.pods.subscribe(lambda: self._wake_workers(_PODS))
        for worker in self._workers:
            worker.start()

    def stop(self) -> None:
        """Stop after the current rounds. Written values stay."""
        for worker in self._workers:
            worker.stop()

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Request a round over all values."""
        self._wake_workers(_RULES, *kinds)

    def health(self) -> tuple[bool, str]:
        """Return whether all pods were decided once, and the counts of the last round."""
        error = next((worker.error for worker in self._workers if worker.error), "")
        if error:
            return False, f"a round failed: {error}"
        if not self._has_run:
            return False, "pods are not known yet"
        return True, str(self.last)

    def round(self, reasons: frozenset[str]) -> None:
        """Decide and write the values of folders, pods and programs once.

        Args:
            reasons: the reasons of the round: `timer`, a change of pods or rules, or the kind of a changed rule.
        """
        force, tally = TIMER in reasons or _RULES in reasons, Tally()
        if reasons != {_PODS}:
            self._reconciler.node(tally)
            kube_classes(self._parts, tally, force=force)
            programs(self._parts, tally, force=force)
        if self._parts.pods.synced:
            pods = self._running_pods(tally)
            self._pods.all(pods, tally, force=force)
            self._reconciler.end(pods, reasons, tally)
            self._has_run = True
        self.last = tally

    def network_round(self, reasons: frozenset[str]) -> None:
        """Apply the rules to the network once."""
        if self._network is None or not self._parts.pods.synced:
            return
        tally = Tally()
        pods = self._running_pods(tally)
        results = self._network.apply(pods, tally, force=TIMER in reasons)
        self._parts.history.record(_NETWORK, NAME, results)
        self.last_network = tally

    def _running_pods(self, tally: Tally) -> list[Pod]:
        listed = self._parts.pods.pods()
        if len(listed) > _MAX_PODS:
            self._parts.observer.left_out("pods", len(listed) - _MAX_PODS)
        hierarchies, driver = self._parts.executor.hierarchies, self._parts.driver
        return list(running(listed[:_MAX_PODS], hierarchies, driver, lambda key, error: tally.failed(key, [error])))

    def _wake_workers(self, *reasons: str) -> None:
        for worker in self._workers:
            worker.request_run(*reasons)


def kube_classes(parts: Parts, tally: Tally, *, force: bool) -> None:
    """Decide and write the values of the cgroups of the three Kubernetes QoS classes."""
    for kube_class in KUBE_CLASSES:
        context = KubeQosFolder(kube_class, paths.kube_class_path(kube_class, parts.driver))
        _decide_and_write(parts, FOLDER, context, kube_class, tally, force)


def programs(parts: Parts, tally: Tally, *, force: bool) -> None:
    """Decide and write the values of the host programs that documents list."""
    try:
        listed = list(parts.profile.programs(parts.store.document, parts.driver))
    except ValueError as error:
        tally.failed("host applications", [error])
        return
    if len(listed) > _MAX_PROGRAMS:
        parts.observer.left_out("host applications", len(listed) - _MAX_PROGRAMS)
    for context in islice(listed, _MAX_PROGRAMS):
        try:
            _decide_and_write(parts, PROGRAM, context, f"host application {context.name}", tally, force)
        except Exception as error:  # noqa: BLE001  an error of one program must not stop the others
            tally.failed(f"host application {context.name}", [error])
            _log.exception("decision for a host application failed: %r", context.name)


def _decide_and_write(
    parts: Parts, stage: str, context: KubeQosFolder | HostApplication, what: str, tally: Tally, force: bool
) -> None:
    outcome = parts.decisions.decide(stage, context, NAME)
    tally.items += 1
    tally.failed(what, outcome.errors)
    requests = writes(context.folder, outcome.changes, reason_of(outcome))
    if requests:
        results = parts.executor.write(requests, force=force, keep=False)
        tally.wrote(results)
        parts.decisions.record(context, NAME, results)
