"""The tables of views and of lags. Pure text."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.report import ratios, table
from bench.studies.apiserver.views import CACHED, CLIENT, INFORMER, INFORMER_LIST, LISTED, NRI, READY

#: The most that NRI's first view may take of the API server's list, as a ratio of medians.
GOAL = 0.10


class ViewCost(NamedTuple):
    """All views of one way: milliseconds and processor milliseconds (ours, and the server's) by round, and bytes."""

    ms: list[list[float]]
    cpu_ms: list[float]
    server_ms: list[float]
    bytes: int


def quantile(values: Sequence[float], q: float) -> float:
    """The value at that part of the ordered ones."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def views(measured: Mapping[int, Mapping[str, ViewCost]]) -> str:
    """First full views, by pods and way."""
    rows = []
    for pods, ways in measured.items():
        base = _medians(ways[LISTED])
        cached = _medians(ways[CACHED])
        for name, cost in ways.items():
            pooled = [ms for one in cost.ms for ms in one]
            times = [f"{quantile(pooled, q):.1f}" for q in (0.5, 0.95, 0.99)]
            against = [ratios(_medians(cost), other) for other in (base, cached)]
            used = [f"{statistics.median(values):.1f}" for values in (cost.cpu_ms, cost.server_ms)]
            rows.append([str(pods), name, *times, *against, *used, f"{cost.bytes / 1024:.1f}" if cost.bytes else ""])
    head = ["pods", "first full view", "p50 ms", "p95", "p99", "p50 to list", "p50 to list from cache", "CPU ms",
            "server's CPU ms", "KiB"]  # fmt: skip
    return table(head, rows)


def _medians(cost: ViewCost) -> list[float]:
    return [statistics.median(one) for one in cost.ms]


def goal(measured: Mapping[int, Mapping[str, ViewCost]]) -> str:
    """Whether NRI's first view takes as little of the list's time as it should, by pods."""
    sentences = []
    for name in (NRI, READY):
        ratios_by_size = []
        for pods, ways in measured.items():
            if name in ways:
                ratio = statistics.median(_medians(ways[name])) / statistics.median(_medians(ways[LISTED]))
                ratios_by_size.append(f"{ratio:.2f} with {pods} ({'reached' if ratio <= GOAL else 'missed'})")
        if ratios_by_size:
            sentences.append(f"{name}: {', '.join(ratios_by_size)}")
    return f"To be reached: NRI's p50 at most {GOAL:.2f} of that of the list. Measured: {'; '.join(sentences)}."


class Cell(NamedTuple):
    """A place on the grid: pods, containers in each, bytes of a pod's annotations, a round trip to the API server."""

    pods: int
    containers: int
    annotation_bytes: int
    distance_ms: float = 0.0

    def __str__(self) -> str:
        distance = f", {self.distance_ms:g} ms away" if self.distance_ms else ""
        return f"{self.pods} pods of {self.containers}, {self.annotation_bytes} bytes of annotations{distance}"


def grid(measured: Sequence[tuple[Cell, Mapping[str, ViewCost]]]) -> str:
    """The list and NRI with a runtime that has its state ready, by place on the grid; near ones first."""
    rows = []
    for cell, ways in measured:
        listed, ready = ways[LISTED], ways[READY]
        against = [
            ratios(_medians(ready), _medians(ways[name])) if name in ways else "" for name in (LISTED, CACHED, CLIENT)
        ]
        reached = statistics.median(_medians(ready)) <= GOAL * statistics.median(_medians(listed))
        used = [statistics.median(cost.cpu_ms) + statistics.median(cost.server_ms) for cost in (listed, ready)]
        rows.append(
            [
                *(str(cell.pods), str(cell.containers), f"{cell.annotation_bytes / 1024:g}", f"{cell.distance_ms:g}"),
                *(_times(listed), _times(ready), *against, "yes" if reached else "no"),
                *(f"{value:.1f}" for value in used),
                *(f"{cost.bytes / 1024:.0f}" for cost in (listed, ready)),
            ]
        )
    head = ["pods", "containers", "annotations KiB", "away ms", "list p50 (p95, p99) ms", "NRI p50 (p95, p99) ms",
            "NRI to list", "to list from cache", "to the agent's client", f"<= {GOAL:.2f}", "CPU ms, list",
            "CPU ms, NRI", "KiB, list", "KiB, NRI"]  # fmt: skip
    return table(head, rows)


def informers(measured: Sequence[tuple[Cell, Mapping[str, ViewCost]]]) -> str:
    """Rubik's informers by the API server and by NRI, by place on the grid."""
    rows = []
    for cell, ways in measured:
        by_list, by_nri = ways[INFORMER_LIST], ways[INFORMER]
        reached = statistics.median(_medians(by_nri)) <= GOAL * statistics.median(_medians(by_list))
        used = [f"{statistics.median(cost.cpu_ms):.1f}" for cost in (by_list, by_nri)]
        against = ratios(_medians(by_nri), _medians(by_list))
        rows.append(
            [
                *(str(cell.pods), f"{cell.distance_ms:g}", _times(by_list), _times(by_nri), against),
                *("yes" if reached else "no", *used),
            ]
        )
    head = ["pods", "away ms", "apiserver p50 (p95, p99) ms", "NRI p50 (p95, p99) ms", "NRI to apiserver",
            f"<= {GOAL:.2f}", "CPU ms, apiserver", "CPU ms, NRI"]  # fmt: skip
    return table(head, rows)


def _times(cost: ViewCost) -> str:
    """`5.1 (7.9, 12.0)`: p50, p95 and p99 of all rounds, in milliseconds."""
    pooled = [ms for one in cost.ms for ms in one]
    middle, high, highest = (f"{quantile(pooled, q):.1f}" for q in (0.5, 0.95, 0.99))
    return f"{middle} ({high}, {highest})"


class Lag(NamedTuple):
    """Milliseconds from the start of each container until an observer could act on it; negative: before its start."""

    how: str
    ms: Sequence[float]


def lags(measured: Mapping[str, Sequence[Lag]]) -> str:
    """When each observer reports a container, by how the pods were made."""
    rows = []
    for title, values in measured.items():
        for lag in values:
            if not lag.ms:
                rows.append([title, lag.how, "0", "", "", ""])
                continue
            low, middle, high = (f"{quantile(lag.ms, q):+.0f}" for q in (0.01, 0.5, 0.99))
            rows.append([title, lag.how, str(len(lag.ms)), low, middle, high])
    return table(["pods", "reported by", "containers", "p1 ms", "p50 ms", "p99 ms"], rows)
