"""The runtimes' configuration files as trees whose every key knows its file and line; and what is wrong in general.

Rules: what cannot be read is a finding and leaves an empty tree; a file that a runtime would refuse is a problem.
The runtimes' own modules say which keys there are; `misplaced` and `misspelt` here say what is near one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nri.cli.checks.findings import Finding, inside
from nri.config import Source, parse_duration, parse_text, read_file
from nri.config.complaint import suggest
from nri.config.place import show
from nri.config.syntax import line_of
from nri.errors import ConfigError

#: A key's path from the root of a file.
KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class File:
    """A configuration file as it was read. `path` is as seen inside the root, for people."""

    path: str
    source: Source
    tree: dict[str, Any]

    def where(self, *keys: str) -> str:
        """The place of a key: ``/etc/x.toml:12: a.b``."""
        line = line_of(self.source, keys) if keys else None
        return f"{self.path}{f':{line}' if line else ''}" + (f": {show(keys)}" if keys else "")

    def at(self, *keys: str) -> Any:
        """The value at a path, or None."""
        value: Any = self.tree
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value


def load(root: str, path: str, findings: list[Finding], format: Any = "toml") -> File | None:  # noqa: A002
    """Read one file; None, with a finding if it exists, when it cannot be used."""
    try:
        source = read_file(inside(root, path), format)
    except ConfigError as error:
        if "No such file" not in error.reason:
            step = "run the doctor as root" if "denied" in error.reason else ""
            findings.append(Finding("problem", error.reason, path, step))
        return None
    named = Source(path, source.text, source.format)
    try:
        tree = parse_text(named)
    except ConfigError as error:
        findings.append(Finding("problem", error.reason, error.source, "the runtime will not start with it"))
        return None
    if not isinstance(tree, (dict, type(None))):
        findings.append(Finding("problem", "not a table of keys", path))
        return None
    return File(path, named, tree or {})


def unknown_keys(file: File, table: KeyPath, known: set[str], findings: list[Finding], effect: str) -> None:
    """Report keys of a table that the runtime does not have."""
    found = file.at(*table)
    for key in found if isinstance(found, dict) else ():
        if key not in known:
            what = f'unknown key "{key}"; {effect}'
            findings.append(Finding("problem", what, file.where(*table, key), suggest(key, known)))


def misplaced(file: File, home: KeyPath, keys: set[str], findings: list[Finding]) -> None:
    """Report NRI's keys outside of NRI's table: the runtime ignores them there, and nobody tells."""
    for path, _ in walk(file.tree):
        own = path[: len(home)] == home
        if not own and path[-1] in keys:
            right = f"move it to [{toml_table(home)}]"
            findings.append(
                Finding("problem", f'"{path[-1]}" is at the wrong level and has no effect', file.where(*path), right)
            )


def walk(tree: Any, path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    """Every key of every table with its path, tables included."""
    found: list[tuple[KeyPath, Any]] = []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found.append(((*path, key), value))
            found += walk(value, (*path, key))
    return found


def toml_table(path: KeyPath) -> str:
    """A table's header as one writes it in TOML."""
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)


def typed(file: File, keys: KeyPath, kind: type, findings: list[Finding]) -> Any:
    """The value at `keys` if it has the type; a finding and None if it has another; None if it is not there."""
    value = file.at(*keys)
    if value is None or type(value) is kind:
        return value
    words = {bool: "true or false", str: "text in quotes", int: "a whole number", list: "a list"}
    findings.append(Finding("problem", f"must be {words[kind]}, not {value!r}", file.where(*keys)))
    return None


def duration(file: File, keys: KeyPath, findings: list[Finding]) -> float | None:
    """Seconds of a Go duration at `keys`; None when absent, zero (which means the default) or wrong."""
    text = typed(file, keys, str, findings)
    try:
        return parse_duration(text) or None if text else None
    except ValueError as error:
        reason, _, step = str(error).partition("; ")
        findings.append(Finding("problem", reason, file.where(*keys), step))
        return None
