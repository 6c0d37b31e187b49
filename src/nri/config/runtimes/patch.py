"""Set keys in a table of a TOML file without changing any other byte, or in a table of a JSON file.

    text = patched(text, ("plugins", "io.containerd.nri.v1.nri"), {"disable": False})

The result is parsed and compared with the expected tree, so that a file in a form that this module does not support (an
inline table, dotted keys, a header in a string) is refused and never damaged.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from nri.config.runtimes.config_file import KeyPath, toml_table
from nri.config.source import Source
from nri.config.syntax import parse_text
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.config.source import Format

#: A value that can be set.
Value = bool | int | str
_HEADER = re.compile(r"\s*\[([^\[\]].*)\]\s*(?:#.*)?")
_VALUE = r"(\"[^\"\\]*\"|'[^']*'|true|false|[+-]?[0-9][0-9._]*)"


def patched(
    text: str,
    table: KeyPath,
    values: Mapping[str, Value],
    path: str = "",
    format: Format = "toml",  # noqa: A002 - the field's name elsewhere
) -> str:
    """Set values in a table of a text.

    Args:
        text: TOML or JSON.
        table: the table's path.
        values: the values by key.
        path: the path of the file, for errors.
        format: "toml" or "json".

    Raises:
        ConfigError: the text is not in its format, or has the table in a form that cannot be changed safely.
    """
    before = _tree(text, path, format)
    target = copy.deepcopy(before)
    place = target
    for key in table:
        place = place.setdefault(key, {})
        if not isinstance(place, dict):
            raise ConfigError(path, toml_table(table), "must be a table")
    if values.items() <= place.items() and all(type(place[key]) is type(value) for key, value in values.items()):
        return text
    place.update(values)
    if format == "json":
        indent = re.match(r"\s*\{\s*\n([ \t]+)", text)
        return json.dumps(target, indent=indent[1] if indent else 4, ensure_ascii=False) + "\n"
    changed = _changed_text(text, table, values)
    try:
        good = _tree(changed, path, format) == target
    except ConfigError:
        good = False
    if not good:
        step = "change it by hand: " + " / ".join(lines_of(table, values))
        raise ConfigError(path, toml_table(table), "exists in a form that cannot be changed safely", step)
    return changed


def lines_of(table: KeyPath, values: Mapping[str, Value], indent: str = "  ") -> list[str]:
    """Write a table, line by line."""
    return [f"[{toml_table(table)}]", *(f"{indent}{key} = {json.dumps(value)}" for key, value in values.items())]


def _tree(text: str, path: str, format: Format) -> dict[str, Any]:  # noqa: A002
    tree = parse_text(Source(path, text, format))
    if tree is not None and not isinstance(tree, dict):
        raise ConfigError(path, "", "the file must be a table of keys")
    return tree or {}


def _changed_text(text: str, table: KeyPath, values: Mapping[str, Value]) -> str:
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    header = next((number for number, line in enumerate(lines) if _header(line) == table), None)
    if header is None:
        gap = "" if not text or text.endswith("\n") else end
        return text + gap + (end if text.strip() else "") + end.join(lines_of(table, values)) + end
    after = next((n for n in range(header + 1, len(lines)) if _header(lines[n]) is not None), len(lines))
    if not lines[header].endswith("\n"):
        lines[header] += end
    indent = next(
        (match[1] for line in lines[header + 1 : after] if (match := re.match(r"([ \t]*)[\w\"']", line))), "  "
    )
    new = []
    for key, value in values.items():
        pattern = re.compile(rf"(\s*[\"']?{re.escape(key)}[\"']?\s*=\s*){_VALUE}(\s*(?:#.*)?)", re.DOTALL)
        for number in range(header + 1, after):
            match = pattern.fullmatch(lines[number])
            if match is not None:
                lines[number] = f"{match[1]}{json.dumps(value)}{match[3]}"
                break
        else:
            new.append(f"{indent}{key} = {json.dumps(value)}{end}")
    return "".join([*lines[: header + 1], *new, *lines[header + 1 :]])


def _header(line: str) -> KeyPath | None:
    """Return the table's path if the line is a table header. Returns None for another line."""
    match = _HEADER.fullmatch(line.rstrip("\r\n"))
    if match is None:
        return ("", "") if re.match(r"\s*\[\[", line) else None
    try:
        tree: Any = parse_text(Source("", f"[{match[1]}]", "toml"))
    except ConfigError:
        return None
    path = []
    while isinstance(tree, dict) and tree:
        key = next(iter(tree))
        path.append(key)
        tree = tree[key]
    return tuple(path)
