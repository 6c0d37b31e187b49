"""`balloons`: give containers CPUs together, in sets that grow and shrink with what their containers request.

One job: the policy `nri.placement.balloons` as a plugin, under the options and annotations of nri-plugins'
plugin of this name. The plugin around it is `nri.placement.plugin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from nri.host import Root
from nri.host.interrupts import read_interrupts
from nri.host.locality import near
from nri.placement import masks
from nri.placement.balloons.options import Options
from nri.placement.balloons.policy import Balloons
from nri.placement.plugin import FLAGS, PlacementPlugin
from nri.placement.tuning import unmovable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.placement.containers import Container
    from nri.placement.machine import Machine
    from nri.placement.policy import Policy
    from nri.placement.state import PlacementState
    from nri.stub.program.options import Flag

__all__ = ["BalloonsPlugin"]

_SUFFIX = ".resource-policy.nri.io"


class BalloonsPlugin(PlacementPlugin):
    """Pin containers to sets of CPUs that grow and shrink with what they request: balloons, of types that you name."""

    name = "balloons"
    flags: ClassVar[Mapping[str, Flag]] = FLAGS
    annotations: ClassVar[Mapping[str, str]] = {
        f"{key}{_SUFFIX}": what
        for key, what in {
            "balloon.balloons": "the type of balloon that it belongs to",
            "memory-type": "dram, pmem, hbm or mixed; several with commas",
            "hide-hyperthreads": "true: one thread of each core",
            "scheduling-class": "one of schedulingClasses: how its processes are scheduled",
            "cpu.preserve": "true: it is in no balloon",
            "memory.preserve": "true: its memory nodes are left alone",
        }.items()
    }

    @dataclass
    class Config(Options):
        """Keys of the configuration, or of the `spec` of a BalloonsPolicy: see the plugin's page."""

        stateDir: str = "/var/lib/nri/placement"
        hostRoot: str = "/"

    config: Config

    def configure(self) -> None:
        super().configure()
        options = self._options
        interrupts = partial(read_interrupts, Root(options.hostRoot))
        for kind in options.balloonTypes:
            reason = unmovable(interrupts, options.controllableInterrupts, True, kind.irqClaim)
            if reason:
                self.log.warning("balloonTypes %s: irqClaim: %s", kind.name, reason)

    def make(
        self, machine: Machine, options: Any, state: PlacementState | None, containers: Mapping[str, Container]
    ) -> Policy:
        close = cache(partial(self._near, Root(options.hostRoot)))
        return Balloons(machine, options, near=close, state=state, containers=containers)

    def _near(self, root: Root, path: str) -> list[int]:
        """The CPUs near to a device in /sys, several sets if it is made of several; told if there are none."""
        found = [masks.parse(where.cpus) for where in near(root, path).values() if where.cpus]
        if not found:
            self.log.warning("preferCloseToDevices: nothing in /sys says which CPUs are near to %s", path)
        return found


if __name__ == "__main__":
    BalloonsPlugin.main()
