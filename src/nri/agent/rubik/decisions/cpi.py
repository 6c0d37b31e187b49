"""Interference told by cycles per instruction (CPI): online pods that slow down, and the offline ones that do it.

A series is a list of pairs of time in nanoseconds and value, ascending. An online pod's usual CPI is a mean and a
standard deviation, folded from samples as they grow old; it is an outlier when at least three samples of five minutes
are far above. Suspects are scored by how their CPU use of ten minutes goes with that pod's CPI. Here the table of the
services ends; `nri.agent.rubik.blocks` is where it began.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from nri.agent.rubik.pods import Pod
from nri.policies.writes import Write

__all__ = [
    "ANNOTATION",
    "LIMITED_US",
    "Baseline",
    "Online",
    "add",
    "antagonists",
    "cpi_of",
    "expire",
    "limits",
    "normalized",
    "outlier",
    "score",
    "split",
    "within",
]

ANNOTATION: Final = "volcano.sh/cpi"
#: The quota of a pod that is limited, in microseconds.
LIMITED_US: Final = 10_000
GUILTY: Final = 0.15
OUTLIER_NS, SUSPECT_NS = 300 * 10**9, 600 * 10**9
_LEAST_CPU: Final = 0.25
_FILTERED_FROM: Final = 60
_OUTLIERS: Final = 3

Series = list[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Baseline:
    """The usual CPI of a pod: of how many samples, their mean and standard deviation."""

    count: int = 0
    mean: float = 0.0
    std: float = 0.0

    def threshold(self) -> float:
        """The CPI above which a sample is far from the usual."""
        return self.mean + 2 * self.std

    def fold(self, values: Sequence[float]) -> Baseline:
        """Return the baseline with further samples."""
        count = self.count + len(values)
        if not values:
            return self
        mean = (self.count * self.mean + math.fsum(values)) / count
        squares = self.count * (self.std**2 + (self.mean - mean) ** 2) + math.fsum(
            (each - mean) ** 2 for each in values
        )
        return Baseline(count, mean, math.sqrt(squares / count))


class Online(NamedTuple):
    """An online pod: its baseline, and the series of its CPI and CPU use."""

    baseline: Baseline
    cpi: Series
    cpu: Series


def cpi_of(cycles: int, instructions: int) -> float:
    """Return cycles per instruction. Raises ValueError if none was counted."""
    if instructions <= 0:
        raise ValueError("no instruction was counted")
    return cycles / instructions


def add(series: Series, at: int, value: float) -> None:
    """Add a sample. Raises ValueError for a time that is none, or before that of the last one."""
    if at < (series[-1][0] if series else 0):
        raise ValueError(f"{at} is not a time of a sample")
    series.append((at, value))


def within(series: Series, start: int, end: int) -> Series:
    """Return the samples from `start` on, up to the first one at `end` or after it."""
    first = bisect_left(series, (start, -math.inf))
    return series[first : bisect_left(series, (end, -math.inf)) + 1] if start <= end else []


def normalized(series: Series) -> Series:
    """Return the series with values that sum up to 1; one whose sum is 0 as it is."""
    total = math.fsum(value for _, value in series)
    return [(at, value / total) for at, value in series] if total else list(series)


def split(series: Series, before: int) -> tuple[Series, Series]:
    """Return what is older than a time, and the rest."""
    place = bisect_left(series, (before, -math.inf))
    return series[:place], series[place:]


def expire(pod: Online, before: int) -> Online:
    """Fold what is older than a time into the baseline: samples of a pod at work that are not far from the usual."""
    old, cpi = split(pod.cpi, before)
    old_cpu, cpu = split(pod.cpu, before)
    busy = dict(old_cpu)
    most = pod.baseline.threshold() if pod.baseline.count >= _FILTERED_FROM else math.inf
    usual = [value for at, value in old if busy.get(at, 0.0) >= _LEAST_CPU and value <= most]
    return Online(pod.baseline.fold(usual), cpi, cpu)


def outlier(pod: Online, now: int, window_ns: int = OUTLIER_NS) -> bool:
    """Whether an online pod is slowed down now."""
    if pod.baseline.count <= _FILTERED_FROM:
        return False
    busy = dict(within(pod.cpu, now - window_ns, now))
    most = pod.baseline.threshold()
    found = within(pod.cpi, now - window_ns, now)
    return sum(value > most and busy.get(at, 0.0) >= _LEAST_CPU for at, value in found) >= _OUTLIERS


def score(pod: Online, suspect: Series, now: int, window_ns: int = SUSPECT_NS) -> float:
    """Return how much a suspect's CPU use goes with a pod's CPI: above `GUILTY` it is an antagonist."""
    use = dict(normalized(within(suspect, now - window_ns, now)))
    most = pod.baseline.threshold()
    total = 0.0
    for at, value in within(pod.cpi, now - window_ns, now):
        part = use.get(at, 0.0)
        if value > most:
            total += part * (1 - most / value)
        elif most:
            total += part * (value / most - 1)
    return total


def antagonists(online: Iterable[Online], suspects: Mapping[str, Series], now: int) -> set[str]:
    """Return the offline pods to limit: all antagonists of slowed pods, or the greatest user if there is none."""
    slowed = [pod for pod in online if outlier(pod, now)]
    found = {name for name, series in suspects.items() for pod in slowed if score(pod, series, now) > GUILTY}
    if found or not slowed:
        return found
    used = {name: math.fsum(value for _, value in _recent(series, now)) for name, series in suspects.items()}
    heaviest = max(used, key=lambda name: used[name], default="")
    return {heaviest} if used.get(heaviest, 0.0) > 0 else set()


def limits(pod: Pod) -> list[Write]:
    """Return the writes that limit a pod and its containers, the containers first; all of them hold, or none."""
    folders = (*(each.folder for each in pod.containers), pod.folder)
    return [Write(folder, "cpu.cfs_quota", str(LIMITED_US), "cpi") for folder in folders]


def _recent(series: Series, now: int) -> Series:
    return within(series, now - SUSPECT_NS, now)
