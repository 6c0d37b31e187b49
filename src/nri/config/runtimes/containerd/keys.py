"""Look up keys as containerd does, and check values against their types and against files."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple

from nri.config.duration import parse_duration
from nri.config.runtimes.containerd.releases import Rules
from nri.config.runtimes.file_tree import FileTree

KeyPath = tuple[str, ...]


def spelling(table: Any, name: str, rules: Rules) -> str | None:
    """Find the key that is used for a name, or None. 1.7 accepts lower case and capitals, 2.x any case."""
    if not isinstance(table, dict):
        return None
    if name in table:
        return name
    if rules.is_1:
        return name.upper() if name.upper() in table else None
    return max((key for key in table if key.lower() == name), default=None)


def value_at(table: Any, path: KeyPath, rules: Rules) -> Any:
    """Look up a value. Returns None if it does not exist."""
    for name in path:
        key = spelling(table, name, rules)
        if key is None:
            return None
        table = table[key]
    return table


class WrongType(NamedTuple):
    """A value that the daemon refuses: its path, the required type, and the value."""

    path: KeyPath
    type: str
    value: Any


def first_wrong(tree: Any, types: Mapping[str, Any], rules: Rules, path: KeyPath = ()) -> WrongType | None:
    """Find the first value of a wrong type. Keys that are not in `types` may have any type."""
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
            if not _has_type(value, kind, rules):
                return WrongType((*path, key), kind, value)
        elif wrong := first_wrong(value, kind, rules, (*path, key)):
            return wrong
    return None


def _has_type(value: Any, kind: str, rules: Rules) -> bool:
    """Whether a value has a type."""
    if kind == "texts":
        return isinstance(value, list) and all(type(text) is str for text in value)
    if kind == "table":
        return isinstance(value, dict)
    if kind == "tables":
        entries = [value] if isinstance(value, dict) and rules.toml == "1.1" else value
        if entries == [] and rules.is_1:
            return False
        return isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    if kind == "float":
        return type(value) is float or (type(value) is int and not rules.is_1)
    if kind == "duration" and isinstance(value, str):
        return is_duration(value)
    if kind == "duration":
        return type(value) is int and rules.toml != "1.0"  # nanoseconds
    return type(value) is {"str": str, "int": int, "bool": bool}[kind]


def is_duration(text: str) -> bool:
    """Whether Go can parse a string as a duration."""
    try:
        parse_duration(text)
    except ValueError:
        return False
    return True


def seconds(value: Any) -> float:
    """Convert a duration (a string or nanoseconds) to seconds."""
    return value / 1e9 if isinstance(value, int) else parse_duration(value)


def is_blocked(tree: FileTree, path: str) -> bool:
    """Whether a folder cannot exist at a path, because the path or a parent is something else."""
    path = posixpath.join("/", path)
    while path != "/":
        if tree.exists(path):
            return not tree.is_folder(path)
        path = posixpath.dirname(path)
    return False
