"""A node as a picture: packages, memory nodes, caches, cores and threads, with the containers on them in colours.

One job: the text of an SVG, from a document of `nri.placement.policy`. Each thread is a square in the colour
of those that run there; a square without colour is free. Rules: pure; the document may come from another process, so
every text of it is escaped and cut; no identifiers, and no rule of style that is not below ``.nri-placement``, so that
several pictures can be in one page. It follows the reader's light or dark setting. Sizes are in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nri.api import cpuset
from nri.text import plain

__all__ = ["draw", "users_of"]

_SQUARE, _GAP, _TITLE = 26, 5, 20
_MOST_ROWS, _MOST_NAMES, _ROW = 40, 4, 22
#: Where texts of the legend begin, how wide a letter is at most, and from how many digits on a number is small.
_KEY, _LETTER, _LONG = 29, 8, 4
#: How wide the boxes in a box may be together, by the outer one's kind.
_WIDEST = {"core": 4 * _SQUARE, "cache": 340, "node": 720, "package": 760, "machine": 1540}
#: Light, dark.
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
    """A box of boxes, or with `text` a thread's square. Its place is relative to the box around it."""

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
        """Put the boxes in it side by side, in rows, and be as large as that takes."""
        top = _TITLE if self.title else _GAP
        x, y, lowest, widest = _GAP, top, 0, 0
        for box in self.inner:
            if x > _GAP and x + box.width > _WIDEST[self.kind]:
                x, y = _GAP, y + lowest + _GAP
                lowest = 0
            box.x, box.y = x, y
            x += box.width + _GAP
            lowest, widest = max(lowest, box.height), max(widest, x)
        self.width, self.height = max(widest, len(self.title) * _LETTER + 2 * _GAP), y + lowest + _GAP


def draw(document: Mapping[str, Any]) -> str:
    """The picture of a policy's document."""
    users = users_of(document)
    groups = {names: number for number, names in enumerate(dict.fromkeys(users.values()))}
    machine = _boxes(document["machine"], users, groups)
    width = max(machine.width, 560)
    rows = _legend(groups, users, document, (width - _KEY - _GAP) // _LETTER)
    height = machine.height + _ROW * len(rows) + 2 * _GAP
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="nri-placement" {box} role="img">',
        f"<title>{_xml('CPUs by ' + str(document['policy']))}</title><style>{_style()}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *_drawn(machine),
    ]
    for number, (fill, text) in enumerate(rows):
        y = machine.height + _GAP + _ROW * number
        parts += [_rect(_GAP, y, 16, 16, "free", fill)] if fill else []
        parts.append(f'<text class="ink" x="{_KEY}" y="{y + 13}">{_xml(text)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def users_of(document: Mapping[str, Any]) -> dict[int, tuple[str, ...]]:
    """The containers on each CPU, of those that have any."""
    found: dict[int, list[str]] = {}
    for each in document["containers"]:
        for cpu in cpuset.parse(each["cpus"]):
            found.setdefault(cpu, []).append(each["container"])
    return {cpu: tuple(found[cpu]) for cpu in sorted(found)}


def _boxes(
    machine: Mapping[str, Any], users: Mapping[int, tuple[str, ...]], groups: Mapping[tuple[str, ...], int]
) -> _Box:
    """All boxes, each laid out after those in it."""

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
    groups: Mapping[tuple[str, ...], int], users: Mapping[int, tuple[str, ...]], document: Mapping[str, Any], most: int
) -> list[tuple[str, str]]:
    """A colour and a text of at most so many letters for each group of containers that run on the same CPUs.

    The last row, without a colour, has those that are pinned to none.
    """
    cpus: dict[tuple[str, ...], list[int]] = {}
    for cpu, names in users.items():
        cpus.setdefault(names, []).append(cpu)
    mems = {each["container"]: each["mems"] for each in document["containers"]}
    rows = []
    for names, number in groups.items():
        nodes = sorted({mems[name] for name in names if mems[name]})
        memory = f"; memory nodes {' or '.join(nodes)}" if nodes else ""
        where = plain(f"CPUs {_cpus(cpus[names], most // 2 - len(memory))}{memory}: ", most * 2 // 3)
        rows.append((_colour(number), where + _names(names, most - len(where))))
    more = len(rows) - _MOST_ROWS
    rows = rows if more <= 0 else [*rows[:_MOST_ROWS], ("", f"and {more} more")]
    unpinned = tuple(each["container"] for each in document["containers"] if not each["cpus"])
    where = "not pinned to CPUs: "
    return [*rows, ("", where + _names(unpinned, most - len(where)))] if unpinned else rows


def _cpus(numbers: Sequence[int], most: int) -> str:
    """A list of CPUs in some so many letters; of a longer one the beginning, and how many there are."""
    words = cpuset.to_text(numbers)
    return words if len(words) <= most else f"{words[: most - 16].rpartition(',')[0]},... ({len(numbers)} in all)"


def _names(names: tuple[str, ...], most: int = 4 * 60) -> str:
    """As many of the names as fit into so many letters, the first of them in any case."""
    shown = plain(names[0], min(60, most))
    for number, name in enumerate(names[1:], 1):
        more = f" and {len(names) - number} more"
        longer = f"{shown}, {plain(name, 60)}"
        if number == _MOST_NAMES or len(longer) + len(more) > most:
            return shown + more
        shown = longer
    return shown


def _colour(number: int) -> str:
    """A colour for light and dark alike, far from those of the numbers before: each is a golden angle on."""
    return f"hsl({number * 137.5 % 360:.0f} {(70, 45, 90)[number // 12 % 3]}% {(62, 70, 50)[number // 36 % 3]}%)"


def _drawn(machine: _Box) -> list[str]:
    """The boxes, each before those in it."""
    parts, waiting = [], [(machine, 0, 0)]
    while waiting:
        box, x, y = waiting.pop()
        x, y = x + box.x, y + box.y
        if box.kind == "free":
            hint = f"<title>{_xml(box.hint)}</title>"
            parts.append(_rect(x, y, box.width, box.height, "free", box.fill, hint))
            ink = f"{'on' if box.fill else 'soft'} {'cpu' if len(box.title) < _LONG else 'long'}"
            parts.append(f'<text class="{ink}" x="{x + _SQUARE // 2}" y="{y + 17}">{box.title}</text>')
            continue
        if box.kind != "machine":
            parts.append(_rect(x, y, box.width, box.height, box.kind))
        if box.title:
            parts.append(f'<text class="soft" x="{x + _GAP}" y="{y + 14}">{_xml(box.title)}</text>')
        waiting += [(each, x, y) for each in reversed(box.inner)]
    return parts


def _rect(x: int, y: int, width: int, height: int, kind: str, fill: str = "", inside: str = "") -> str:
    style = f' style="fill:{fill}"' if fill else ""
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="3"{style}>{inside}</rect>'


def _style() -> str:
    def values(column: int) -> str:
        return "".join(f"--{name}:{pair[column]};" for name, pair in _COLOURS.items())

    fonts = 'font:13px system-ui,-apple-system,"Segoe UI",Arial,sans-serif'
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
