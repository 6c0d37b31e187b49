"""Blocks of services in rubik's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from nri.config import Between
from nri.config.complaint import WrongValue

_MOST_MB: Final = 9999 * 1024
_MilliS = Annotated[int, Between(10, 10_000)]
_Percent = Annotated[int, Between(10, 100)]
_Seconds = Annotated[int, Between(1, 3600)]
_Threshold = Annotated[int, Between(1, 99)]
_Cooldown = Annotated[int, Between(1, 2**63 - 2)]
_Word = Annotated[int, Between(-(2**63), 2**63 - 1)]


@dataclass(frozen=True, slots=True)
class Psi:
    """Eviction when online pods wait: for which resources, and from how many percent of the last 10 s on.

    `cooldown` is in seconds after an eviction, and no key of rubik's: there the next round may evict again.
    """

    resource: list[Literal["cpu", "memory", "io"]]
    interval: Annotated[int, Between(10, 30)] = 10
    avg10threshold: Annotated[float, Between(5.0, 100.0)] = 5.0
    cooldown: Annotated[int, Between(0, 3600)] | None = None

    def __post_init__(self) -> None:
        _some(self.resource, "cpu, memory, io")


@dataclass(frozen=True, slots=True)
class CpuEvict:
    """Eviction by the node's CPU, averaged over `windows` seconds: 0 is two intervals."""

    interval: _Seconds = 1
    windows: Annotated[int, Between(0, 3600)] = 0
    threshold: _Threshold = 60
    cooldown: _Cooldown = 20

    def __post_init__(self) -> None:
        windows = self.windows or 2 * self.interval
        if windows % self.interval or windows > 3600:
            reason = f"{windows} s is no multiple of interval {self.interval} s of at most 3600 s"
            raise WrongValue("windows", reason, f"such as {self.interval}")
        object.__setattr__(self, "windows", windows)


@dataclass(frozen=True, slots=True)
class MemoryEvict:
    """Eviction by the node's memory in use."""

    threshold: _Threshold
    interval: _Seconds = 1
    cooldown: _Cooldown = 4


def _some(resource: list[Any], known: str) -> None:
    if not resource:
        raise WrongValue("resource", "is empty", f"name some of {known}")
