"""The service psi: evict an offline pod when online pods wait for CPU, memory or I/O.

The kernel's pressure figures (PSI) of a pod's cgroup are the percentage of the last 10 s in which the pod waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.rubik.evict import DueEviction, EvictionService
from nri.agent.rubik.pods import offline
from nri.agent.rubik.service import Services
from nri.config import Between
from nri.config.complaint import WrongValue
from nri.host import Unsupported, cgroup_pressure

#: For each resource under pressure, the resource whose use decides the victim.
VICTIM_BY: Final = {"cpu": "cpu", "io": "cpu", "memory": "memory"}


@dataclass(frozen=True, slots=True)
class Block:
    """The settings of psi: the resources, and the percentage of the last 10 s above which a pod is evicted.

    `cooldown`, in seconds after an eviction, does not exist in rubik, where the next round may evict again.
    """

    resource: list[Literal["cpu", "memory", "io"]]
    interval: Annotated[int, Between(10, 30)] = 10
    avg10threshold: Annotated[float, Between(5.0, 100.0)] = 5.0
    cooldown: Annotated[int, Between(0, 3600)] | None = None

    def __post_init__(self) -> None:
        if not self.resource:
            raise WrongValue("resource", "is empty", "list at least one of cpu, memory, io")


def resource_under_pressure(resources: Iterable[str], avg10: Mapping[str, Iterable[float]], threshold: float) -> str:
    """Return the first resource for which an online pod waits more than `threshold` percent of the time, or else ""."""
    over = (name for name in resources if any(percent > threshold for percent in avg10.get(name, ())))
    return next(over, "")


class PsiEvict(EvictionService):
    """The service that evicts an offline pod when online pods wait."""

    name = "psi"

    def due(self, round_: Round[Services], pods: Sequence[Pod]) -> DueEviction | None:
        """Return an eviction if an online pod waits too long for a resource."""
        online = [pod for pod in pods if not offline(pod)]
        waits = {resource: list(self._wait_percentages(round_, resource, online)) for resource in self.block.resource}
        threshold = self.block.avg10threshold
        worst = ", ".join(f"{max(percents):g} % for {resource}" for resource, percents in waits.items() if percents)
        self._readings = f"online pods wait {worst}; eviction starts above {threshold:g} %" if worst else ""
        resource = resource_under_pressure(self.block.resource, waits, threshold)
        if not resource:
            return None
        longest = max(waits[resource])
        reason = f"an online pod waits {longest:g} % of the time for {resource}, more than {threshold:g}"
        return DueEviction(VICTIM_BY[resource], reason)

    def _wait_percentages(self, round_: Round[Services], resource: str, online: Iterable[Pod]) -> Iterable[float]:
        """Yield the percentage of the last 10 s in which each online pod waited for a resource."""
        hierarchies = round_.parts.executor.hierarchies
        for pod in online:
            try:
                pressure = cgroup_pressure(hierarchies, pod.folder, resource)  # type: ignore[arg-type]  # of the file
            except (OSError, ValueError):
                continue
            if isinstance(pressure, Unsupported):
                round_.cannot(self.name, f"no pod is evicted for {resource}", pressure.reason)
            elif pressure.some is not None:
                yield pressure.some.avg10
