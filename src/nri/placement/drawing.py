"""Draw a node as SVG: packages, memory nodes, caches, cores and threads, coloured by the containers on them.

The input is a document of `nri.placement.policy`. It may come from another process, so every text is escaped and cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nri.api import cpuset
from nri.text import plain

# Sizes are in pixels.
_SQUARE, _GAP, _TITLE, _ROW = 26, 5, 20, 22
_MAX_LEGEND_ROWS, _MAX_NAMES_IN_ROW = 40, 4
#: Left edge of the legend's texts, in pixels.
_LEGEND_X = 29
#: Maximum width of a letter, in pixels.
_LETTER = 8
#: Numbers with this many digits or more are written in a smaller font.
_SMALL_FONT_DIGITS = 4
#: Maximum width of a row of boxes, by the kind of the box around them.
_MAX_WIDTH = {"core": 4 * _SQUARE, "cache": 340, "node": 720, "package": 760, "machine": 1540}
#: Colours for light and dark pages; the picture follows the reader's setting.
_COLOURS = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "edge": ("#818b98", "#7d8590"),
    "package": ("#f6f8fa", "#161b22"),
    "node": ("#eaeef2", "#1c2128"),
    "cache": ("#f6f8fa", "#22272e"),
    "core": ("#ffffff", "#2d333b"),
    "free": ("#ffffff", "#0d1117"),
}


@dataclass(slots=True)
class _Box:
    """A box with inner boxes, or the square of a thread. Its position is relative to the box around it."""

    kind: str
    title: str = ""
    inner: list[_Box] = field(default_factory=list)
    x: int = 0
    y: int = 0
    width: int = _SQUARE
    height: int = _SQUARE
    fill: str = ""
    hint: str = ""

    def lay_out(self) -> None:
        """Arrange the inner boxes in rows, and set the size."""
        top = _TITLE if self.title else _GAP
        x, y, lowest, widest = _GAP, top, 0, 0
        for box in self.inner:
            if x > _GAP and x + box.width > _MAX_WIDTH[self.kind]:
                x, y = _GAP, y + lowest + _GAP
                lowest = 0
            box.x, box.y = x, y
            x += box.width + _GAP
            lowest, widest = max(lowest, box.height), max(widest, x)
        self.width, self.height = max(widest, len(self.title) * _LETTER + 2 * _GAP), y + lowest + _GAP


def draw(document: Mapping[str, Any]) -> str:
    """Return the SVG of a policy's document."""
    users = users_of(document)
    groups = {names: number for number, names in enumerate(dict.fromkeys(users.values()))}
    machine = _make_boxes(document["machine"], users, groups)
    width = max(machine.width, 560)
    rows = _legend(groups, users, document, (width - _LEGEND_X - _GAP) // _LETTER)
    height = machine.height + _ROW * len(rows) + 2 * _GAP
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="nri-placement" {box} role="img">',
        f"<title>{_xml('CPUs by ' + str(document['policy']))}</title><style>{_style()}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *_svg_elements(machine),
    ]
    for number, (fill, text) in enumerate(rows):
        y = machine.height + _GAP + _ROW * number
        parts += [_rect(_GAP, y, 16, 16, "free", fill)] if fill else []
        parts.append(f'<text class="ink" x="{_LEGEND_X}" y="{y + 13}">{_xml(text)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def users_of(document: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """The names of the containers on each CPU; CPUs without containers are left out."""
    users: dict[int, list[str]] = {}
    for container in document["containers"]:
        for cpu in cpuset.parse(container["cpus"]):
            users.setdefault(cpu, []).append(container["container"])
    return {cpu: tuple(users[cpu]) for cpu in sorted(users)}


def _make_boxes(
    machine: Mapping[str, Any], users: Mapping[int, tuple[str, ...]], groups: Mapping[tuple[str, ...], int]
) -> _Box:
    """Make all boxes and lay them out, inner boxes first."""

    def around(kind: str, title: str, inner: Iterable[_Box]) -> _Box:
        box = _Box(kind, title, list(inner))
        box.lay_out()
        return box

    def thread(cpu: int) -> _Box:
        names = users.get(cpu, ())
        fill = _colour(groups[names]) if names else ""
        return _Box("free", str(cpu), fill=fill, hint=f"CPU {cpu}: {_names(names) if names else 'free'}")

    packages = []
    for package in machine["packages"]:
        nodes = []
        for node in package["nodes"]:
            caches = [
                around("cache", "", (around("core", "", map(thread, core)) for core in cores))
                for cores in node["caches"]
            ]
            nodes.append(around("node", _node(node), caches))
        packages.append(around("package", f"package {package['number']}", nodes))
    packages += [around("package", _node(node), []) for node in machine["memory_only"]]
    return around("machine", "", packages)


def _node(node: Mapping[str, Any]) -> str:
    return f"node {node['number']}, {node['memory_bytes'] / (1 << 30):.0f} GiB {str(node['kind']).upper()[:8]}"


def _legend(
    groups: Mapping[tuple[str, ...], int],
    users: Mapping[int, tuple[str, ...]],
    document: Mapping[str, Any],
    max_length: int,
) -> list[tuple[str, str]]:
    """The rows of the legend: colour and text of each group of containers on the same CPUs.

    The last row, without a colour, lists containers that are not pinned to CPUs.

    Args:
        max_length: the maximum length of a text in letters.
    """
    cpus: dict[tuple[str, ...], list[int]] = {}
    for cpu, names in users.items():
        cpus.setdefault(names, []).append(cpu)
    mems = {container["container"]: container["mems"] for container in document["containers"]}
    rows = []
    for names, number in groups.items():
        nodes = sorted({mems[name] for name in names if mems[name]})
        memory = f"; memory nodes {' or '.join(nodes)}" if nodes else ""
        where = plain(f"CPUs {_cpus(cpus[names], max_length // 2 - len(memory))}{memory}: ", max_length * 2 // 3)
        rows.append((_colour(number), where + _names(names, max_length - len(where))))
    more = len(rows) - _MAX_LEGEND_ROWS
    rows = rows if more <= 0 else [*rows[:_MAX_LEGEND_ROWS], ("", f"and {more} more")]
    unpinned = tuple(container["container"] for container in document["containers"] if not container["cpus"])
    where = "not pinned to CPUs: "
    return [*rows, ("", where + _names(unpinned, max_length - len(where)))] if unpinned else rows


def _cpus(numbers: Sequence[int], max_length: int) -> str:
    """A list of CPUs, shortened to about `max_length` letters."""
    text = cpuset.to_text(numbers)
    return (
        text if len(text) <= max_length else f"{text[: max_length - 16].rpartition(',')[0]},... ({len(numbers)} in all)"
    )


def _names(names: tuple[str, ...], max_length: int = 4 * 60) -> str:
    """As many names as fit into `max_length` letters, but at least the first."""
    shown = plain(names[0], min(60, max_length))
    for number, name in enumerate(names[1:], 1):
        more = f" and {len(names) - number} more"
        longer = f"{shown}, {plain(name, 60)}"
        if number == _MAX_NAMES_IN_ROW or len(longer) + len(more) > max_length:
            return shown + more
        shown = longer
    return shown


def _colour(number: int) -> str:
    """The colour of a group, readable on light and dark pages."""
    hue = number * 137.5 % 360  # the golden angle keeps hues of consecutive groups apart
    saturation, lightness = (70, 45, 90)[number // 12 % 3], (62, 70, 50)[number // 36 % 3]
    return f"hsl({hue:.0f} {saturation}% {lightness}%)"


def _svg_elements(machine: _Box) -> list[str]:
    """The SVG elements of all boxes, outer boxes first."""
    parts, stack = [], [(machine, 0, 0)]
    while stack:
        box, x, y = stack.pop()
        x, y = x + box.x, y + box.y
        if box.kind == "free":
            hint = f"<title>{_xml(box.hint)}</title>"
            parts.append(_rect(x, y, box.width, box.height, "free", box.fill, hint))
            ink = f"{'on' if box.fill else 'soft'} {'cpu' if len(box.title) < _SMALL_FONT_DIGITS else 'long'}"
            parts.append(f'<text class="{ink}" x="{x + _SQUARE // 2}" y="{y + 17}">{box.title}</text>')
            continue
        if box.kind != "machine":
            parts.append(_rect(x, y, box.width, box.height, box.kind))
        if box.title:
            parts.append(f'<text class="soft" x="{x + _GAP}" y="{y + 14}">{_xml(box.title)}</text>')
        stack += [(inner, x, y) for inner in reversed(box.inner)]
    return parts


def _rect(x: int, y: int, width: int, height: int, kind: str, fill: str = "", inside: str = "") -> str:
    style = f' style="fill:{fill}"' if fill else ""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="3"{style}>{inside}</rect>'


def _style() -> str:
    def values(column: int) -> str:
        return "".join(f"--{name}:{pair[column]};" for name, pair in _COLOURS.items())

    fonts = 'font:13px system-ui,-apple-system,"Segoe UI",Arial,sans-serif'
    # No identifiers, and only rules below `.nri-placement`, so that a page can contain several pictures.
    rules = [
        f".nri-placement{{{values(0)}{fonts};max-width:100%;height:auto}}",
        f"@media (prefers-color-scheme:dark){{.nri-placement{{{values(1)}}}}}",
        f'body[data-theme="light"] .nri-placement{{{values(0)}}}',
        f'body[data-theme="dark"] .nri-placement{{{values(1)}}}',
        ".nri-placement rect{stroke:var(--edge);stroke-width:1}",
        ".nri-placement .paper{fill:var(--paper);stroke:none}",
        ".nri-placement .ink{fill:var(--ink)}",
        ".nri-placement .soft{fill:var(--soft)}",
        ".nri-placement .on{fill:#101418}",
        ".nri-placement .cpu{font-size:11px;text-anchor:middle}",
        ".nri-placement .long{font-size:9px;text-anchor:middle}",
        *(f".nri-placement .{kind}{{fill:var(--{kind})}}" for kind in ("package", "node", "cache", "core", "free")),
    ]
    return "\n".join(rules)


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
