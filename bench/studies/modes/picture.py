"""The picture of the modes: from the request for a pod to the first instruction, and to the policy in force."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

from bench.studies.apiserver.tables import quantile
from bench.studies.modes.agents import NONE
from bench.studies.modes.measured import Mode
from bench.studies.modes.tables import title

_WITH, _WITHOUT, _BEFORE, _AGENTLESS = "#2a7de1", "#d9534f", "#c8d6e5", "#e3e3e3"
_LEFT, _WIDTH, _HEIGHT = 150, 560, 18


def picture(modes: Mapping[str, Mode]) -> str:
    """A group of bars for each number of pods, each on its own scale: medians, and p99 as a line."""
    rows: list[str] = []
    y = 74
    for count in sorted({count for mode in modes.values() for count in mode.batches}):
        drawn, y = _group(modes, count, y)
        rows += drawn
    heading = "From the request for a pod: the first instruction of its process, and its policy in force (medians)"
    legend = _legend([(_BEFORE, "until the process starts"), (_WITHOUT, "it runs without policy"),
                      (_WITH, "policy comes into force")])  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 190}" height="{y + 6}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="12" y="22" font-size="15" font-weight="700">{heading}</text>{legend}{"".join(rows)}</svg>\n'
    )


def _legend(entries: list[tuple[str, str]]) -> str:
    drawn, x = "", 12
    for colour, words in entries:
        drawn += (
            f'<rect x="{x}" y="36" width="12" height="12" fill="{colour}" rx="2"/><text x="{x + 17}" y="46">{words}'
        )
        drawn += "</text>"
        x += 30 + 7 * len(words)
    return drawn + f'<text x="{x}" y="46" fill="#555">thin line: p99 of both</text>'


def _group(modes: Mapping[str, Mode], count: int, y: int) -> tuple[list[str], int]:
    """All modes at one number of pods."""
    lives_by_mode = {name: [life for batch in mode.batches[count] for life in batch.lives]
             for name, mode in modes.items() if count in mode.batches}  # fmt: skip
    maximum = max(
        max(quantile([life.start_ms for life in lives], 0.99), *(life.force_ms or 0.0 for life in lives))
        for lives in lives_by_mode.values()
    )
    scale = _WIDTH / maximum
    rows = [f'<text x="12" y="{y + 12}" font-weight="600">{escape(title(count))}</text>']
    y += 18
    for name, lives in lives_by_mode.items():
        starts = [life.start_ms for life in lives]
        forces = [life.force_ms for life in lives if life.force_ms is not None]
        start, start_p99 = quantile(starts, 0.5), quantile(starts, 0.99)
        rows.append(f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        rows.append(_bar(0, start, y, scale, _AGENTLESS if name == NONE else _BEFORE))
        words = f"{start:.0f} ms, never"
        end = start
        if forces:
            force = quantile(forces, 0.5)
            bare = quantile([life.window_ms or 0.0 for life in lives], 0.5)
            start_p99, end = max(start_p99, quantile(forces, 0.99)), max(start + bare, force)
            if bare:
                rows.append(_bar(start, start + bare, y, scale, _WITHOUT))
            at = _LEFT + force * scale
            rows.append(f'<rect x="{at - 1.5:.1f}" y="{y}" width="3" height="{_HEIGHT}" fill="{_WITH}"/>')
            words = f"{start:.0f} ms, policy at {force:.0f}"
        line = f'x1="{_LEFT + end * scale:.1f}" x2="{_LEFT + start_p99 * scale:.1f}" y1="{y + 9}" y2="{y + 9}"'
        rows.append(f'<line {line} stroke="#777"/>')
        rows.append(f'<text x="{_LEFT + max(start_p99, end) * scale + 8:.0f}" y="{y + 13}">{words}</text>')
        y += _HEIGHT + 4
    return rows, y + 14


def _bar(begin: float, end: float, y: int, scale: float, colour: str) -> str:
    return (
        f'<rect x="{_LEFT + begin * scale:.1f}" y="{y + 2}" width="{(end - begin) * scale:.1f}" '
        f'height="{_HEIGHT - 4}" fill="{colour}" rx="2"/>'
    )
