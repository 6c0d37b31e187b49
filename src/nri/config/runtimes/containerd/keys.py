"""Keys as containerd looks them up, and values checked against their types and the files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple

from nri.config.duration import parse_duration
from nri.config.runtimes.containerd.releases import Rules
from nri.config.runtimes.file_tree import FileTree

KeyPath = tuple[str, ...]


def spelling(table: Any, name: str, rules: Rules) -> str | None:
    """Find the key that counts for a name: 1.7 knows lower case and capitals, 2.x any case; None without one."""
    if not isinstance(table, dict):
        return None
    if name in table:
        return name
    if rules.is_1:
        return name.upper() if name.upper() in table else None
    return max((key for key in table if key.lower() == name), default=None)


def value_at(table: Any, path: KeyPath, rules: Rules) -> Any:
    """Look up a value; None if it does not exist."""
    for name in path:
        key = spelling(table, name, rules)
        if key is None:
            return None
        table = table[key]
    return table


class WrongType(NamedTuple):
    """A value that the daemon refuses: where, the type that it needs, and the value."""

    path: KeyPath
    type: str
    value: Any


def first_wrong(tree: Any, types: Mapping[str, Any], rules: Rules, path: KeyPath = ()) -> WrongType | None:
    """Find the first value of a wrong type; keys that are not in `types` may have any."""
    if not isinstance(tree, dict):
        return WrongType(path, "table", tree)
    for key in sorted(tree):
        kind = types.get("*")
        if kind is None:
            kind = types.get(key if rules.is_1 else key.lower())
        if rules.is_1 and kind is None and key.isupper() and key.lower() not in tree:
            kind = types.get(key.lower())
        if kind is None or ("*" not in types and spelling(tree, key.lower(), rules) != key):
            continue
        value = tree[key]
        if isinstance(kind, str):
            if not _fits(value, kind, rules):
                return WrongType((*path, key), kind, value)
        elif wrong := first_wrong(value, kind, rules, (*path, key)):
            return wrong
    return None


def _fits(value: Any, kind: str, rules: Rules) -> bool:
    """Tell whether a value has a type."""
    if kind == "texts":
        return isinstance(value, list) and all(type(text) is str for text in value)
    if kind == "table":
        return isinstance(value, dict)
    if kind == "float":
        return type(value) in (float, int)
    if kind == "duration" and isinstance(value, str):
        return is_duration(value)
    if kind == "duration":
        return type(value) is int and rules.toml != "1.0"  # nanoseconds
    return type(value) is {"str": str, "int": int, "bool": bool}[kind]


def is_duration(text: str) -> bool:
    """Tell whether Go can parse a text as a duration."""
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def seconds(value: Any) -> float:
    """Convert a duration, text or nanoseconds, to seconds."""
    return value / 1e9 if isinstance(value, int) else parse_duration(value)


def is_blocked(tree: FileTree, path: str) -> bool:
    """Tell whether a folder cannot exist at a path, since something else is there or on the way."""
    path = posixpath.join("/", path)
    while path != "/":
        if tree.exists(path):
            return not tree.is_folder(path)
        path = posixpath.dirname(path)
    return False
