"""Tables and the picture of a benchmark run."""

from __future__ import annotations

import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from bench.pairs import PURE, old_name

if TYPE_CHECKING:
    from bench.cases import Case
    from bench.measured import Measured

HERE = Path(__file__).parent
BASE = "Go - Go"

STATE, CREATE = "state change, 1 plugin, back to back", "CreateContainer, 1 plugin, back to back"
SPARSE = ", 1 plugin, 5 ms idle before each event"


@dataclass(frozen=True)
class Goal:
    """One figure to reach, as a ratio to Go with Go unless `metric` says otherwise; `must` 0: no gate."""

    title: str
    pairing: str
    metric: str
    must: float
    goal: float

    @property
    def more_is_better(self) -> bool:
        """Throughput."""
        return self.metric == "events/s"


GOALS = [
    Goal(STATE, "nri - nri", "p50", 0.30, 0.15),
    Goal(CREATE, "nri - nri", "p50", 0.50, 0.25),
    Goal("state change" + SPARSE, "nri - nri", "p50", 0.60, 0.30),
    Goal("CreateContainer" + SPARSE, "nri - nri", "p50", 0.75, 0.40),
    Goal(STATE, "Go - nri", "p50", 0.70, 0.38),
    Goal(CREATE, "Go - nri", "p50", 0.75, 0.45),
    Goal(STATE, "nri - Go", "p50", 0.85, 0.55),
    Goal(CREATE, "nri - Go", "p50", 0.95, 0.60),
    Goal("state change, 10 plugins", "nri - nri", "p50", 0.30, 0.15),
    Goal("state change, 10 plugins, one after the other", "nri - nri", "p50", 0.45, 0.15),
    Goal("CreateContainer, 10 plugins", "nri - nri", "p50", 0.50, 0.25),
    Goal("CreateContainer, 10 plugins", "nri - nri", "CPU", 0.55, 0.35),
    Goal("state change, 1 plugin, 8 callers", "nri - nri", "events/s", 2.0, 5.0),
    Goal("state change, 1 plugin, 8 callers", "nri - nri", "p99", 0.9, 0.35),
    Goal("CreateContainer, 1 plugin, 8 callers", "nri - nri", "events/s", 2.0, 5.0),
    Goal("CreateContainer, 1 plugin, 8 callers", "nri - nri", "p99", 0.9, 0.35),
    Goal("state change, 4 plugins that take 5 ms each, 8 callers", "nri - nri", "events/s", 0.0, 3.5),
    Goal(STATE, "nri - nri", "CPU", 0.25, 0.13),
    Goal(CREATE, "nri - nri", "CPU", 0.40, 0.20),
    Goal(STATE, "nri - nri", "C floor", 6.0, 3.0),
    Goal(CREATE, "nri - nri", "C floor", 12.0, 5.0),
    Goal("Synchronize, 100 containers", "nri - nri", "time", 0.6, 0.25),
    Goal("Synchronize, 1,000 containers", "nri - nri", "time", 0.5, 0.18),
    Goal("Synchronize, 10,000 containers", "nri - nri", "time", 0.5, 0.15),
    *[
        Goal(f"Synchronize, {containers} containers", pairing, "time", 0.85, 0.58)
        for containers in ("100", "1,000", "10,000")
        for pairing in ("Go - nri", "nri - Go")
    ],
    Goal("spawn to configured", "nri plugin", "interpreter with protobuf", 1.5, 1.25),
    *[
        Goal(f"{event}, 1 plugin, every step recorded", f"nri - nri, {who}", "p50 without", 1.05, 1.02)
        for event in ("state change", "CreateContainer")
        for who in ("runtime records", "plugin records")
    ],
    Goal("memory, plugin, idle", "nri plugin", "MiB", 2.0, 1.75),
    Goal("memory, plugin, loaded", "nri plugin", "MiB", 1.6, 1.4),
    Goal("memory, runtime, loaded", "nri runtime", "MiB", 1.5, 1.3),
]


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, and the bounds of the middle half."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return statistics.median(values), low, high


def ratios(values: list[float], base: list[float]) -> str:
    """`0.16 (0.15-0.17)`: the ratio in each round, median and middle half."""
    middle, low, high = spread([v / b for v, b in zip(values, base, strict=True)])
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, aligned for people who read the file as it is."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * w for w in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in lines)


class Document:
    """Collects what a run measured."""

    def __init__(self, rounds: int, old: str = "") -> None:
        self.rounds = rounds
        self.old = old
        self.parts: list[str] = []
        self.bars: list[tuple[str, str, float]] = []
        self.reached: dict[tuple[str, str, str], list[float]] = {}

    def _keep(self, title: str, pairing: str, metric: str, values: list[float], base: list[float]) -> None:
        self.reached[title, pairing, metric] = [v / b for v, b in zip(values, base, strict=True)]

    def case(self, case: Case, measured: Measured) -> str:
        """The table of one case."""
        rows = []
        floor = statistics.median(measured.floor_us)
        for name, p50 in measured.p50.items():
            base = measured.p50[BASE]
            self._keep(case.title, name, "p50", p50, base)
            self._keep(case.title, name, "p99", measured.p99[name], measured.p99[BASE])
            self._keep(case.title, name, "events/s", measured.rate[name], measured.rate[BASE])
            self._keep(case.title, name, "CPU", measured.cpu[name], measured.cpu[BASE])
            self._keep(case.title, name, "C floor", p50, measured.floor_us)
            rows.append(
                [
                    name,
                    f"{statistics.median(p50):.0f}",
                    ratios(p50, base),
                    ratios(measured.p99[name], measured.p99[BASE]),
                    ratios(measured.rate[name], measured.rate[BASE]),
                    f"{statistics.median(measured.cpu[name]):.0f}",
                    ratios(measured.cpu[name], measured.cpu[BASE]),
                    f"{statistics.median(p50) / floor:.1f}x",
                ]
            )
            if name in COLOURS:
                self.bars.append((case.title, name, spread([v / b for v, b in zip(p50, base, strict=True)])[0]))
        head = ["runtime - plugin", "p50 us", "p50 to Go", "p99 to Go", "events/s to Go", "CPU us", "CPU to Go"]
        text = f"### {case.title}\n\n" + table([*head, f"p50 / C floor ({floor:.0f} us)"], rows) + "\n"
        self.parts.append(text)
        return text

    def recorder(self, case: Case, measured: Measured) -> str:
        """The cost of a recorder: each build with and without one."""
        rows = []
        for name, p50 in measured.p50.items():
            base = name.rpartition(", ")[0] + ", nothing recorded"
            self._keep(case.title, name, "p50 without", p50, measured.p50[base])
            tables = (measured.p50, measured.p99, measured.rate, measured.cpu)
            against = [ratios(one[name], one[base]) for one in tables]
            rows.append([name, f"{statistics.median(p50):.0f}", *against])
        head = ["runtime - plugin", "p50 us", "p50 to none", "p99 to none", "events/s to none", "CPU to none"]
        text = f"### {case.title}\n\n" + table(head, rows) + "\n"
        self.parts.append(text)
        return text

    def sync(self, measured: dict[int, dict[str, list[float]]]) -> str:
        """Synchronize by number of containers."""
        rows = []
        for containers, times in measured.items():
            for name, values in times.items():
                self._keep(f"Synchronize, {containers:,} containers", name, "time", values, times[BASE])
            rows += [
                [f"{containers:,}", name, f"{statistics.median(values):.1f}", ratios(values, times[BASE])]
                for name, values in times.items()
            ]
        text = "### Synchronize (configured to synchronized, seen by the plugin)\n\n"
        text += table(["containers", "runtime - plugin", "ms", "to Go"], rows) + "\n"
        self.parts.append(text)
        return text

    def start(self, measured: dict[str, list[float]]) -> str:
        """Start-up."""
        base = measured["interpreter and protobuf's runtime"]
        for who in ("nri plugin", "pure nri plugin", "old nri plugin"):
            if spawned := measured.get(f"{who}: spawn to configured"):
                self._keep("spawn to configured", who, "interpreter with protobuf", spawned, base)
        rows = [[name, f"{statistics.median(v):.1f}", ratios(v, base)] for name, v in measured.items()]
        text = "### Start of a plugin, under the Go runtime\n\n"
        text += table(["what", "ms", "to an interpreter that imports protobuf's runtime"], rows) + "\n"
        self.parts.append(text)
        return text

    def memory(self, measured: dict[str, list[float]]) -> str:
        """Resident memory."""
        rows = []
        for name, values in measured.items():
            base = measured[name.removeprefix("pure ").removeprefix("old ").replace("nri", "Go", 1)]
            who, _, when = name.partition(", ")
            self._keep(f"memory, {who.split()[-1]}, {when}", who, "MiB", values, base)
            rows.append([name, f"{statistics.median(values) / 1024:.1f}", ratios(values, base)])
        text = "### Memory\n\n" + table(["process", "MiB resident", "to Go"], rows) + "\n"
        self.parts.append(text)
        return text

    def idle(self, measured: dict[str, list[float]]) -> str:
        """How often something runs while nothing happens."""
        rows = [[name, f"{statistics.median(values):.1f}"] for name, values in measured.items()]
        text = f"### Idle\n\n{table(['process', 'wake-ups a minute'], rows)}\n"
        self.parts.append(text)
        return text

    def node(self, measured: dict[str, list[tuple[str, float]]]) -> str:
        """The memory of a runtime that has a whole node's containers and plugins."""
        rows = [[name, when, f"{kb / 1024:.1f}"] for name, sizes in measured.items() for when, kb in sizes]
        text = f"### A node: 1,000 containers, 10 plugins\n\n{table(['process', 'when', 'MiB resident'], rows)}\n"
        self.parts.append(text)
        return text

    def goals(self) -> str:
        """What was to be reached, and what was."""
        rows = []
        for goal in GOALS:
            values = self.reached.get((goal.title, goal.pairing, goal.metric))
            if values is None:
                continue
            middle, low, high = spread(values)
            better = middle.__ge__ if goal.more_is_better else middle.__le__
            verdict = "goal" if better(goal.goal) else "must" if not goal.must or better(goal.must) else "MISSED"
            bounds = [f"{x:.2f}" if x else "-" for x in (goal.must, goal.goal)]
            measured = f"{middle:.2f} ({low:.2f}-{high:.2f})"
            pure = goal.pairing.replace("nri - nri", PURE) if "nri - nri" in goal.pairing else f"pure {goal.pairing}"
            other_medians = [self._median(goal, name) for name in (old_name(goal.pairing), pure)]
            rows.append([goal.title, goal.pairing, goal.metric, *bounds, measured, verdict, *other_medians])
        head = ["case", "pairing", "figure, as a ratio", "must", "goal", "measured (middle half)", "reached"]
        return "### Goals\n\n" + table([*head, "old", "pure Python"], rows) + "\n"

    def _median(self, goal: Goal, pairing: str) -> str:
        """The same figure of another pairing or process, or "" if it was not measured."""
        values = self.reached.get((goal.title, pairing, goal.metric))
        return f"{spread(values)[0]:.2f}" if values else ""

    def write(self) -> None:
        """RESULTS.md, between its two marks, and results.svg."""
        file = HERE / "RESULTS.md"
        text = file.read_text() if file.exists() else "<!-- results -->\n<!-- end -->\n"
        head, _, after_marker = text.partition("<!-- results -->")
        _, _, tail = after_marker.partition("<!-- end -->")
        about = (
            f"{self.rounds} interleaved rounds, {time.strftime('%Y-%m-%d')}, CPython {platform.python_version()}"
            f", Linux {platform.release().split('-')[0]}, {platform.machine()}, 2 cores shared with other work."
            f"{f' Old is revision {self.old}, compiled.' if self.old else ''}\n"
        )
        body = "\n".join([self.goals(), *self.parts])
        image = "![p50 as a ratio to Go with Go](results.svg)"
        file.write_text(f"{head}<!-- results -->\n{about}\n{image}\n\n{body}\n<!-- end -->{tail}")
        (HERE / "results.svg").write_text(picture(self.bars))


def put(name: str, text: str) -> None:
    """Put a text into RESULTS.md, between the two marks of this name."""
    file = HERE / "RESULTS.md"
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, marker, after_marker = file.read_text().partition(begin)
    _, ended, tail = after_marker.partition(end)
    if not (marker and ended):
        raise ValueError(f"{file} has no {begin} with an {end} after it")
    file.write_text(f"{head}{begin}\n{text}\n{end}{tail}")


COLOURS = {"nri - nri": "#2a7de1", "Go - nri": "#56b4a6", "nri - Go": "#c9a227"}


def picture(bars: list[tuple[str, str, float]]) -> str:
    """Horizontal bars: median latency as a ratio to Go with Go; the line at 1 is Go."""
    origin, width, height = 500, 420, 16
    scale = width / max(1.2, max(value for _, _, value in bars) * 1.05)
    rows: list[str] = []
    y = 56
    title = ""
    for case, name, value in bars:
        if case != title:
            y += 10
            rows.append(
                f'<text x="{origin - 90}" y="{y + 12}" text-anchor="end" font-weight="600">{escape(case)}</text>'
            )
            title = case
        bar = f'width="{value * scale:.0f}" height="{height - 3}" fill="{COLOURS[name]}" rx="2"'
        rows.append(
            f'<text x="{origin - 8}" y="{y + 12}" text-anchor="end" fill="#555">{name}</text>'
            f'<rect x="{origin}" y="{y + 1}" {bar}/>'
            f'<text x="{origin + value * scale + 5:.0f}" y="{y + 12}">{value:.2f}</text>'
        )
        y += height
    one = origin + scale
    line = f'<line x1="{one:.0f}" y1="44" x2="{one:.0f}" y2="{y + 6}" stroke="#d33" stroke-dasharray="4 3"/>'
    label = f'<text x="{one:.0f}" y="38" text-anchor="middle" fill="#d33">Go with Go = 1</text>'
    words = "Median latency of an event (runtime - plugin): less is better"
    heading = f'<text x="12" y="22" font-size="15" font-weight="700">{words}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{origin + width + 60}" height="{y + 20}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{heading}{label}{line}{''.join(rows)}</svg>\n"
    )
