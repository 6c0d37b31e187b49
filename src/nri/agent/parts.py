"""Parts: all that the agent's transports and loops share, handed to each when it is made.

A transport is made with the whole of the settings and these, and has the form of `nri.agent.transports.Transport`.
Next: `nri.agent.transports` and `nri.agent.loops`, beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from nri import host
from nri.agent import cgroup_paths as paths
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.explain import History
from nri.agent.observe import Observer
from nri.agent.pods import PodSource
from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore
from nri.host.cgroups.drivers import driver_in_use
from nri.interfaces import Reporter

__all__ = ["Parts"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The shared parts of one agent.

    Attributes:
        profile: whose rules are enforced.
        root: the machine.
        store: the rules of now, and a word when one has changed.
        pods: this node's pods as API objects.
        decisions: asks the hooks, and keeps the records.
        executor: writes to the machine.
        history: the records, for `explain`.
        observer: the counts.
        reporter: told every step of every event that comes over NRI; a recorder.
        chosen_driver: the kubelet's cgroup driver, `paths.SYSTEMD` or `paths.CGROUPFS`; empty: that of the machine.
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
        """The kubelet's cgroup driver; where no pod was ever made and none is chosen, systemd."""
        if self.chosen_driver:
            return self.chosen_driver
        found = driver_in_use(self.executor.hierarchies)
        return paths.SYSTEMD if found is None else found.value
