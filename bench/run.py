"""The benchmarks: `python -m bench [CASE...] [--quick] [--rounds N]`, every pairing in one run, rounds interleaved.

Writes bench/RESULTS.md with tables and bench/results.svg, unless cases are named: then it only prints. Ratios are
medians over the rounds of the ratio to Go with Go in the same round; the spread is their middle half.
With `--old REV` the table of goals also has the figures of another revision of this project, from the same rounds.
With `--against REV` another revision takes Go's place, see `bench.against`; that only prints.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from bench import against, report
from bench.against import BUILDS, SITTING
from bench.builds import Build, RevisionError, checkout
from bench.cases import CASES, EVERYTHING, SYNC, Case
from bench.measured import Measured
from bench.pairs import (
    BARE,
    NAMES,
    PAIRINGS,
    RECORDED,
    Pairing,
    bare_ms,
    include_old,
    pairing,
    rss_kb,
    spawn_ms,
    wakeups,
)
from tests.peers.build import peer
from tests.peers.drivers import LineProcess

#: So long after its last event a process counts as idle, in seconds.
SETTLE_S = 6.0
#: Events of the case "node", and of each of its rounds: the runtime keeps a round's latencies until it has printed
#: them.
NODE_EVENTS = 1_000_000
NODE_ROUND = 5000
#: Short rounds of a recorder's case for each round of the others.
RECORDER_ROUNDS = 8


def say(text: str) -> None:
    """Print progress on stderr."""
    sys.stderr.write(text + "\n")


def run_case(case: Case, rounds: int, scale: float) -> Measured:
    """All pairings of a case, interleaved."""
    measured = Measured()
    events = case.scaled(scale)
    names = tuple(PAIRINGS)
    with contextlib.ExitStack() as stack:
        running: dict[str, Pairing] = {
            name: stack.enter_context(pairing(*sides, case.plugins, delay_ms=case.delay_ms, in_turn=case.in_turn))
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
    """Resident kilobytes, idle after Synchronize and after 4,000 events, each with a runtime of the same kind."""
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


def run_idle(rounds: int) -> dict[str, list[float]]:
    """Wake-ups a minute of runtime and plugin while nothing happens, each with a peer of the same kind."""
    wakeups_by_name: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        processes: dict[str, int] = {}
        for kind, name in NAMES.items():
            running = stack.enter_context(pairing(kind, kind))
            running.round("psc", 50)
            processes |= {f"{name} runtime": running.runtime.pid, f"{name} plugin": running.plugins[0].pid}
        time.sleep(SETTLE_S)
        for _ in range(rounds):
            before = {name: wakeups(pid) for name, pid in processes.items()}
            time.sleep(60)
            for name, pid in processes.items():
                wakeups_by_name.setdefault(name, []).append(float(wakeups(pid) - before[name]))
    return wakeups_by_name


def run_node(events: int) -> dict[str, list[tuple[str, float]]]:
    """Resident kilobytes of our runtime with 1,000 containers, 10 plugins and provenance, on and on."""
    sizes_by_name: dict[str, list[tuple[str, float]]] = {}
    for kind in ("nri", "pure"):
        with pairing(kind, kind, 10) as running:
            sizes = sizes_by_name.setdefault(f"{NAMES[kind]} runtime", [("no container", rss_kb(running.runtime.pid))])
            running.ask("node", containers=1000, timeout_s=600)
            sizes.append(("created", rss_kb(running.runtime.pid)))
            for part in range(1, 5):
                for _ in range(events // 4 // NODE_ROUND):
                    running.round("psc", NODE_ROUND)
                sizes.append((f"{part * events // 4:,} events later", rss_kb(running.runtime.pid)))
    return sizes_by_name


def run_recorder(case: Case, rounds: int, scale: float) -> Measured:
    """The same events with nothing recorded, with everything recorded by the runtime, and by the plugins.

    The runtime's recorder is switched on and off between short rounds of the same processes: other load of the machine
    and where a process lies in memory are more than what a recorder costs. Plugins that record are others than those
    that do not, so that figure is only as good as the number of their starts.
    """
    measured = Measured()
    events = max(20, case.scaled(scale) // 3)
    for first in range(0, rounds, SITTING):
        with contextlib.ExitStack() as stack:
            running: dict[str, Pairing] = {}
            for name, (side, recorder) in RECORDED.items():
                running[name] = stack.enter_context(pairing(side, side, case.plugins, recorder=recorder, pinned=True))
                running[name].round(case.kind, events)
            turns = [
                (name, name if recorded else f"{name.rpartition(', ')[0]}, nothing recorded", recorded)
                for name, (_, recorder) in RECORDED.items()
                for recorded in ((False, True) if "runtime" in recorder else (True,))
            ]
            for n in range(RECORDER_ROUNDS * first, RECORDER_ROUNDS * min(first + SITTING, rounds)):
                for pair, name, recorded in turns if n % 2 == 0 else reversed(turns):
                    measured.add(name, running[pair].round(case.kind, events, recorded=recorded))
    return measured


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(EVERYTHING)}; default: all")
    parser.add_argument(
        "--against",
        metavar="REV",
        help="measure this revision of the project instead of Go, compiled and pure, each with"
        " its own processes; prints present/REV for every figure, and in the last line what is worse beyond its spread"
        " (then the exit code is 1). A worktree of REV and its compiled package stay in build/bench",
    )
    parser.add_argument(
        "--old", metavar="REV", help="also measure this revision of the project, compiled, for the column `old`"
    )
    parser.add_argument(
        "--build", choices=[*BUILDS, "both"], default="both", help="with --against: measure this build only"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each case (default 11; with --against 24)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of a third of the events, as a test")
    options = parser.parse_args()
    unknown = set(options.cases) - set(EVERYTHING)
    if unknown:
        parser.error(f"unknown case {', '.join(sorted(unknown))}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    if options.build != "both" and not options.against:
        parser.error("--build needs --against")
    if options.old and options.against:
        parser.error("--old and --against exclude each other")
    return options


def _beside_go(chosen: Sequence[str], rounds: int, scale: float, old: str, *, write: bool) -> int:
    """Measure every pairing with Go, and those of the revision `old`, if given; `write` writes the page."""
    if old:
        build = Build(checkout(old), compiled=True)
        build.path()  # compile now
        include_old(build)
    document = report.Document(rounds, old)
    steps: dict[str, Callable[[], Any]] = {
        name: (lambda case=case: document.recorder(case, run_recorder(case, rounds, scale)))
        if case.recorder
        else (lambda case=case: document.case(case, run_case(case, rounds, scale)))
        for name, case in CASES.items()
    }
    steps["sync"] = lambda: document.sync({n: run_sync(n, max(3, int(rounds * often))) for n, often in SYNC.items()})
    steps["start"] = lambda: document.start(run_start(rounds * 2))
    steps["memory"] = lambda: document.memory(run_memory(3))
    steps["idle"] = lambda: document.idle(run_idle(3))
    steps["node"] = lambda: document.node(run_node(max(4, int(NODE_EVENTS * scale))))
    began = time.monotonic()
    for n, name in enumerate(chosen, 1):
        say(f"[{n}/{len(chosen)}] {name} ({time.monotonic() - began:.0f} s)")
        print(steps[name](), flush=True)
    if write:
        document.write()
        say("wrote bench/RESULTS.md and bench/results.svg")
    return 0


def main() -> int:
    """Run the selected cases."""
    options = _options()
    rounds, scale = (3, 0.34) if options.quick else (options.rounds or (24 if options.against else 11), 1.0)
    chosen = options.cases or EVERYTHING
    try:
        if options.against:
            builds = tuple(BUILDS) if options.build == "both" else (options.build,)
            return against.run(options.against, chosen, rounds, scale, builds)
        return _beside_go(chosen, rounds, scale, options.old or "", write=not options.cases and not options.quick)
    except RevisionError as error:
        say(f"bench: error: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
