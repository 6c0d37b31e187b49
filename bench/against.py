"""Compare this revision with another one: `python -m bench --against REV [CASE...]`.

Each revision runs its own package in its own processes. Rounds alternate, so that other load of the machine affects
both. A figure is the ratio of this revision to the other one in the same round: the median, and the middle half of the
rounds as spread. A case is worse if the whole middle half lies on the wrong side of 1.

The processes of a case are restarted several times: the place of a process in memory alone is worth a few per cent,
which rounds of the same two processes cannot tell from a change. Runtime and plugins are pinned to one core each, so
that the scheduler does not decide whether they share one.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

from bench.builds import ROOT, Build, cases_of, checkout
from bench.cases import CASES, SYNC, Case
from bench.pairs import Pairing, Round, pairing, rss_kb, spawn_ms
from bench.report import spread, table

#: Rounds with the same processes.
SITTING = 4
#: Builds by name; the value is whether it is compiled.
BUILDS = {"compiled": True, "pure": False}
BOTH = ("runtime", "plugin")


@dataclass
class Figure:
    """One figure of one build, for both revisions and each round.

    Attributes:
        unit: of the values, as the table shows it.
        more_is_better: throughput.
    """

    unit: str = "us"
    more_is_better: bool = False
    present: list[float] = field(default_factory=list)
    before: list[float] = field(default_factory=list)

    def ratio(self) -> tuple[float, float, float]:
        """The ratio of present to before: the median of the rounds, and the bounds of their middle half."""
        return spread([now / then for now, then in zip(self.present, self.before, strict=True)])

    @property
    def worse(self) -> bool:
        """Whether the whole middle half is on the wrong side of 1."""
        _, low, high = self.ratio()
        return high < 1 if self.more_is_better else low > 1

    def __str__(self) -> str:
        middle, low, high = self.ratio()
        values = " / ".join(_short(statistics.median(side)) for side in (self.present, self.before))
        return f"{middle:.2f} ({low:.2f}-{high:.2f}){' !' if self.worse else ''}  {values} {self.unit}".rstrip()


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


#: The figures of one case: build -> name of the figure -> figure.
Figures = Mapping[str, Mapping[str, Figure]]


class Comparison:
    """Measures cases of the present revision and of another one.

    Args:
        before: a checkout of the other revision.
        builds: of BUILDS.
        rounds: how often each case is measured, in all.
        scale: the share of a round's events to run.
    """

    def __init__(self, before: Path, builds: Iterable[str], rounds: int, scale: float = 1.0) -> None:
        self._sides = {name: (Build(ROOT, BUILDS[name]), Build(before, BUILDS[name])) for name in builds}
        self._rounds = rounds
        self._scale = scale

    def measure(self, name: str) -> Figures:
        """One case, by name."""
        other: dict[str, Callable[[], Figures]] = {"sync": self._sync, "start": self._start, "memory": self._memory}
        return other[name]() if name in other else self._events(CASES[name])

    def _alternating(self, n: int) -> Iterable[tuple[str, str, Build]]:
        """Build, side and what to start, for one round: neighbours are compared, and each is first half the time."""
        for name, (present, before) in self._sides.items():
            pair = [("present", present), ("before", before)]
            for side, build in pair if n % 2 == 0 else reversed(pair):
                yield name, side, build

    def _events(self, case: Case) -> Figures:
        """Events of one kind under one load."""
        figures = {
            name: {"p50": Figure(), "p99": Figure(), "events/s": Figure("", more_is_better=True), "CPU": Figure()}
            for name in self._sides
        }
        events = case.scaled(self._scale)
        for first in range(0, self._rounds, SITTING):
            with contextlib.ExitStack() as stack:
                running: dict[tuple[str, str], Pairing] = {}
                for name, side, build in self._alternating(first // SITTING):
                    started = stack.enter_context(
                        pairing(
                            build, build, case.plugins, delay_ms=case.delay_ms, in_turn=case.in_turn,
                            recorder=BOTH if case.recorder else (), pinned=True,
                        )
                    )  # fmt: skip
                    started.round(case.kind, max(case.callers * 4, events // 2), case.callers)  # warm up
                    running[name, side] = started
                for n in range(first, min(first + SITTING, self._rounds)):
                    for name, side, _ in self._alternating(n):
                        _add(
                            figures[name],
                            side,
                            running[name, side].round(case.kind, events, case.callers, case.idle_us),
                        )
        return figures

    def _sync(self) -> Figures:
        """From configured to synchronized, seen by the plugin."""
        figures = {name: {f"{size:,} containers": Figure("ms") for size in SYNC} for name in self._sides}
        for size, often in SYNC.items():
            for n in range(max(3, int(self._rounds * often * 0.5))):
                for name, side, build in self._alternating(n):
                    with pairing(build, build, containers=size) as running:
                        process = running.plugins[0]
                        took = process.wait_event("synchronized")["ns"] - process.wait_event("configured")["ns"]
                        _values(figures[name][f"{size:,} containers"], side).append(took / 1e6)
        return figures

    def _start(self) -> Figures:
        """From spawning a plugin's process, under the Go runtime."""
        figures = {name: {"to configured": Figure("ms"), "to synchronized": Figure("ms")} for name in self._sides}
        for n in range(self._rounds * 2):
            for name, side, build in self._alternating(n):
                for figure, value in zip(figures[name].values(), spawn_ms(build), strict=True):
                    _values(figure, side).append(value)
        return figures

    def _memory(self) -> Figures:
        """Resident memory, idle after Synchronize and after 4,000 events."""
        titles = ("plugin, idle", "plugin, loaded", "runtime, loaded")
        figures = {name: {title: Figure("MiB") for title in titles} for name in self._sides}
        for n in range(3):
            for name, side, build in self._alternating(n):
                with pairing(build, build) as running:
                    sleep(0.3)
                    sizes = [rss_kb(running.plugins[0].pid)]
                    for kind in ("psc", "cc"):
                        running.round(kind, 2000)
                    sizes += [rss_kb(running.plugins[0].pid), rss_kb(running.runtime.pid)]
                for figure, size in zip(figures[name].values(), sizes, strict=True):
                    _values(figure, side).append(size / 1024)
        return figures


def _values(figure: Figure, side: str) -> list[float]:
    return figure.present if side == "present" else figure.before


def _add(figures: Mapping[str, Figure], side: str, result: Round) -> None:
    values = (result.quantile(0.5), result.quantile(0.99), result.per_second, result.cpu_us)
    for figure, value in zip(figures.values(), values, strict=True):
        _values(figure, side).append(value)


def describe(title: str, figures: Figures) -> str:
    """The table of one case."""
    head = ["build", *next(iter(figures.values()))]
    return f"### {title}\n\n" + table(head, [[name, *map(str, row.values())] for name, row in figures.items()]) + "\n"


def verdict(revision: str, measured: Mapping[str, Figures]) -> tuple[str, bool]:
    """The last line, which names the figures that are worse beyond their spread; and whether there are any."""
    worse = [
        f"{case} ({build}: {', '.join(bad)})"
        for case, figures in measured.items()
        for build, row in figures.items()
        if (bad := [name for name, figure in row.items() if figure.worse])
    ]
    if not worse:
        return f"nothing is worse than {revision} beyond its spread", False
    return f"worse than {revision} beyond the spread: {'; '.join(worse)}", True


def run(revision: str, names: Sequence[str], rounds: int, scale: float, builds: Sequence[str]) -> int:
    """Measure; print a table for each case and a last line. Returns 1 if a figure is worse, else 0.

    RevisionError: the revision does not exist, has no benchmarks, or cannot be compiled.
    """
    before = checkout(revision)
    for name in builds:
        for root in (ROOT, before):
            Build(root, BUILDS[name]).path()  # compile now: it takes minutes and must not happen between two rounds
    case_names = cases_of(before)
    comparison = Comparison(before, builds, rounds, scale)
    measured: dict[str, Figures] = {}
    print(f"present / {revision}: ratio (middle half of {rounds} rounds), the two medians; ! is worse beyond it\n")
    for name in names:
        title = CASES[name].title if name in CASES else name
        if name not in case_names:
            print(f"### {title}\n\nskipped: the benchmarks of {revision} do not have {name}\n", flush=True)
            continue
        measured[name] = comparison.measure(name)
        print(describe(title, measured[name]), flush=True)
    line, is_worse = verdict(revision, measured)
    print(line)
    return int(is_worse)
