"""A picture as SVG text: boxes, text and arrows, in colours that follow the reader's light or dark setting.

There are no identifiers, and no style rule outside `.nri-picture`, so that several pictures fit on one page. Text
between backticks is set as code. Text that does not fit into its box or into the picture is an error; it is measured
with the widest usual font. Sizes are in pixels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

#: Colour -> in the light, in the dark. `X-fill` is the inside of a box whose edge and words are `X`.
COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "frame": ("#d1d9e0", "#30363d"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "plain": ("#818b98", "#7d8590"),
    "plain-fill": ("#f6f8fa", "#161b22"),
    "blue": ("#0969da", "#58a6ff"),
    "blue-fill": ("#ddf4ff", "#10233f"),
    "green": ("#1a7f37", "#3fb950"),
    "green-fill": ("#dafbe1", "#0f2a1a"),
    "amber": ("#8a5d00", "#d29922"),
    "amber-fill": ("#fff3c4", "#2e2410"),
    "red": ("#cf222e", "#ff7b72"),
    "red-fill": ("#ffebe9", "#361a1d"),
    "purple": ("#6639ba", "#bc8cff"),
    "purple-fill": ("#f3eaff", "#241a38"),
}
SANS = 'system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif'
MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'
#: Widths of letters in DejaVu Sans, the widest of the usual fonts, as parts of the size.
NARROW, WIDE = frozenset("iIjl.,:;'|!()[] tfr-/"), frozenset("mMwWGOQCD%@")


def style() -> str:
    """The style of all pictures. A page that knows its own theme (furo: `data-theme`) comes before the system's."""

    def values(column: int) -> str:
        return "".join(f"--{name}:{pair[column]};" for name, pair in COLOURS.items())

    rules = [
        f".nri-picture{{{values(0)}font-family:{SANS};max-width:100%;height:auto}}",
        f"@media (prefers-color-scheme:dark){{.nri-picture{{{values(1)}}}}}",
        f'body[data-theme="light"] .nri-picture{{{values(0)}}}',
        f'body[data-theme="dark"] .nri-picture{{{values(1)}}}',
        f".nri-picture .code{{font-family:{MONO}}}",
        ".nri-picture .bold{font-weight:600}",
        ".nri-picture .dashed{stroke-dasharray:5 4}",
        ".nri-picture path{fill:none;stroke-width:1.6}",
        ".nri-picture rect{stroke-width:1.3}",
    ]
    for name in COLOURS:
        if f"{name}-fill" in COLOURS:
            rules.append(f".nri-picture .box-{name}{{fill:var(--{name}-fill);stroke:var(--{name})}}")
            rules.append(f".nri-picture .line-{name}{{stroke:var(--{name})}}")
            rules.append(f".nri-picture .head-{name}{{fill:var(--{name})}}")
        if not name.endswith("-fill"):
            rules.append(f".nri-picture .text-{name}{{fill:var(--{name})}}")
    rules.append(".nri-picture .paper{fill:var(--paper);stroke:var(--frame)}")
    return "\n".join(rules)


def parts(text: str) -> list[tuple[str, bool]]:
    """The pieces of a text, and whether each is code: `a `b` c` has three."""
    pieces = re.split(r"`", text)
    return [(piece, bool(number % 2)) for number, piece in enumerate(pieces) if piece]


def width_of(text: str, size: float) -> float:
    """About how wide a text is at most, in pixels."""
    total = 0.0
    for piece, code in parts(text):
        for letter in piece:
            total += 0.6 if code else 0.38 if letter in NARROW else 0.85 if letter in WIDE else 0.62
    return total * size


class Picture:
    """One picture.

    Args:
        width, height: in pixels; pages show it as wide as that, or narrower.
        alt: what the picture says, for those who do not see it. Pages give the same text.
    """

    def __init__(self, width: int, height: int, alt: str) -> None:
        self.width, self.height, self.alt = width, height, alt
        self._parts: list[str] = []

    def words(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        *,
        size: float = 13,
        align: str = "start",
        bold: bool = False,
        room: float | None = None,
    ) -> None:
        """One line of words, `y` at their middle. ValueError if they need more than `room`, or leave the picture."""
        width = width_of(text, size)
        start = x - {"start": 0.0, "middle": width / 2, "end": width}[align]
        inside = 4 <= start <= self.width - width - 4 and size / 2 + 4 <= y <= self.height - size / 2 - 4
        if (room is not None and width > room) or not inside:
            raise ValueError(f"{text!r} does not fit: {width:.0f} px from {start:.0f}, at {y:.0f}; room {room}")
        spans = "".join(
            f'<tspan class="code">{escape(piece)}</tspan>' if code else escape(piece) for piece, code in parts(text)
        )
        kind = f"text-{colour}" + (" bold" if bold else "")
        self._parts.append(
            f'<text x="{x:g}" y="{y + size * 0.36:.4g}" font-size="{size:g}" text-anchor="{align}" class="{kind}"'
            f' xml:space="preserve">{spans}</text>'
        )

    def box(
        self,
        area: tuple[float, float, float, float],
        lines: str | Sequence[str] = (),
        colour: str = "plain",
        *,
        dashed: bool = False,
        size: float = 13,
        bold: bool = False,
        align: str = "middle",
    ) -> None:
        """A box with lines of words in its middle; `bold` makes the first one a title. `area`: x, y, width, height."""
        x, y, width, height = area
        kind = f"box-{colour}" + (" dashed" if dashed else "")
        radius = 6 if height > 30 else 4
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" class="{kind}"/>'
        )
        texts = [lines] if isinstance(lines, str) else list(lines)
        step = size * 1.4
        if len(texts) * step > height + 2:
            raise ValueError(f"{texts} need {len(texts) * step:.0f} px, and have {height:g}")
        top = y + height / 2 - (len(texts) - 1) * step / 2
        at = x + width / 2 if align == "middle" else x + 10
        room = width - (8 if align == "middle" else 14)
        for number, text in enumerate(texts):
            title = bold and number == 0
            small, words = (size, "ink") if title or not bold else (size - 1.5, "soft")
            self.words(at, top + number * step, text, words, size=small, align=align, bold=title, room=room)

    def line(self, *points: tuple[float, float], colour: str = "plain", dashed: bool = False) -> None:
        """A line along the points."""
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path d="{path}" class="line-{colour}{" dashed" if dashed else ""}"/>')

    def arrow(self, *points: tuple[float, float], colour: str = "plain", dashed: bool = False) -> None:
        """A line along the points with a head at its end."""
        (x0, y0), (x1, y1) = points[-2:]
        angle = math.atan2(y1 - y0, x1 - x0)
        back = (x1 - 7 * math.cos(angle), y1 - 7 * math.sin(angle))
        self.line(*points[:-1], back, colour=colour, dashed=dashed)
        wings = [(x1 - 9 * math.cos(angle + turn), y1 - 9 * math.sin(angle + turn)) for turn in (0.42, -0.42)]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(x1, y1), *wings])
        self._parts.append(f'<polygon points="{corners}" class="head-{colour}"/>')

    def svg(self) -> str:
        """The whole file."""
        frame = f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8" class="paper"/>'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
            f' height="{self.height}" class="nri-picture" role="img" aria-label="{escape(self.alt)}">'
        )
        return "\n".join([head, f"<style>\n{style()}\n</style>", frame, *self._parts, "</svg>\n"])
