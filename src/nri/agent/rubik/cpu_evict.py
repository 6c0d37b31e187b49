"""The service cpuevict: evict an offline pod when the node's average CPU usage in a window reaches the threshold."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from nri.agent.loops.round import Round
from nri.agent.model import Pod
from nri.agent.rubik.evict import DueEviction, EvictionService
from nri.agent.rubik.service import Services, Ticks, nanoseconds, share, ticks
from nri.agent.settings.values import AgentSettings
from nri.config import Between
from nri.config.complaint import WrongValue


@dataclass(frozen=True, slots=True)
class Block:
    """The settings of cpuevict. The CPU usage is averaged over `windows` seconds; 0 means two intervals."""

    interval: Annotated[int, Between(1, 3600)] = 1
    windows: Annotated[int, Between(0, 3600)] = 0
    threshold: Annotated[int, Between(1, 99)] = 60
    cooldown: Annotated[int, Between(1, 2**63 - 2)] = 20

    def __post_init__(self) -> None:
        windows = self.windows or 2 * self.interval
        if windows % self.interval or windows > 3600:
            reason = f"{windows} s is not a multiple of interval {self.interval} s up to 3600 s"
            raise WrongValue("windows", reason, f"for example {self.interval}")
        object.__setattr__(self, "windows", windows)


class Window:
    """The node's CPU usage, averaged over a number of seconds."""

    def __init__(self, seconds: float) -> None:
        self._oldest_ns = round((seconds + 1) * 10**9)
        self._samples: deque[tuple[int, Ticks]] = deque()

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, now_ns: int, ticks: Ticks) -> float | None:
        """Add a reading, and return the average percentage in use, or None before the second reading."""
        self._samples.append((now_ns, ticks))
        while now_ns - self._samples[0][0] >= self._oldest_ns:
            self._samples.popleft()
        return share(self._samples[0][1], ticks) if len(self._samples) > 1 else None


class CpuEvict(EvictionService):
    """The service that evicts an offline pod when the node's CPUs are busy."""

    name = "cpuevict"

    def __init__(self, settings: AgentSettings, names: Sequence[str]) -> None:
        super().__init__(settings, names)
        self.window = Window(0)
        #: The average percentage of CPU time in use; None before the second reading.
        self.average: float | None = None

    def block_changed(self) -> None:
        """Reset the window after the settings have changed."""
        super().block_changed()
        self.window = Window(0 if self.block is None else self.block.windows)

    def due(self, round_: Round[Services], pods: Sequence[Pod]) -> DueEviction | None:  # noqa: ARG002  only the node's usage decides
        """Return the eviction that is due if the average has reached the threshold."""
        use = ticks(round_.sample)
        if use is None:
            round_.cannot(self.name, "no pod is evicted", round_.sample.no_cpu)
            return None
        average = self.average = self.window.add(nanoseconds(round_.sample), use)
        if average is not None:
            self._readings = f"the node uses {average:.0f} % of its CPUs; eviction starts at {self.block.threshold} %"
        if average is None or average < self.block.threshold:
            return None
        return DueEviction("cpu", self._readings)
