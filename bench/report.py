"""Tables and the picture of a benchmark run."""

from __future__ import annotations

import platform
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from bench.run import Case, Measured

HERE = Path(__file__).parent
BASE = "Go - Go"

#: case -> pairing -> (must, goal) for the median latency as a ratio to Go with Go.
GOALS: dict[str, dict[str, tuple[float, float]]] = {
    "state change, 1 plugin, back to back": {"nri - nri": (0.30, 0.15), "Go - nri": (0.70, 0.42), "nri - Go": (0.85, 0.58)},
    "CreateContainer, 1 plugin, back to back": {"nri - nri": (0.50, 0.25), "Go - nri": (0.75, 0.48), "nri - Go": (0.95, 0.60)},
    "state change, 1 plugin, 5 ms idle before each event": {"nri - nri": (0.60, 0.30)},
    "CreateContainer, 1 plugin, 5 ms idle before each event": {"nri - nri": (0.75, 0.40)},
    "state change, 10 plugins": {"nri - nri": (0.45, 0.25)},
    "CreateContainer, 10 plugins": {"nri - nri": (0.50, 0.28)},
}


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

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.parts: list[str] = []
        self.bars: list[tuple[str, str, float]] = []

    def case(self, case: Case, measured: Measured) -> str:
        """The table of one case."""
        rows = []
        floor = statistics.median(measured.floor_us)
        for name, p50 in measured.p50.items():
            base = measured.p50[BASE]
            goals = GOALS.get(case.title, {}).get(name)
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
                    f"{goals[0]:.2f} / {goals[1]:.2f}" if goals else "",
                ]
            )
            if name != BASE:
                self.bars.append((case.title, name, spread([v / b for v, b in zip(p50, base, strict=True)])[0]))
        head = ["runtime - plugin", "p50 us", "p50 to Go", "p99 to Go", "events/s to Go", "CPU us", "CPU to Go"]
        text = f"### {case.title}\n\n" + table([*head, f"p50 / C floor ({floor:.0f} us)", "must / goal (p50)"], rows) + "\n"
        self.parts.append(text)
        return text

    def sync(self, measured: dict[int, dict[str, list[float]]]) -> str:
        """Synchronize by number of containers."""
        rows = []
        for containers, times in measured.items():
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
        rows = [[name, f"{statistics.median(v):.1f}", ratios(v, base)] for name, v in measured.items()]
        text = "### Start of a plugin, under the Go runtime\n\n"
        text += table(["what", "ms", "to an interpreter that imports protobuf's runtime"], rows) + "\n"
        self.parts.append(text)
        return text

    def memory(self, measured: dict[str, list[float]]) -> str:
        """Resident memory."""
        rows = []
        for name, values in measured.items():
            base = measured.get(name.replace("nri", "Go", 1), values)
            rows.append([name, f"{statistics.median(values) / 1024:.1f}", ratios(values, base)])
        text = "### Memory\n\n" + table(["process", "MiB resident", "to Go"], rows) + "\n"
        self.parts.append(text)
        return text

    def write(self) -> None:
        """RESULTS.md, between its two marks, and results.svg."""
        file = HERE / "RESULTS.md"
        text = file.read_text() if file.exists() else "<!-- results -->\n<!-- end -->\n"
        head, _, rest = text.partition("<!-- results -->")
        _, _, tail = rest.partition("<!-- end -->")
        about = (
            f"{self.rounds} interleaved rounds, {time.strftime('%Y-%m-%d')}, CPython {platform.python_version()}, "
            f"Linux {platform.release().split('-')[0]}, {platform.machine()}, 2 cores shared with other work.\n"
        )
        body = "\n".join(self.parts)
        file.write_text(f"{head}<!-- results -->\n{about}\n![p50 as a ratio to Go with Go](results.svg)\n\n{body}\n<!-- end -->{tail}")
        (HERE / "results.svg").write_text(picture(self.bars))


COLOURS = {"nri - nri": "#2a7de1", "Go - nri": "#56b4a6", "nri - Go": "#c9a227"}


def picture(bars: list[tuple[str, str, float]]) -> str:
    """Horizontal bars: median latency as a ratio to Go with Go; the line at 1 is Go."""
    left, width, height = 400, 420, 16
    scale = width / max(1.2, max(value for _, _, value in bars) * 1.05)
    rows: list[str] = []
    y = 56
    title = ""
    for case, name, value in bars:
        if case != title:
            y += 10
            rows.append(f'<text x="{left - 90}" y="{y + 12}" text-anchor="end" font-weight="600">{escape(case)}</text>')
            title = case
        rows.append(
            f'<text x="{left - 8}" y="{y + 12}" text-anchor="end" fill="#555">{name}</text>'
            f'<rect x="{left}" y="{y + 1}" width="{value * scale:.0f}" height="{height - 3}" fill="{COLOURS[name]}" rx="2"/>'
            f'<text x="{left + value * scale + 5:.0f}" y="{y + 12}">{value:.2f}</text>'
        )
        y += height
    one = left + scale
    line = f'<line x1="{one:.0f}" y1="44" x2="{one:.0f}" y2="{y + 6}" stroke="#d33" stroke-dasharray="4 3"/>'
    label = f'<text x="{one:.0f}" y="38" text-anchor="middle" fill="#d33">Go with Go = 1</text>'
    heading = '<text x="12" y="22" font-size="15" font-weight="700">Median latency of an event (runtime - plugin): less is better</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{y + 20}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f"{heading}{label}{line}{''.join(rows)}</svg>\n"
    )
