"""The benchmarks: `python -m bench [CASE...] [--quick] [--rounds N]`, every pairing in one run, rounds interleaved.

Writes bench/RESULTS.md with tables and bench/results.svg, unless cases are named: then it only prints. Ratios are
medians over the rounds of the ratio to Go with Go in the same round; the spread beside them is the middle half.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench import report
from bench.pairs import BARE, NAMES, PAIRINGS, Pairing, Round, bare_ms, pairing, rss_kb, spawn_ms
from tests.peers.build import peer
from tests.peers.drivers import LineProcess


@dataclass(frozen=True)
class Case:
    """One table: events of one kind under one load."""

    title: str
    kind: str
    plugins: int = 1
    callers: int = 1
    idle_us: int = 0
    events: int = 600
    delay_ms: int = 0
    fan_out: bool = False


SC, CC = "state change", "CreateContainer"
CASES = {
    "state": Case(f"{SC}, 1 plugin, back to back", "psc"),
    "create": Case(f"{CC}, 1 plugin, back to back", "cc"),
    "state-sparse": Case(f"{SC}, 1 plugin, 5 ms idle before each event", "psc", idle_us=5000, events=80),
    "create-sparse": Case(f"{CC}, 1 plugin, 5 ms idle before each event", "cc", idle_us=5000, events=80),
    "state-4": Case(f"{SC}, 4 plugins", "psc", plugins=4, events=200),
    "create-4": Case(f"{CC}, 4 plugins", "cc", plugins=4, events=200),
    "state-10": Case(f"{SC}, 10 plugins", "psc", plugins=10, events=100),
    "state-10-fan": Case(f"{SC}, 10 plugins, to all at once", "psc", plugins=10, events=100, fan_out=True),
    "create-10": Case(f"{CC}, 10 plugins", "cc", plugins=10, events=100),
    "state-8c": Case(f"{SC}, 1 plugin, 8 callers", "psc", callers=8, events=2400),
    "create-8c": Case(f"{CC}, 1 plugin, 8 callers", "cc", callers=8, events=1600),
    "slow": Case(
        f"{SC}, 4 plugins that take 5 ms each, 8 callers", "psc", plugins=4, callers=8, events=160, delay_ms=5
    ),
}
#: Numbers of containers, and how often they are measured for each round of the other cases: a short time varies more.
SYNC = {100: 3.0, 1000: 0.5, 10_000: 0.25}


@dataclass
class Measured:
    """Per pairing, one value per round."""

    p50: dict[str, list[float]] = field(default_factory=dict)
    p99: dict[str, list[float]] = field(default_factory=dict)
    rate: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    floor_us: list[float] = field(default_factory=list)

    def add(self, name: str, result: Round) -> None:
        """Take one round of one pairing."""
        for table, value in (
            (self.p50, result.quantile(0.5)),
            (self.p99, result.quantile(0.99)),
            (self.rate, result.per_second),
            (self.cpu, result.cpu_us),
        ):
            table.setdefault(name, []).append(value)


def say(text: str) -> None:
    """Progress, on stderr."""
    sys.stderr.write(text + "\n")


def run_case(case: Case, rounds: int, scale: float) -> Measured:
    """All pairings of a case, interleaved."""
    measured = Measured()
    events = max(case.callers * 4, int(case.events * scale))
    names = tuple(PAIRINGS)
    with contextlib.ExitStack() as stack:
        running: dict[str, Pairing] = {
            name: stack.enter_context(pairing(*sides, case.plugins, delay_ms=case.delay_ms, fan_out=case.fan_out))
            for name, sides in PAIRINGS.items()
        }
        floor = stack.enter_context(LineProcess([peer("pp")]))
        for name in names:  # warm up: caches, allocators, first imports
            running[name].round(case.kind, max(case.callers * 4, events // 2), case.callers)
        for n in range(rounds):
            for name in names[n % len(names) :] + names[: n % len(names)]:
                measured.add(name, running[name].round(case.kind, events, case.callers, case.idle_us))
            floor.send(f"6400 {250 if case.kind == 'cc' else 18} {events} {case.idle_us}")
            answer = floor.wait_for(lambda line, n=n: "ns" in line and floor.lines.index(line) == n, timeout_s=120)
            measured.floor_us.append(statistics.median(answer["ns"]) / 1e3)
    return measured


def run_sync(containers: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds from configured to synchronized, seen by the plugin."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (runtime, plugin) in PAIRINGS.items():
            with pairing(runtime, plugin, containers=containers) as running:
                process = running.plugins[0]
                took = process.wait_event("synchronized")["ns"] - process.wait_event("configured")["ns"]
                times.setdefault(name, []).append(took / 1e6)
    return times


def run_start(rounds: int) -> dict[str, list[float]]:
    """Milliseconds from spawn to configured, and of bare interpreters."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for plugin, name in NAMES.items():
            configured, synchronized = spawn_ms(plugin)
            times.setdefault(f"{name} plugin: spawn to configured", []).append(configured)
            times.setdefault(f"{name} plugin: spawn to synchronized", []).append(synchronized)
        for name, imports in BARE.items():
            times.setdefault(name, []).append(bare_ms(imports))
    return times


def run_memory(rounds: int) -> dict[str, list[float]]:
    """Resident kilobytes, idle after Synchronize and after 4,000 events, each with a runtime of its own kind."""
    sizes: dict[str, list[float]] = {}
    for _ in range(rounds):
        for kind, name in NAMES.items():
            with pairing(kind, kind) as running:
                time.sleep(0.3)
                sizes.setdefault(f"{name} plugin, idle", []).append(rss_kb(running.plugins[0].pid))
                for event in ("psc", "cc"):
                    running.round(event, 2000)
                sizes.setdefault(f"{name} plugin, loaded", []).append(rss_kb(running.plugins[0].pid))
                sizes.setdefault(f"{name} runtime, loaded", []).append(rss_kb(running.runtime.pid))
    return sizes


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of: {', '.join([*CASES, 'sync', 'start', 'memory'])}")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument(
        "--quick", action="store_true", help="3 rounds of a third of the events: only to see that it works"
    )
    options = parser.parse_args()
    rounds, scale = (3, 0.34) if options.quick else (options.rounds, 1.0)
    everything = [*CASES, "sync", "start", "memory"]
    unknown = set(options.cases) - set(everything)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}")
    chosen = options.cases or everything
    document = report.Document(rounds)
    steps: dict[str, Callable[[], Any]] = {
        name: lambda case=case: document.case(case, run_case(case, rounds, scale)) for name, case in CASES.items()
    }
    steps["sync"] = lambda: document.sync({n: run_sync(n, max(3, int(rounds * often))) for n, often in SYNC.items()})
    steps["start"] = lambda: document.start(run_start(rounds * 2))
    steps["memory"] = lambda: document.memory(run_memory(3))
    began = time.monotonic()
    for n, name in enumerate(chosen, 1):
        say(f"[{n}/{len(chosen)}] {name} ({time.monotonic() - began:.0f} s)")
        print(steps[name](), flush=True)
    if not options.cases and not options.quick:
        document.write()
        say("wrote bench/RESULTS.md and bench/results.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
