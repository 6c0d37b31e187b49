"""`topology-aware`: pin each container to CPUs and memory close to each other, by a tree of the machine.

The policy is in `nri.placement.topology_aware`. The plugin `topology-aware` of nri-plugins has the same options and
annotations.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, ClassVar

import nri
from nri.placement.containers import Pins
from nri.placement.plugin import FLAGS, PlacementPlugin
from nri.placement.topology_aware.options import PluginOptions
from nri.placement.topology_aware.policy import TopologyAware

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.stub.program.options import Flag


class TopologyAwarePlugin(PlacementPlugin):
    """Pin containers to CPUs and memory nodes close to each other; Guaranteed pods get exclusive CPUs."""

    name = "topology-aware"
    policy_type = TopologyAware
    flags: ClassVar[Mapping[str, Flag]] = FLAGS
    annotations: ClassVar[Mapping[str, str]] = TopologyAware.annotations
    Config = PluginOptions
    config: PluginOptions

    def __init__(self) -> None:
        super().__init__()
        #: The time at which a container that started without DRAM gets DRAM, by container.
        self._warm_at: dict[str, float] = {}

    @nri.every(1.0)
    def warm(self) -> None:
        """Give DRAM to containers whose cold start is over."""
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
                self._update(changes)


if __name__ == "__main__":
    TopologyAwarePlugin.main()
