"""TOML as containerd's releases parse it: go-toml 0.x and 1.x (TOML 0.5), 2.0 to 2.3 (TOML 1.0), 2.4 (TOML 1.1)."""

from __future__ import annotations

import re
from typing import Any, Literal

from nri.config.source import Source
from nri.config.syntax import parse_text
from nri.errors import ConfigError

Dialect = Literal["0.5", "1.0", "1.1"]

#: Text over several lines, text on one line, a comment, a bare word, white space, anything else.
_PIECE = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?|\'{3}(?:[^']|'(?!\'{2}))*+(?:\'{3,5})?'''
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|#[^\n]*+|[A-Za-z0-9_-]++|[ \t]++|.""",
    re.DOTALL,
)
_LEADING_ZEROS = re.compile(r"(-?)0+(\d[\d_]*)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def parse(path: str, data: bytes, dialect: Dialect) -> tuple[Source, Any]:
    """Parse a file; returns its text and its keys. Raises ConfigError with the file and line of the mistake."""
    if dialect == "0.5":
        text = _line_ends(data.decode(errors="replace").removeprefix("\ufeff"))
    else:
        text = _strict_text(path, data)
    source = Source(path, text if dialect == "1.0" else _translate(path, text, dialect), "toml")
    try:
        return source, parse_text(source)
    except ConfigError:
        tables = _tables_one_by_one(source) if dialect == "0.5" else None
        if tables is None:
            raise
        return source, tables


def _line_ends(text: str) -> str:
    """Replace carriage returns, which end lines in TOML 0.5 even alone."""
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


def _translate(path: str, text: str, dialect: Dialect) -> str:
    """Rewrite what only this dialect accepts as TOML 1.0, line by line. Raises ConfigError for what it refuses."""
    parts: list[str] = []
    brackets: list[str] = []
    joined_lines = 0
    before = "\n"  # the last piece that is not white space
    for match in _PIECE.finditer(text):
        piece = match[0]
        if piece[0] == "#" and dialect == "0.5":
            piece = "#"
        if piece in "[{":
            brackets.append(piece)
        elif piece in "]}" and brackets:
            brackets.pop()
            if piece == "}" and before == "," and dialect == "1.1":
                parts[len(parts) - 1 - parts[::-1].index(",")] = " "
        elif brackets[-1:] == ["{"] and (piece == "\n" or (piece[0] == "#" and dialect == "1.1")):
            joined_lines += piece == "\n"
            piece = " "
        elif piece == "\n":
            piece += "\n" * joined_lines
            joined_lines = 0
        elif dialect == "0.5" and before in ("=", ",", "[", "+"):
            if _DATE.fullmatch(piece) and match.end() < len(text) and text[match.end()] not in " T":
                line = text.count("\n", 0, match.start()) + 1
                raise ConfigError(f"{path}:{line}", "", "a date without a time, which containerd 1.7 cannot read")
            if zeros := _LEADING_ZEROS.fullmatch(piece):
                piece = zeros[1] + zeros[2]
        parts.append(piece)
        if not piece.isspace() or "\n" in piece:
            before = piece
    return "".join(parts)


class _Conflict(Exception):
    """Two tables that go-toml 1.x does not merge either."""


def _tables_one_by_one(source: Source) -> dict[str, Any] | None:
    """Parse each table by itself and merge them: go-toml 1.x lets a header follow dotted keys of the same table.

    None if the file has another mistake.
    """
    if re.search(r"=\s*\{", source.text):
        return None  # a header must not extend a table in braces
    chunks = re.split(r"(?m)^(?=[ \t]*\[)", source.text)
    tree: dict[str, Any] = {}
    headers: set[str] = set()
    try:
        for chunk in chunks:
            header = chunk.partition("\n")[0].partition("#")[0].strip()
            if header.startswith("[") and not header.startswith("[["):
                if header in headers:
                    return None
                headers.add(header)
            _merge(tree, parse_text(Source(source.name, chunk, "toml")) or {})
    except (ConfigError, _Conflict):
        return None
    return tree


def _merge(tree: dict[str, Any], table: dict[str, Any]) -> None:
    for key, value in table.items():
        known = tree.get(key)
        if key not in tree:
            tree[key] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            _merge(known, value)
        elif isinstance(known, list) and known and isinstance(known[-1], dict) and isinstance(value, dict):
            _merge(known[-1], value)
        elif isinstance(known, list) and isinstance(value, list) and value and isinstance(value[0], dict):
            known += value
        else:
            raise _Conflict
