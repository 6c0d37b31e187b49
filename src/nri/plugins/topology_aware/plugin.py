"""`topology-aware`: pin each container to CPUs and memory that are near to each other, by a tree of the machine.

One job: the policy `nri.placement.topology_aware` as a plugin, under the options and annotations of
nri-plugins' plugin of this name. The plugin around it is `nri.placement.plugin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

import nri
from nri.host import Root
from nri.host.interrupts import read_interrupts
from nri.placement.containers import Pins
from nri.placement.plugin import FLAGS, PlacementPlugin
from nri.placement.topology_aware.options import Options
from nri.placement.topology_aware.policy import TopologyAware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.placement.containers import Container
    from nri.placement.machine import Machine
    from nri.placement.policy import Policy
    from nri.placement.state import PlacementState
    from nri.stub.program.options import Flag

__all__ = ["TopologyAwarePlugin"]

_SUFFIX = ".resource-policy.nri.io"


class TopologyAwarePlugin(PlacementPlugin):
    """Pin containers to CPUs and memory nodes that are near to each other, exclusive ones for Guaranteed pods."""

    name = "topology-aware"
    flags: ClassVar[Mapping[str, Flag]] = FLAGS
    annotations: ClassVar[Mapping[str, str]] = {
        f"{key}{_SUFFIX}": what
        for key, what in {
            "prefer-shared-cpus": "true: no exclusive CPUs; false: also beside a part of a CPU",
            "prefer-isolated-cpus": "whether exclusive CPUs are best ones that the kernel isolates",
            "require-isolated-cpus": "true: the container is refused if there are none",
            "prefer-reserved-cpus": "true: the CPUs of the system",
            "prefer-cpu-priority": "high, normal, low or none",
            "memory-type": "dram, pmem, hbm or mixed; several with commas",
            "cold-start": "{duration: 60s}: without DRAM for so long, on machines with PMEM or CXL memory",
            "hide-hyperthreads": "true: one thread of each core",
            "unlimited-burstable": "system, package, die, numa or l3cache: where containers without a limit are",
            "topologyhints": "mounts, devices, all or none: what of it is a hint for its place",
            "allow.topologyhints": "{type: prefix or glob, paths}: paths that are hints although they are denied",
            "deny.topologyhints": "{type: prefix or glob, paths}: paths that are no hints",
            "strict.topologyhints": "true: the container is refused if its place does not meet its hints",
            "scheduling-class": "one of schedulingClasses: how its processes are scheduled",
            "cpu-class": "one of cpuClasses: how its own CPUs are set",
            "irq-affinity": "{claim, mask, mode}: interrupts that its own CPUs take, or are spared",
            "cpu.preserve": "true: its CPUs are left alone",
            "memory.preserve": "true: its memory nodes are left alone",
        }.items()
    } | {
        "resource-policy.nri.io/affinity": "containers that it is best near to",
        "resource-policy.nri.io/anti-affinity": "containers that it is best far from",
    }

    @dataclass(frozen=True)
    class Config(Options):
        """Keys of the configuration, or of the `spec` of a TopologyAwarePolicy: see the plugin's page."""

        stateDir: str = "/var/lib/nri/placement"
        hostRoot: str = "/"

    config: Config

    def __init__(self) -> None:
        super().__init__()
        #: When a container that began without DRAM is to have it.
        self._warm_at: dict[str, float] = {}

    @nri.every(1.0)
    def warm(self) -> None:
        """Let containers have DRAM whose cold start is over."""
        with self._lock:
            policy, now, changes = self._policy, monotonic(), dict[str, Pins]()
            if not isinstance(policy, TopologyAware) or not self._connected:
                return
            cold = policy.cold_starts()
            self._warm_at = {name: self._warm_at.get(name, now + after_s) for name, after_s in cold.items()}
            over = [name for name, at in self._warm_at.items() if at <= now]
            for name in over:
                changes |= policy.warm(name)
            if over:
                self._save(policy)
                self._ask(changes)

    def make(
        self, machine: Machine, options: Any, state: PlacementState | None, containers: Mapping[str, Container]
    ) -> Policy:
        interrupts = partial(read_interrupts, Root(options.hostRoot))
        return TopologyAware(machine, options, state=state, containers=containers, interrupts=interrupts)


if __name__ == "__main__":
    TopologyAwarePlugin.main()
