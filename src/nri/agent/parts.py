"""The parts that all transports and loops of the agent share."""

from __future__ import annotations

from dataclasses import dataclass

from nri import host
from nri.agent import cgroup_paths as paths
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.observer import Observer
from nri.agent.pods import PodSource
from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore
from nri.host.cgroups.drivers import driver_in_use
from nri.interfaces import Reporter


@dataclass(frozen=True, slots=True)
class Parts:
    """The shared parts of one agent.

    Attributes:
        profile: the profile that the agent enforces.
        root: the machine.
        store: the current rules, with notifications of changes.
        pods: this node's pods as API objects.
        decisions: the runner of the hooks, which records their decisions.
        executor: the writer of values to the machine.
        history: the records that `explain` shows.
        observer: the metrics.
        reporter: receives every step of every NRI event, for example to record it.
        chosen_driver: the kubelet's cgroup driver, `paths.SYSTEMD` or `paths.CGROUPFS`; "" means that it is detected.
    """

    profile: Profile
    root: host.Root
    store: RuleStore
    pods: PodSource
    decisions: Decisions
    executor: Executor
    history: History
    observer: Observer
    chosen_driver: str = ""
    reporter: Reporter | None = None

    @property
    def driver(self) -> str:
        """The kubelet's cgroup driver. The default is systemd, if the driver is neither chosen nor detectable."""
        if self.chosen_driver:
            return self.chosen_driver
        driver = driver_in_use(self.executor.hierarchies)
        return paths.SYSTEMD if driver is None else driver.value
