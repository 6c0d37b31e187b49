"""Tables of the engine: calls and cycles compared with containerd, memory, many pods, and the waterfall."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench.report import ratios, table
from bench.studies.engine.cycle import CALLS, CYCLE
from bench.studies.engine.waterfall import KINDS, TITLES

#: By side: milliseconds of every cycle of every round, by call; and CPU milliseconds of a cycle, by round.
Times = Mapping[str, Sequence[Sequence[Mapping[str, float]]]]
Cpu = Mapping[str, Sequence[float]]


def quantile(values: Sequence[float], q: float) -> float:
    """The value at that part of the ordered ones."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def _pooled(rounds: Sequence[Sequence[Mapping[str, float]]], call: str) -> list[float]:
    return [row[call] for one in rounds for row in one]


def _by_round(rounds: Sequence[Sequence[Mapping[str, float]]], call: str, q: float) -> list[float]:
    return [quantile([row[call] for row in one], q) for one in rounds]


def _row(times: Times, call: str) -> list[str]:
    """p50 and p99 of both sides, and their ratios by round."""
    (_, containerd), (_, engine) = times.items()
    cells = []
    for rounds in (containerd, engine):
        cells += [f"{quantile(_pooled(rounds, call), q):.1f}" for q in (0.5, 0.99)]
    return cells + [ratios(_by_round(engine, call, q), _by_round(containerd, call, q)) for q in (0.5, 0.99)]


HEAD = ["containerd p50 ms", "p99", "engine p50 ms", "p99", "p50 to containerd", "p99 to containerd"]


def cycles(measured: Mapping[str, tuple[Times, Cpu]]) -> str:
    """The whole cycle, by plugins and network."""
    rows = []
    for name, (times, cpu) in measured.items():
        (_, containerd), (_, engine) = cpu.items()
        used = [
            f"{statistics.median(containerd):.0f}",
            f"{statistics.median(engine):.0f}",
            ratios([*engine], [*containerd]),
        ]
        rows.append([name, *_row(times, CYCLE), *used])
    return table(["cycle", *HEAD, "containerd CPU ms", "engine CPU ms", "CPU to containerd"], rows)


def calls(times: Times) -> str:
    """One setting, call by call."""
    return table(["call", *HEAD], [[call, *_row(times, call)] for call in (*CALLS, CYCLE)])


def memory(measured: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]], pods: int) -> str:
    """Memory without pods and with `pods` pods, by side: kilobytes by program."""
    rows = []
    for side, (empty, full) in measured.items():
        more = {name: full[name] - empty.get(name, 0) for name in full}
        per_pod = sum(more.values()) / pods
        parts = ", ".join(
            f"{name} {kb / pods / 1024:.2f}" for name, kb in sorted(more.items(), key=lambda one: -one[1])
        )
        rows.append([side, f"{sum(empty.values()) / 1024:.1f}", f"{per_pod / 1024:.2f}", parts,
                     f"{sum(full.values()) / 1024:.1f}"])  # fmt: skip
    head = ["runtime", "MiB without pods", "MiB for each pod of one container", "of that", f"MiB with {pods} pods"]
    return table(head, rows)


def crowds(measured: Mapping[str, Sequence[Any]]) -> str:
    """Seconds for making and for stopping many pods, by side and round (`bench.studies.engine.run.Crowd`)."""
    containerd, engine = measured.values()
    rows = []
    for what, key in (("creation of all", "created_s"), ("stop of all", "stopped_s")):
        seconds = [[getattr(one, key) for one in side] for side in (containerd, engine)]
        rows.append([what, *(f"{statistics.median(values):.1f}" for values in seconds), ratios(seconds[1], seconds[0])])
    return table(["", *(f"{side} s" for side in measured), "to containerd"], rows)


def waterfall(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Mean milliseconds of each call by activity."""
    head = ["ms", *(_short(call) for call in (*CALLS, CYCLE)), "part"]
    total = sum(shares[CYCLE].values())
    rows = []
    for kind in KINDS:
        of = shares[CYCLE].get(kind, 0.0)
        if of < 0.05:
            continue
        cells = [f"{value:.1f}" if (value := shares[call].get(kind, 0.0)) >= 0.05 else "" for call in (*CALLS, CYCLE)]
        rows.append([TITLES.get(kind, kind), *cells, f"{of / total:.0%}"])
    sums = [f"{sum(shares[call].values()):.1f}" for call in (*CALLS, CYCLE)]
    return table(head, [*rows, ["all", *sums, "100%"]])


def _short(call: str) -> str:
    """A call's name, short enough for a column."""
    names = {"RunPodSandbox": "RunPod", "UpdateContainerResources": "Update", "StopPodSandbox": "StopPod",
             "RemovePodSandbox": "RemovePod", CYCLE: "cycle"}  # fmt: skip
    return names.get(call, call.removesuffix("Container"))
