"""The service memoryevict: evict an offline pod when the node's memory usage reaches the threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.rubik.evict import DueEviction, EvictionService
from nri.agent.rubik.service import Services
from nri.config import Between

#: The rows of /proc/meminfo with memory that is free or can be freed by the kernel.
_AVAILABLE: Final = ("MemFree", "Buffers", "Cached", "SReclaimable")


@dataclass(frozen=True, slots=True)
class Block:
    """The settings of memoryevict."""

    threshold: Annotated[int, Between(1, 99)]
    interval: Annotated[int, Between(1, 3600)] = 1
    cooldown: Annotated[int, Between(1, 2**63 - 2)] = 4


def memory_percent(meminfo: Mapping[str, int]) -> float:
    """Return the percentage of the node's memory in use, without freeable pages. Raises ValueError if it is unknown."""
    total = meminfo.get("MemTotal", 0)
    if total <= 0:
        raise ValueError("the node's memory is unknown: /proc/meminfo has no MemTotal")
    return 100 * max(total - sum(meminfo.get(name, 0) for name in _AVAILABLE), 0) / total


class MemoryEvict(EvictionService):
    """The service that evicts an offline pod when the node's memory is full."""

    name = "memoryevict"

    def due(self, round_: Round[Services], pods: Sequence[Pod]) -> DueEviction | None:  # noqa: ARG002  only the node's usage decides
        """Return the eviction that is due if the node's memory usage has reached the threshold."""
        try:
            used = memory_percent(round_.sample.sizes)
        except ValueError as error:
            round_.cannot(self.name, "no pod is evicted", round_.sample.no_memory or str(error))
            return None
        self._readings = f"{used:.0f} % of the node's memory is in use; eviction starts at {self.block.threshold} %"
        return DueEviction("memory", self._readings) if used >= self.block.threshold else None
