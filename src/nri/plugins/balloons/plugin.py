"""`balloons`: pin containers to shared sets of CPUs that grow and shrink with the requests of their containers.

The policy is in `nri.placement.balloons`. The plugin `balloons` of nri-plugins has the same options and annotations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from nri.host import Root
from nri.host.interrupts import read_interrupts
from nri.placement.balloons.options import PluginOptions
from nri.placement.balloons.policy import Balloons
from nri.placement.plugin import FLAGS, PlacementPlugin
from nri.placement.tuning import unmovable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.stub.program.options import Flag


class BalloonsPlugin(PlacementPlugin):
    """Pin containers to sets of CPUs that grow and shrink with requests: balloons, of types that you define."""

    name = "balloons"
    policy_type = Balloons
    flags: ClassVar[Mapping[str, Flag]] = FLAGS
    annotations: ClassVar[Mapping[str, str]] = Balloons.annotations
    Config = PluginOptions
    config: PluginOptions

    def configure(self) -> None:
        super().configure()
        options = self._options
        interrupts = partial(read_interrupts, Root(options.hostRoot))
        for kind in options.balloonTypes:
            reason = unmovable(interrupts, options.controllableInterrupts, True, kind.irqClaim)
            if reason:
                self.log.warning("balloonTypes %s: irqClaim: %s", kind.name, reason)


if __name__ == "__main__":
    BalloonsPlugin.main()
