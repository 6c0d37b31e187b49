"""Plots of `bench.studies.rubik`: bars with their values, and lines over seconds. Pure text (SVG)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

__all__ = ["OURS", "PLAIN", "WORSE", "bars", "line"]

PLAIN, WORSE, OURS = "#9db4c8", "#d9534f", "#2a7de1"
_WIDTH, _LEFT, _MOST = 680, 190, 380
_COLOURS: Final = (OURS, PLAIN)


def bars(title: str, rows: Sequence[tuple[str, float, str, str]]) -> str:
    """Bars from left to right: what each is, its value, the value as text, its colour."""
    longest = max((value for _, value, _, _ in rows), default=0.0) or 1.0
    drawn = []
    for place, (what, value, text, colour) in enumerate(rows):
        y, width = 40 + 22 * place, _MOST * min(value / longest, 1.0)
        drawn.append(
            f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(what)}</text>'
            f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="15" rx="2" fill="{colour}"/>'
            f'<text x="{_LEFT + width + 6:.0f}" y="{y + 12}">{escape(text)}</text>'
        )
    return _picture(title, 22 * len(rows) + 50, "".join(drawn))


def line(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], moments: Mapping[str, float]) -> str:
    """Values over seconds, from 0 on, as steps; moments are upright lines with a word."""
    every = [point for points in lines.values() for point in points]
    right, top = max(x for x, _ in every), max(1.0, *(y for _, y in every))
    across, down = _WIDTH - 90, 180

    def at(x: float, y: float) -> tuple[float, float]:
        return 50 + across * x / right, 50 + down * (1 - y / top)

    end = f'<text x="{50 + across}" y="{down + 72}" text-anchor="end">{right:.1f} s</text>'
    drawn = [f'<text x="50" y="{down + 72}">0 s</text>{end}']
    for mark in (0.0, 1.0, top):
        x, y = at(0, mark)
        drawn.append(
            f'<path d="M{x:.0f} {y:.1f}h{across}" stroke="#ddd"/><text x="14" y="{y + 4:.1f}">{mark:.2g}</text>'
        )
    for place, (word, moment) in enumerate(moments.items()):
        x, y = at(moment, top)
        drawn.append(
            f'<path d="M{x:.1f} {y:.1f}v{down}" stroke="{WORSE}" stroke-dasharray="4 3"/>'
            f'<text x="{x + 5:.0f}" y="{y + down - 8 - 15 * place:.0f}" fill="{WORSE}">{escape(word)}</text>'
        )
    for place, (name, points) in enumerate(lines.items()):
        steps = "".join(f"H{at(x, y)[0]:.1f}V{at(x, y)[1]:.1f}" for x, y in points)
        x, y = at(*points[0])
        colour = _COLOURS[place % len(_COLOURS)]
        drawn.append(f'<path d="M{x:.1f} {y:.1f}{steps}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(f'<text x="{60 + 160 * place}" y="42" fill="{colour}">{escape(name)}</text>')
    return _picture(title, down + 90, "".join(drawn))


def _picture(title: str, height: int, drawn: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif"'
        f' font-size="12"><rect width="100%" height="100%" fill="white"/><text x="12" y="22" font-size="15"'
        f' font-weight="700">{escape(title)}</text>{drawn}</svg>\n'
    )
