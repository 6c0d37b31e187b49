"""TOML in the dialects of containerd: go-toml 0.x and 1.x (TOML 0.5), 2.0 to 2.3 (TOML 1.0), 2.4 (TOML 1.1)."""

from __future__ import annotations

import re
from typing import Any, Literal

from nri.config.source import Source
from nri.config.syntax import parse_text, toml_key
from nri.errors import ConfigError

Dialect = Literal["0.5", "1.0", "1.1"]

#: A multi-line string, a string on one line, a comment, a bare word, white space, or another character.
_PIECE = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?|\'{3}(?:[^']|'(?!\'{2}))*+(?:\'{3,5})?'''
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|#[^\n]*+|[A-Za-z0-9_-]++|[ \t]++|.""",
    re.DOTALL,
)
_LEADING_ZEROS = re.compile(r"(-?)0+(\d[\d_]*)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
#: Hours at the end of a piece, and minutes at the beginning of the next piece, without seconds.
_HOURS, _MINUTES = re.compile(r"(?:.*[Tt])?\d\d"), re.compile(r"(\d\d)([Zz]|-.*)?")
#: A surrogate, which go-toml 1.x accepts and Python does not, and the escape of a slash.
_ODD_ESCAPE = re.compile(r"\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|/|.)", re.DOTALL)
#: Escapes of TOML 1.1.
_NEW_ESCAPE = re.compile(r"\\(?:e|x([0-9a-fA-F]{2})|.)", re.DOTALL)
_MAX_INTEGER = 2**63


def parse(path: str, data: bytes, dialect: Dialect) -> tuple[Source, Any]:
    """Parse a file. Returns its text and its keys. Raises ConfigError with file and line if it is invalid."""
    if dialect == "0.5":
        text = _line_ends(data.decode(errors="replace").removeprefix("\ufeff"))
    else:
        text = _strict_text(path, data)
    source = Source(path, text if dialect == "1.0" else _Translation(path, text, dialect).text(), "toml")
    try:
        tree = parse_text(source)
    except ConfigError:
        tree = _tables_one_by_one(source) if dialect == "0.5" else None
        if tree is None:
            raise
    if dialect != "0.5" and re.search(r"\d{19}", source.text):
        _check_integers(path, tree)
    return source, tree


def _check_integers(path: str, value: Any) -> None:
    """Raise ConfigError if an integer does not fit into 64 bits."""
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_integers(path, inner)
    elif type(value) is int and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise ConfigError(path, "", f"the number {value} does not fit into 64 bits")


def _line_ends(text: str) -> str:
    """Replace carriage returns, which end lines in TOML 0.5 even without a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _strict_text(path: str, data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}", "", f"not UTF-8 text: byte 0x{data[error.start]:02x}") from None
    if text.startswith("\ufeff"):
        raise ConfigError(f"{path}:1", "", "begins with a byte order mark (EF BB BF)", "save it without one")
    return text


class _Translation:
    """Rewrite TOML of another dialect as TOML 1.0, line by line."""

    def __init__(self, path: str, text: str, dialect: Dialect) -> None:
        self._path = path
        self._source = text
        self._dialect = dialect
        self._pieces = [match[0] for match in _PIECE.finditer(text)]
        self._brackets: list[str] = []
        self._parts: list[str] = []
        self._joined_lines = 0
        self._before = ["\n"] * 3  # the last three pieces that are not white space

    def text(self) -> str:
        """Rewrite the text. Raises ConfigError if the dialect refuses a piece that TOML 1.0 accepts."""
        for number, piece in enumerate(self._pieces):
            later = self._pieces[number + 1] if number + 1 < len(self._pieces) else ""
            new = self._rewritten_piece(piece, later)
            self._parts.append(new)
            if not new.isspace() or "\n" in new:
                self._before = [*self._before[1:], new]
        return "".join(self._parts)

    def _rewritten_piece(self, piece: str, later: str) -> str:
        """Rewrite a piece; `later` is the next piece."""
        is_in_braces = self._brackets[-1:] == ["{"]
        if piece in ("[", "{"):
            self._brackets.append(piece)
        elif piece in ("]", "}") and self._brackets:
            self._close(piece)
        elif is_in_braces and (piece == "\n" or piece[0] == "#"):
            self._joined_lines += piece == "\n"
            return " "
        elif piece == "\n":
            lines, self._joined_lines = self._joined_lines, 0
            return "\n" * (lines + 1)
        elif piece[0] in "\"'":
            return self._string(piece)
        elif self._dialect == "1.1":
            return self._with_seconds(piece, later)
        elif piece[0] == "#":
            return "#"
        elif self._before[-1] in ("=", ",", "[", "+"):
            return self._number_or_date(piece, later)
        return piece

    def _close(self, bracket: str) -> None:
        """Close a bracket. TOML 1.1 accepts a comma after the last value before a brace."""
        self._brackets.pop()
        if bracket == "}" and self._before[-1] == "," and self._before[-2] != "{" and self._dialect == "1.1":
            self._parts[len(self._parts) - 1 - self._parts[::-1].index(",")] = " "

    def _string(self, piece: str) -> str:
        """Rewrite a quoted string."""
        if self._dialect == "1.1":
            return piece if piece[0] == "'" else _NEW_ESCAPE.sub(_old_escape, piece)
        if piece[0] == '"' and "".join(self._parts[-1:]).endswith('"""'):
            raise self._refusal("a quote before the three quotes that end a string, which containerd 1.7 cannot read")
        if piece[0] == "'":
            return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", "\ufffd", piece)
        return _ODD_ESCAPE.sub(_plain_escape, piece.replace("\x7f", "\ufffd"))

    def _with_seconds(self, piece: str, later: str) -> str:
        """Add the seconds to a time without seconds, which TOML 1.1 allows."""
        minutes = _MINUTES.fullmatch(piece)
        is_time = self._before[-1] == ":" and self._before[-3] != ":" and _HOURS.fullmatch(self._before[-2])
        has_seconds = later == ":" and minutes and not minutes[2]
        return f"{minutes[1]}:00{minutes[2] or ''}" if minutes and is_time and not has_seconds else piece

    def _number_or_date(self, piece: str, later: str) -> str:
        """Rewrite a number with leading zeros, and refuse dates that go-toml 1.x cannot read."""
        if (_DATE.fullmatch(piece) and later and later[0] not in " T") or (_DATE.match(piece) and "t" in piece):
            raise self._refusal("a date without a time, which containerd 1.7 cannot read")
        zeros = _LEADING_ZEROS.fullmatch(piece)
        is_refused = len(piece) > 2 and piece[0] == "0" and self._before[-1] != "+" and later != "."
        return piece if zeros is None or is_refused or later == ":" else zeros[1] + zeros[2]

    def _refusal(self, reason: str) -> ConfigError:
        line = "".join(self._parts).count("\n") + 1
        return ConfigError(f"{self._path}:{line}", "", reason)


def _old_escape(escape: re.Match[str]) -> str:
    """Rewrite an escape of TOML 1.1 as an escape of TOML 1.0."""
    return "\\u001b" if escape[0] == "\\e" else f"\\u00{escape[1]}" if escape[1] else escape[0]


def _plain_escape(escape: re.Match[str]) -> str:
    """Rewrite an escape that only go-toml 1.x accepts as an escape of TOML 1.0."""
    return "/" if escape[0] == "\\/" else "\\ufffd" if len(escape[0]) > 2 else escape[0]


_IN_BRACES = re.compile(r"(?m)^[ \t]*([^=#\[\n]+?)[ \t]*=[ \t]*\{")


class _Conflict(Exception):
    """Two tables that go-toml 1.x does not merge."""


def _tables_one_by_one(source: Source) -> dict[str, Any] | None:
    """Parse each table separately and merge the tables: go-toml 1.x accepts a header after dotted keys of its table.

    Returns None if the file has another mistake.
    """
    chunks = re.split(r"(?m)^(?=[ \t]*\[)", source.text)
    tree: dict[str, Any] = {}
    headers: set[str] = set()
    closed: set[tuple[str, ...]] = set()  # tables in braces
    try:
        for chunk in chunks:
            header = chunk.partition("\n")[0].partition("#")[0].strip()
            table = tuple(toml_key(header.strip("[]"))) if header.startswith("[") else ()
            if any(table[:end] in closed for end in range(1, len(table) + 1)):
                return None
            if header.startswith("[") and not header.startswith("[["):
                if header in headers:
                    return None
                headers.add(header)
            closed |= {(*table, *toml_key(match[1])) for match in _IN_BRACES.finditer(chunk)}
            _merge(tree, parse_text(Source(source.name, chunk, "toml")) or {})
    except (ConfigError, _Conflict):
        return None
    return tree


def _merge(tree: dict[str, Any], table: dict[str, Any]) -> None:
    for key, value in table.items():
        earlier = tree.get(key)
        if key not in tree:
            tree[key] = value
        elif isinstance(earlier, dict) and isinstance(value, dict):
            _merge(earlier, value)
        elif isinstance(earlier, list) and earlier and isinstance(earlier[-1], dict) and isinstance(value, dict):
            _merge(earlier[-1], value)
        elif _are_tables(earlier) and _are_tables(value):
            earlier += value
        else:
            raise _Conflict


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
