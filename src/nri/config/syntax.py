"""Parse JSON, YAML and TOML to plain values, and find the line of a key in the text.

A duplicate key is an error in every format.
"""

from __future__ import annotations

import re

from nri.config.key_path import Path, first_line, location, path_text, uncapital
from nri.config.yaml_text import DEEPEST, LONGEST_NUMBER, YamlLines, parse_yaml
from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from nri.config.source import Format, Source


__all__ = ["DUPLICATE", "Lines", "TooDeep", "format_of", "line_of", "parse_json", "parse_text", "path_text", "toml_key",
           "without_half_characters"]  # fmt: skip


#: The reason of the error for a key that is given twice.
DUPLICATE = "duplicate key"


def format_of(source: Source) -> Format:
    """The format in which a source is parsed first. YAML that begins with `{` is parsed as JSON first, then as YAML."""
    if source.format != "auto":
        return source.format
    return "json" if source.text.lstrip().startswith("{") else "yaml"


def parse_text(source: Source) -> Any:
    """The source as dicts, lists and scalars, or None if it is empty. Raises ConfigError with the line if invalid."""
    if not source.text.strip():
        return None
    try:
        source.text.encode()
    except UnicodeEncodeError:  # arguments and environment may contain any bytes
        raise ConfigError(source.name, "", "the text is not UTF-8") from None
    tree = _PARSERS[format_of(source)](source)
    if _MAY_BE_ODD.search(source.text) or sum(map(source.text.count, "[{.")) > DEEPEST:  # a dot nests in TOML
        _refuse_odd(source, tree)
    return tree


class TooDeep(ValueError):
    """A text is nested deeper than `DEEPEST` levels: code that walks its values might not return."""

    def __init__(self) -> None:
        super().__init__(f"nested deeper than {DEEPEST} levels")


def parse_json(data: str | bytes, **hooks: Callable[[Any], Any]) -> Any:
    """Parse JSON from outside as plain values. `hooks` are arguments of `json.loads`.

    A surrogate without its other half, which a message cannot contain, becomes U+FFFD, as in Go.

    Raises json.JSONDecodeError with the position of a mistake, TooDeep if the JSON is nested too deeply, and ValueError
    for other mistakes.
    """
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    if "NaN" in text or "Infinity" in text:
        hooks = {"parse_constant": _no_number, **hooks}
    return _load_json(without_half_characters(text), hooks)


def without_half_characters(text: str) -> str:
    """Return JSON in which escapes of a surrogate without its other half are U+FFFD, as in Go."""
    return _ESCAPE.sub(_replaced_surrogate, text) if _MAY_BE_ODD.search(text) else text


def _load_json(text: str, hooks: Mapping[str, Callable[[Any], Any]]) -> Any:
    """JSON with any characters, limited in depth."""
    import json

    try:
        level = [tree := json.loads(text, **hooks)]  # type: ignore[arg-type]
    except RecursionError:
        raise TooDeep from None
    if text.count("[") + text.count("{") <= DEEPEST:
        return tree
    for _ in range(DEEPEST):
        level = [inner for value in level if isinstance(value, (dict, list))
                 for inner in (value.values() if isinstance(value, dict) else value)]  # fmt: skip
        if not level:
            return tree
    raise TooDeep


def _no_number(word: str) -> Any:
    """Refuse a word that Python accepts as a number in JSON."""
    raise ValueError(f"{word} is not a number in JSON")


#: Escapes of JSON and YAML that may be a surrogate, which a message cannot contain.
_MAY_BE_ODD = re.compile(r"\\[uU](?:0000)?[dD][89a-fA-F]")
#: Any escape of JSON; a pair of surrogates is one escape.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL
)


def _replaced_surrogate(escape: re.Match[str]) -> str:
    """An escape of JSON, with U+FFFD in place of a single surrogate."""
    return "\\ufffd" if len(escape[0]) == len("\\ud800") else escape[0]


def _refuse_odd(source: Source, tree: Any) -> None:
    """Refuse single surrogates, and values nested so deeply that code that walks them would not return."""
    waiting: list[tuple[Any, Path]] = [(tree, ())]
    while waiting:
        value, path = waiting.pop()
        if len(path) > DEEPEST:
            raise ConfigError(location(source, deep_line(source.text)), "", f"nested deeper than {DEEPEST} levels")
        if isinstance(value, dict):
            waiting += [(item, (*path, str(key))) for key, item in value.items()]
            waiting += [(key, (*path, str(key))) for key in value if isinstance(key, str)]
        elif isinstance(value, (list, tuple)):
            waiting += [(item, (*path, place)) for place, item in enumerate(value)]
        elif isinstance(value, str) and not _is_text(value):
            odd = _MAY_BE_ODD.search(source.text)
            line = source.text.count("\n", 0, odd.start()) + 1 if odd else None
            raise ConfigError(location(source, line), path_text(path), "contains half of a character (a surrogate)")


def line_of(source: Source, path: Path) -> int | None:
    """The line of the key at `path`, counted from 1. Returns None if the key is not found."""
    return Lines(source).find(path)


class Lines:
    """The lines of a source's keys. The text is parsed again once, when the first line is requested."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._is_parsed = False
        self._lines: YamlLines | _TomlLines | None = None

    def find(self, path: Path) -> int | None:
        """The line of the key at `path`, counted from 1. Returns None if the key is not found."""
        try:
            if not self._is_parsed:
                self._is_parsed = True
                kind = _TomlLines if format_of(self._source) == "toml" else YamlLines
                self._lines = kind(self._source.text)
            return None if self._lines is None else self._lines.find(path)
        except Exception:  # noqa: BLE001  (a failure must not hide the error that the line number is for)
            return None

    def near(self, path: Path) -> int | None:
        """The line of the key at `path`, else of the innermost existing key around it, else None."""
        ends = range(len(path), 0, -1)
        return next((line for end in ends if (line := self.find(path[:end])) is not None), None)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def deep_line(text: str) -> int | None:
    """The first line on which brackets outside of quotes are nested deeper than `DEEPEST`, or None."""
    depth = 0
    for part in re.finditer(r'"(?:[^"\\\n]|\\.)*"|[\[{\]}]', text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(part[0], 0)
        if depth > DEEPEST:
            return text.count("\n", 0, part.start()) + 1
    return None


def _parser_limit_error(source: Source, form: str, error: Exception) -> ConfigError:
    """The error for input that a parser cannot parse: too deep, or a number with too many digits."""
    if isinstance(error, TooDeep):
        return ConfigError(location(source, deep_line(source.text)), "", str(error))
    digits = re.search(rf"[0-9]{{{LONGEST_NUMBER},}}", source.text)
    line = source.text.count("\n", 0, digits.start()) + 1 if digits else None
    return ConfigError(location(source, line), "", f"not valid {form}: {first_line(error)}")


def _duplicate_key_error(source: Source, key: str) -> ConfigError:
    """The error for a duplicate key in JSON. The line is found by parsing it as YAML, with tabs replaced."""
    error = ConfigError(source.name, key, DUPLICATE, "remove one of the two")
    try:
        parse_yaml(type(source)(source.name, source.text.replace("\t", " "), "yaml"))
    except ConfigError as found:
        if found.reason == error.reason:
            return found
    return error


def _parse_json(source: Source) -> Any:
    import json

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, value in pairs:
            if key in table:
                raise _duplicate_key_error(source, key)
            table[key] = value
        return table

    try:
        return _load_json(source.text, {"object_pairs_hook": unique})
    except json.JSONDecodeError as error:
        hint = ""
        if source.format == "auto":
            try:
                return parse_yaml(source)
            except ConfigError as refused:
                if not re.match(r'\s*{\s*(["}]|$)', source.text):  # keys without quotes: the author meant YAML
                    raise refused from None
            hint = "and not valid YAML either"
        reason = f"not valid JSON: {uncapital(error.msg)} in column {error.colno}"
        raise ConfigError(location(source, error.lineno), "", reason, hint) from None
    except ValueError as error:
        raise _parser_limit_error(source, "JSON", error) from None


#: Pieces of TOML: a multi-line string, a string on one line, a comment, a part of a bare key, or another character.
_PIECE = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|\'{3}(?:[^']|'(?!\'{2}))*+(?:\'{3})?'''
    r"""|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|#[^\n]*+|[A-Za-z0-9_-]++|[ \t]++|.""",
    re.DOTALL,
)


def _refuse_long_keys(source: Source) -> None:
    """Refuse a key with more than `DEEPEST` parts, because parsing takes the square of their number."""
    parts, after_dot = 0, False
    for piece in _PIECE.finditer(source.text):
        if piece[0] == ".":
            after_dot = True
        elif not piece[0].isspace() or piece[0] == "\n":
            parts = parts + 1 if after_dot else 1
            after_dot = False
            if parts > DEEPEST:
                line = source.text.count("\n", 0, piece.start()) + 1
                raise ConfigError(location(source, line), "", f"nested deeper than {DEEPEST} levels")


def _parse_toml(source: Source) -> Any:
    import tomllib

    if source.text.count(".") > DEEPEST:
        _refuse_long_keys(source)
    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        where = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        message = where[1] if where else str(error)
        line = int(where[2]) if where and where[2] else source.text.rstrip("\n").count("\n") + 1
        raise ConfigError(location(source, line), "", f"not valid TOML: {uncapital(message)}") from None
    except RecursionError:
        raise _parser_limit_error(source, "TOML", TooDeep()) from None
    except ValueError as error:
        raise _parser_limit_error(source, "TOML", error) from None


_PARSERS: dict[Format, Callable[[Source], Any]] = {
    "json": _parse_json,
    "yaml": parse_yaml,
    "go-yaml": parse_yaml,
    "lenient-go-yaml": parse_yaml,
    "toml": _parse_toml,
}


class _TomlLines:
    """The lines of keys in TOML, found by scanning the text again, because tomllib does not keep positions."""

    def __init__(self, text: str) -> None:
        self._first_lines: dict[tuple[str, ...], int] = {}
        self._last_lines: dict[tuple[str, ...], int] = {}
        for number, key_path in _toml_keys(text):
            self._first_lines.setdefault(key_path, number)
            self._last_lines[key_path] = number

    def find(self, path: Path) -> int | None:
        """Return the line of a key, or of the key of the inline table or list around it."""
        key_path = tuple(str(part) for part in path if isinstance(part, str))
        if key_path in self._first_lines:
            return self._first_lines[key_path]
        above = [
            self._last_lines[key_path[:end]] for end in range(1, len(key_path)) if key_path[:end] in self._last_lines
        ]
        return max(above, default=None)


def _toml_keys(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The lines with a key or a table header, each with all parts of the name."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?([^\]]+)\]\]?\s*(?:#.*)?$", line)
        if header:
            table = toml_key(header[1])
        key = re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", line)
        key_path = table if header else [*table, *toml_key(key[1])] if key else None
        if key_path:
            yield number, tuple(key_path)


def toml_key(dotted: str) -> list[str]:
    """The parts of a dotted TOML key, without quotes: ``plugins."io.containerd.nri.v1.nri"`` has two."""
    return [a or b or c for a, b, c in re.findall(r"""([\w-]+)|"([^"]*)"|'([^']*)'""", dotted)]
