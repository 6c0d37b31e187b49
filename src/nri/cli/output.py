"""Print results as tables, JSON or YAML.

Results go to standard output, messages to standard error. JSON and YAML contain every value in full; only tables are
cut. Text from runtimes, containers and plugins is escaped only in this module, so that it cannot control the
terminal. For this reason a coloured piece of a line is a `PaintedText`, not a string with escape sequences.
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

#: A count is shown as progress after this many seconds.
COUNT_FROM_S = 2.0
#: The count is updated after this many seconds.
COUNT_INTERVAL_S = 0.2
#: The width of tables with long texts, which editors and pull requests show without wrapping.
_MAX_FITTED_COLUMNS = 120
#: Columns are not cut below this width; on a narrower terminal the end of the line is cut instead.
_MIN_COLUMN_WIDTH = 8
_STYLES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}


class Column(NamedTuple):
    """A table's column.

    Attributes:
            title: the heading.
            key: the key of the column's value in each row.
            cut: the length to which values are cut; 0 means that they are not cut.
            mark: cut values end with three dots. Ids do not, because the beginning of an id also identifies it.
            extra: the column is left out on a terminal that is too narrow for all columns.
    """

    title: str
    key: str
    cut: int = 0
    mark: bool = True
    extra: bool = False


def wants_color(mode: str, stream: TextIO) -> bool:
    """Whether to use colours: --color decides, then NO_COLOR and FORCE_COLOR, then whether `stream` is a terminal."""
    if mode != "auto":
        return mode == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    """Whether a stream is a terminal that understands escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class PaintedText(NamedTuple):
    """A piece of a line with a colour or weight."""

    text: str
    style: str


def paint(text: str, style: str, enabled: bool = True) -> str:
    """Escape a text, and add a colour or weight if `enabled` and the style exists."""
    text = escape(text)
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if enabled and text and style in _STYLES else text


class Output:
    """The printer of results, in the format that the global options select.

    Attributes:
            width: the terminal's width in columns; 0 means that nothing is cut.
    """

    #: Whether a progress line is shown. A class variable, because errors are printed without an instance.
    _in_progress: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self.format = settings.output
        self.quiet = settings.quiet
        self.color = wants_color(settings.color, sys.stdout)
        self.wide = settings.wide
        self.width = 0 if settings.wide or not sys.stdout.isatty() else shutil.get_terminal_size().columns

    def fit(self) -> None:
        """Cut tables to at most 120 columns, also in a pipe and on a wider terminal, unless -w asks for everything."""
        if not self.wide:
            self.width = min(self.width or _MAX_FITTED_COLUMNS, _MAX_FITTED_COLUMNS)

    @property
    def human(self) -> bool:
        """Whether the output is a table or text: neither JSON nor YAML is selected."""
        return self.format == "table"

    def text(self, *parts: str | PaintedText) -> None:
        """Print a line of text output; its pieces may be coloured."""
        self.progress("")
        styled = [part if isinstance(part, PaintedText) else PaintedText(part, "") for part in parts]
        sys.stdout.write("".join([paint(text, style, self.color) for text, style in styled]) + "\n")

    def lines(self, text: str) -> None:
        """Print text of several lines."""
        for line in text.split("\n"):
            self.text(line)

    def begin_screen(self) -> int:
        """Clear the terminal for the next table, and return its number of lines.

        If the output is not a terminal, tables are printed one below the other, in full length.
        """
        if not is_terminal(sys.stdout):
            return 1 << 16
        sys.stdout.write("\x1b[H\x1b[J")
        columns, lines = shutil.get_terminal_size()
        self.width = self.width and columns  # the window may have been resized
        return lines

    def names(self, names: Iterable[str]) -> None:
        """Print only names or ids, one per line: the format of -q."""
        sys.stdout.writelines(f"{escape(name)}\n" for name in names)

    def flush(self) -> None:
        """Pass on the output so far, before a wait without a known end."""
        sys.stdout.flush()

    def note(self, line: str) -> None:
        """Print a message to standard error, except in quiet mode."""
        if not self.quiet:
            self.progress("")
            sys.stderr.write(f"{escape(line)}\n")

    def progress(self, line: str) -> None:
        """Show a progress line on standard error, if that is a terminal. It replaces the last; "" removes it."""
        if not line:
            end_progress()
        elif not self.quiet and is_terminal(sys.stderr):
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{_cut(escape(line), width)}")
            sys.stderr.flush()
            Output._in_progress = True

    def counted(self, items: Iterable[T], what: str) -> Iterator[T]:
        """Yield the items, and show their number as progress if they take long. `what` is the noun for an item."""
        shown = monotonic() + COUNT_FROM_S - COUNT_INTERVAL_S
        try:
            for number, item in enumerate(items, 1):
                if (now := monotonic()) - shown >= COUNT_INTERVAL_S:
                    shown = now
                    self.progress(f"{count(number, what)} ...")
                yield item
        finally:
            self.progress("")

    def document(self, value: Any) -> None:
        """Print a value as the entire output; in table mode as JSON."""
        if self.format == "yaml":
            sys.stdout.write(to_yaml(value))
        else:
            sys.stdout.write(json_text(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")

    def stream(self, value: Any) -> None:
        """Print one value of a stream as soon as it is known: as a JSON line, or as a YAML document."""
        self.progress("")
        if self.format == "yaml":
            sys.stdout.write(f"---\n{to_yaml(value)}")
        else:
            sys.stdout.write(json_text(json.dumps(value, ensure_ascii=False)) + "\n")
        sys.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> None:
        """Print rows as a table with a heading, as a list in JSON or YAML, or with -q only the first column, uncut."""
        all_rows = list(rows)
        if self.quiet and self.human:
            self.names(str(row.get(columns[0].key, "")) for row in all_rows)
        elif not self.human:
            self.document(all_rows)
        else:
            cuts = [0 if self.wide and column.mark else column.cut for column in columns]
            formats = [(column.key, cut, column.mark) for column, cut in zip(columns, cuts, strict=True)]
            body = [[cell(row.get(key), cut, mark=mark) for key, cut, mark in formats] for row in all_rows]
            self._draw(columns, body)

    def pairs(self, rows: Mapping[str, str], indent: str = "") -> None:
        """Print names with their texts, one pair per line."""
        width = max(map(_width, rows), default=0)
        for name, text in rows.items():
            self.text(f"{indent}{padded(name, width)}  {text}")

    def _draw(self, columns: Sequence[Column], body: list[list[str]]) -> None:
        table = [[column.title for column in columns], *body]
        full_widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
        places = _shown_columns(columns, full_widths, self.width) if self.width else range(len(columns))
        shown_widths = [full_widths[place] for place in places]
        widths = (
            _narrowed_widths(shown_widths, self.width - 2 * (len(shown_widths) - 1)) if self.width else shown_widths
        )
        for number, line in enumerate(table):
            cells = [padded(_cut(line[place], width), width) for place, width in zip(places, widths, strict=True)]
            text = "  ".join(cells).rstrip()
            text = _cut(text, self.width) if self.width else text
            self.text(text if number else PaintedText(text, "bold"))
        if self.width and sys.stdout.isatty() and _length(full_widths) > self.width:
            self.note(f"(truncated to {self.width} columns; -w shows everything)")


def write_page(path: str, data: bytes) -> None:
    """Write a result to a file, completely or not at all. Links are followed; other non-files are refused."""
    from nri.files import write_whole

    if os.path.islink(path) and os.lstat(path).st_uid not in (0, os.geteuid()):
        raise OSError(errno.EPERM, "the path is a link that belongs to another user: choose another file", path)
    where = os.path.realpath(path)  # for example of /dev/stdout
    if os.path.exists(where) and not os.path.isfile(where):
        raise OSError(errno.EINVAL, "not a regular file: choose another file", path)
    write_whole(where, data)


def end_progress() -> None:
    """Remove the progress line, if one is shown."""
    if Output._in_progress:
        Output._in_progress = False
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def age(seconds: float) -> str:
    """A duration in its largest unit: `5s`, `3m`, `2d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f}{unit}"
    return f"{max(0, seconds) // 1:.0f}s"


def _length(widths: Sequence[int]) -> int:
    """The length of a line with columns of these widths."""
    return sum(widths) + 2 * (len(widths) - 1)


def _shown_columns(columns: Sequence[Column], widths: Sequence[int], width: int) -> list[int]:
    """The indices of the columns that fit into `width`: extra columns are dropped from the right until all fit."""
    shown = list(range(len(columns)))
    for place in reversed(shown[:]):
        min_widths = [
            widths[index] if index == 0 or place else min(widths[index], _MIN_COLUMN_WIDTH) for index in shown
        ]
        if columns[place].extra and _length(min_widths) > width:
            shown.remove(place)
    return shown


def _narrowed_widths(widths: Sequence[int], total_width: int) -> list[int]:
    """The widths after cutting the widest columns until all fit; no column is cut below `_MIN_COLUMN_WIDTH`.

    The first column, which identifies the row, is cut only if cutting the others is not enough.
    """
    other_widths = widths[1:]
    limit = max(total_width, _MIN_COLUMN_WIDTH)
    while limit > _MIN_COLUMN_WIDTH and widths[0] + sum(min(width, limit) for width in other_widths) > total_width:
        limit -= 1
    shrunk_widths = [min(width, limit) for width in other_widths]
    return [min(widths[0], max(total_width - sum(shrunk_widths), _MIN_COLUMN_WIDTH)), *shrunk_widths]


def _width(text: str) -> int:
    """The number of terminal columns of a printable text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(char: str) -> int:
    """The number of terminal columns of a character: 0 for a combining mark, 2 for a wide East Asian character."""
    return 0 if category(char) in ("Mn", "Me") else 2 if east_asian_width(char) in "WF" else 1


def padded(text: str, width: int) -> str:
    """A printable text, padded to this number of terminal columns."""
    return text + " " * (width - _width(text))


def _cut(text: str, width: int) -> str:
    """The text, cut to this number of terminal columns; a cut text ends with three dots."""
    return text if _width(text) <= width else _beginning_of_text(text, max(width - 3, 0)) + "..."


def _beginning_of_text(text: str, width: int) -> str:
    """The beginning of a text that fits into `width` terminal columns."""
    ends = accumulate(map(_columns, text))
    return text[: sum(end <= width for end in ends)]


def cell(value: object, cut: int = 0, *, mark: bool = True) -> str:
    """Format a value for a table: "-" if empty, lists joined, cut to `cut` columns unless that is 0."""
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = escape(",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    if not cut:
        return text
    return _cut(text, cut) if mark else _beginning_of_text(text, cut)


def readable(value: Any) -> Any:
    """A field's value in text output: file modes are octal, as in ``chmod``."""
    if isinstance(value, dict) and isinstance(value.get("file_mode"), int):
        return {**value, "file_mode": f"{value['file_mode']:04o}"}
    return value


def to_yaml(value: Any) -> str:
    """Format a value as YAML in block style; keys keep their order."""
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False)
    if not text.replace("\n", "").isprintable():  # YAML counts some control characters as printable: escape non-ASCII
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, default_flow_style=False)
    return text
