"""Text to a tree of plain values (JSON, YAML or TOML), and back from a key in that tree to its line in the text.

Rules: a key given twice is an error in every format; YAML means YAML 1.2's core schema, so that `no`, `on`, `1:30`,
`0644` and dates stay text instead of turning into something nobody wrote. What the values must be is the question of
`nri.config.typed`. Lines are looked up only when there is an error to report.
"""

from __future__ import annotations

import functools
import re

from nri.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.config.source import Format, Source

#: Keys and list positions from the root of a tree to a value.
Path = tuple["str | int", ...]


def format_of(source: Source) -> Format:
    """The format that a source's text is in."""
    if source.format != "auto":
        return source.format
    return "json" if source.text.lstrip().startswith("{") else "yaml"


def parse_text(source: Source) -> Any:
    """The source's text as dicts, lists and scalars; None for an empty text. ConfigError names the line."""
    if not source.text.strip():
        return None
    return _PARSERS[format_of(source)](source)


def line_of(source: Source, path: Path) -> int | None:
    """The line, counted from 1, on which the key at `path` stands; None when it cannot be found."""
    try:
        return _toml_line(source.text, path) if format_of(source) == "toml" else _yaml_line(source.text, path)
    except Exception:  # noqa: BLE001  (a line number is a courtesy: no reason to lose the error it belongs to)
        return None


def _at(source: Source, line: int | None) -> str:
    """The source's name with a line, as errors show it."""
    return f"{source.name}:{line}" if line else source.name


def _parse_json(source: Source) -> Any:
    import json

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                raise ConfigError(source.name, key, "the key is given twice", "keep one of them")
            seen[key] = value
        return seen

    try:
        return json.loads(source.text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        hint = "" if source.format == "json" else "text that starts with { is read as JSON"
        reason = f"not valid JSON: {_uncapital(error.msg)} in column {error.colno}"
        raise ConfigError(_at(source, error.lineno), "", reason, hint) from None
    except RecursionError:
        raise ConfigError(source.name, "", "nested too deeply") from None


def _parse_toml(source: Source) -> Any:
    import tomllib

    try:
        return tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as error:
        where = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
        message = where[1] if where else str(error)
        line = int(where[2]) if where and where[2] else source.text.rstrip("\n").count("\n") + 1
        raise ConfigError(_at(source, line), "", f"not valid TOML: {_uncapital(message)}") from None


def _parse_yaml(source: Source) -> Any:
    import yaml

    loader = _yaml_loader()(source.text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_twice(source, node, (), set())
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = str(error.problem or error.context)
        hint = "indent with blanks, not tabs" if "\\t" in problem else ""
        raise ConfigError(_at(source, line), "", f"not valid YAML: {problem}", hint) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(source.name, "", f"not valid YAML: {str(error).splitlines()[0]}") from None
    finally:
        loader.dispose()


_PARSERS: dict[Format, Callable[[Source], Any]] = {"json": _parse_json, "yaml": _parse_yaml, "toml": _parse_toml}

#: Scalars that YAML 1.2's core schema gives a type: tag, pattern, first characters.
_CORE_SCHEMA = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    ("merge", r"<<", "<"),
)


@functools.cache
def _yaml_loader() -> Any:
    """PyYAML's safe loader (the C one where it is built in) with the core schema's scalars."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("CoreLoader", (base,), {"yaml_implicit_resolvers": {}})
    for tag, pattern, first in _CORE_SCHEMA:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first))
    return loader


def _refuse_twice(source: Source, node: Any, path: Path, seen: set[int]) -> None:
    """PyYAML lets the last of two equal keys win in silence; a person who wrote both expects something else."""
    if id(node) in seen or node.id == "scalar":
        return
    seen.add(id(node))
    keys: set[str] = set()
    for position, item in enumerate(node.value):
        key, value = item if node.id == "mapping" else (None, item)
        if key is not None and key.id == "scalar" and key.value != "<<":
            if key.value in keys:
                where = _at(source, key.start_mark.line + 1)
                raise ConfigError(where, show((*path, key.value)), "the key is given twice", "keep one of them")
            keys.add(key.value)
        _refuse_twice(source, value, (*path, key.value if key is not None else position), seen)


def _yaml_line(text: str, path: Path) -> int | None:
    """Also serves JSON, which YAML contains but for tabs between tokens."""
    import yaml

    node: Any = yaml.compose(text.replace("\t", " "), Loader=_yaml_loader())
    line = None
    for part in path:
        if node.id == "mapping":
            key, node = next((key, value) for key, value in node.value if key.value == str(part))
            line = key.start_mark.line + 1
        else:
            node = node.value[part]
            line = node.start_mark.line + 1
    return line


def _toml_line(text: str, path: Path) -> int | None:
    """Re-scans the text: tomllib keeps no positions. Finds keys under [table] headers and dotted keys."""
    wanted = [str(part) for part in path if isinstance(part, str)]
    table: list[str] = []
    best = None
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[\[?([^\]]+)\]\]?\s*(?:#.*)?$", line)
        if header:
            table = toml_key(header[1])
        key = re.match(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""", line)
        here = table if header else [*table, *toml_key(key[1])] if key else None
        if here == wanted:
            return number
        if here and here == wanted[: len(here)]:
            best = number  # an inline table or list: the line on which its own key stands
    return best


def toml_key(dotted: str) -> list[str]:
    """The parts of a dotted TOML key, without quotes: ``plugins."io.containerd.nri.v1.nri"`` has two."""
    return [a or b or c for a, b, c in re.findall(r"""([\w-]+)|"([^"]*)"|'([^']*)'""", dotted)]


def show(path: Path) -> str:
    """A path as people write it: ``pools[2].cpus``; keys that hold dots are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'
            text += f".{plain}" if text else plain
    return text


def _uncapital(text: str) -> str:
    return text[:1].lower() + text[1:]
