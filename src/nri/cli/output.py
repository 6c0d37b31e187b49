"""The printing of results: tables for people, JSON and YAML for programs, colours only where they are welcome.

Rules: results go to standard output, words to standard error. JSON and YAML have everything, in full; only tables cut
long ids, and, unless -w is given, long texts and what a terminal has no room for: first columns that can be missed go,
then the widest of the others are cut, last of all the first, which says what the row is of; then the end of the line.
Widths are those that a terminal shows: letters of East Asia take two columns, marks on letters none. `-o json` is
one document, and one object per line where results come one by one (`stream`). Printed texts come from runtimes,
containers and plugins, and are their exact data up to here: this is the one place that makes it fit for a terminal. All
that is printed is escaped; colours are `Painted` parts of a line.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from itertools import accumulate
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar
from unicodedata import category, east_asian_width

from nri.text import count, escape, json_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from nri.cli.settings import Settings

T = TypeVar("T")

#: When counting begins to be shown, and how often it is, in seconds.
COUNT_FROM_S, COUNT_EACH_S = 2.0, 0.2
#: A column is made no smaller than this for a narrow terminal; on a narrower one the end of the line is cut.
_NARROW = 8
_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}


class Column(NamedTuple):
    """A table's column.

    Attributes:
        title: its heading.
        key: of the value in each row.
        cut: the length that it is cut to in tables; 0: not cut.
        mark: what is cut ends with three dots. An id does not: its beginning is as good as the whole.
        extra: it is left out where a terminal has no room for it; the first column only where no others are left out.
    """

    title: str
    key: str
    cut: int = 0
    mark: bool = True
    extra: bool = False


def wants_color(mode: str, stream: TextIO) -> bool:
    """Whether to colour: as --color says, else NO_COLOR and FORCE_COLOR, else if a person is watching."""
    if mode != "auto":
        return mode == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at a stream, at a terminal that can do more than print."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Painted(NamedTuple):
    """A part of a line in a colour or weight."""

    text: str
    style: str


def paint(text: str, style: str, wanted: bool = True) -> str:
    """Return the escaped text in a colour or weight, if that is wanted and there is such a style."""
    text = escape(text)
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if wanted and text and style in _STYLES else text


class Output:
    """Prints in the form that the global options ask for. `width` is the terminal's, 0 where nothing is cut."""

    #: Whether a sign of life is at the terminal. Of all, because errors are printed by nobody's.
    _in_progress: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self.format = settings.output
        self.quiet = settings.quiet
        self.color = wants_color(settings.color, sys.stdout)
        self.wide = settings.wide
        self.width = 0 if settings.wide or not sys.stdout.isatty() else shutil.get_terminal_size().columns

    @property
    def human(self) -> bool:
        """Whether a person reads this: neither JSON nor YAML was asked for."""
        return self.format == "table"

    def text(self, *parts: str | Painted) -> None:
        """Print a line of results for people, in parts of which some have a colour."""
        self.progress("")
        styled = [part if isinstance(part, Painted) else Painted(part, "") for part in parts]
        sys.stdout.write("".join([paint(text, style, self.color) for text, style in styled]) + "\n")

    def lines(self, text: str) -> None:
        """Print text of several lines."""
        for line in text.split("\n"):
            self.text(line)

    def begin_screen(self) -> int:
        """Begin a terminal's screen again, for a picture that takes the place of the last; returns its lines.

        Elsewhere one picture comes below the other, each as long as it is.
        """
        if not is_terminal(sys.stdout):
            return 1 << 16
        sys.stdout.write("\x1b[H\x1b[J")
        columns, lines = shutil.get_terminal_size()
        self.width = self.width and columns  # it may be another one than before
        return lines

    def names(self, names: Iterable[str]) -> None:
        """Print names or ids alone, one a line, for programs that read lines: the form of -q."""
        sys.stdout.writelines(f"{escape(name)}\n" for name in names)

    def note(self, line: str) -> None:
        """Print a line about the course of events to standard error; not in quiet mode."""
        if not self.quiet:
            self.progress("")
            sys.stderr.write(f"{escape(line)}\n")

    def progress(self, line: str) -> None:
        """Show a sign of life, at a terminal: a line of standard error that the next one replaces, "" takes away."""
        if not line:
            end_progress()
        elif not self.quiet and is_terminal(sys.stderr):
            room = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{_cut(escape(line), room)}")
            sys.stderr.flush()
            Output._in_progress = True

    def counted(self, items: Iterable[T], what: str) -> Iterator[T]:
        """Hand items on as they come, and count them as progress if that takes longer than a moment; `what` is one."""
        shown = monotonic() + COUNT_FROM_S - COUNT_EACH_S
        try:
            for number, item in enumerate(items, 1):
                if (now := monotonic()) - shown >= COUNT_EACH_S:
                    shown = now
                    self.progress(f"{count(number, what)} ...")
                yield item
        finally:
            self.progress("")

    def document(self, value: Any) -> None:
        """Print one value as the whole output; in table mode as JSON, for verbs whose result is data by nature."""
        if self.format == "yaml":
            sys.stdout.write(to_yaml(value))
        else:
            sys.stdout.write(json_text(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")

    def stream(self, value: Any) -> None:
        """Print one of many values at once: a JSON line, or a YAML document."""
        self.progress("")
        if self.format == "yaml":
            sys.stdout.write(f"---\n{to_yaml(value)}")
        else:
            sys.stdout.write(json_text(json.dumps(value, ensure_ascii=False)) + "\n")
        sys.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
        """Print rows as a table with a heading, as a list in JSON or YAML, or with -q the first column alone, uncut."""
        found = list(rows)
        if self.quiet and self.human:
            self.names(str(row.get(columns[0].key, "")) for row in found)
        elif not self.human:
            self.document(found)
        else:
            cuts = [0 if self.wide and one.mark else one.cut for one in columns]
            drawn = [(one.key, cut, one.mark) for one, cut in zip(columns, cuts, strict=True)]
            self._draw(columns, [[cell(row.get(key), cut, mark=mark) for key, cut, mark in drawn] for row in found])

    def pairs(self, rows: Mapping[str, str], indent: str = "") -> None:
        """Print names and their texts, one pair a line."""
        width = max(map(_width, rows), default=0)
        for name, text in rows.items():
            self.text(f"{indent}{padded(name, width)}  {text}")

    def _draw(self, columns: Sequence[Column], body: list[list[str]]) -> None:
        table = [[column.title for column in columns], *body]
        whole = [max(map(_width, column)) for column in zip(*table, strict=True)]
        shown = _shown(columns, whole, self.width) if self.width else range(len(columns))
        kept = [whole[place] for place in shown]
        widths = _shrunk(kept, self.width - 2 * (len(kept) - 1)) if self.width else kept
        for number, line in enumerate(table):
            cells = [padded(_cut(line[place], width), width) for place, width in zip(shown, widths, strict=True)]
            text = "  ".join(cells).rstrip()
            text = _cut(text, self.width) if self.width else text
            self.text(text if number else Painted(text, "bold"))
        if self.width and _length(whole) > self.width:
            self.note("(cut to the width of the terminal: -w shows all)")


def write_page(path: str, data: bytes) -> None:
    """Write a result as a file of its own, whole or not at all; a link stays, and so does what is no file."""
    from nri.files import write_whole

    if os.path.islink(path) and os.lstat(path).st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "a link of another user: name another file", path)
    where = os.path.realpath(path)  # such as /dev/stdout
    if os.path.exists(where) and not os.path.isfile(where):
        raise OSError(errno.EINVAL, "not a regular file: name another one", path)
    write_whole(where, data)


def end_progress() -> None:
    """Take the sign of life away, if there is one."""
    if Output._in_progress:
        Output._in_progress = False
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def age(seconds: float) -> str:
    """A time in its largest unit: `5s`, `3m`, `2d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(0, seconds) // 1:.0f}s"


def _length(widths: Sequence[int]) -> int:
    """The length of a line with columns of these widths."""
    return sum(widths) + 2 * (len(widths) - 1)


def _shown(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """The places of the columns that are shown: those that are extra only if there is room, from the left."""
    kept = list(range(len(columns)))
    for place in reversed(kept[:]):
        needed = [widths[each] if each == 0 or place else min(widths[each], _NARROW) for each in kept]
        if columns[place].extra and _length(needed) > room:
            kept.remove(place)
    return kept


def _shrunk(widths: Sequence[int], room: int) -> list[int]:
    """The widths, the widest made smaller until all fit into the room; none is made smaller than `_NARROW`.

    The first gives only what the others cannot.
    """
    rest = widths[1:]
    most = max(room, _NARROW)
    while most > _NARROW and widths[0] + sum(min(width, most) for width in rest) > room:
        most -= 1
    others = [min(width, most) for width in rest]
    return [min(widths[0], max(room - sum(others), _NARROW)), *others]


def _width(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    """How many columns a character takes: none for a mark on the one before it, two for one of East Asia."""
    return 0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in "WF" else 1


def padded(text: str, width: int) -> str:
    """A printable text, made as wide as so many columns of a terminal."""
    return text + " " * (width - _width(text))


def _cut(text: str, most: int) -> str:
    """The text, cut to so many columns; what was cut ends with three dots."""
    return text if _width(text) <= most else _head(text, max(most - 3, 0)) + "..."


def _head(text: str, most: int) -> str:
    """As much of the beginning of a text as so many columns take."""
    ends = accumulate(map(_columns, text))
    return text[: sum(end <= most for end in ends)]


def cell(value: object, cut: int = 0, *, mark: bool = True) -> str:
    """Write a value for a table: "-" for nothing, lists joined, cut to `cut` characters unless that is 0."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = escape(",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    if not cut:
        return text
    return _cut(text, cut) if mark else _head(text, cut)


def readable(value: Any) -> Any:
    """A value of a field for people: the mode of a file is octal, as ``chmod`` has it."""
    if isinstance(value, dict) and isinstance(value.get("file_mode"), int):
        return {**value, "file_mode": f"{value['file_mode']:04o}"}
    return value


def to_yaml(value: Any) -> str:
    """Write YAML in block style, keys in the given order."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False)
    if not text.replace("\n", "").isprintable():  # YAML calls some marks printable: all that is not ASCII is escaped
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, default_flow_style=False)
    return text
