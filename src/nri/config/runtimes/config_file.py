"""A runtime's configuration file as a tree of keys with file and line, and functions that read its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.complaint import suggest
from nri.config.key_path import Path, path_text
from nri.config.runtimes.reading import Kind, Remark
from nri.config.source import Source
from nri.config.syntax import Lines, parse_text
from nri.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from nri.config.runtimes.file_tree import FileTree
    from nri.config.runtimes.reading import Draft

#: A key's path from the root of a file.
KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of a configuration file.

    Attributes:
        path: its path below the root, for messages.
        source: its text.
        tree: its keys and values.
        spelt: the file's spelling of keys that the tree spells differently.
    """

    path: str
    source: Source
    tree: dict[str, Any]
    spelt: Mapping[Path, Path] = field(default_factory=dict)
    _lines: list[Lines] = field(default_factory=list, init=False, repr=False, compare=False)

    def where(self, *keys: str | int) -> str:
        """Return the location of a key: ``/etc/x.toml:12: a.b``. A number is a place in a list."""
        keys = self.spelt.get(keys, keys)
        if not self._lines:
            self._lines.append(Lines(self.source))
        line = self._lines[0].find(keys) if keys else None
        return f"{self.path}{f':{line}' if line else ''}" + (f": {path_text(keys)}" if keys else "")

    def at(self, *keys: str) -> Any:
        """Return the value at a path, or None."""
        value: Any = self.tree
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def paths(self) -> list[tuple[KeyPath, Any]]:
        """Return every key of every table with its path, tables included."""
        return _walk(self.tree, ())


class Setting(NamedTuple):
    """A key of a runtime: the field of `RuntimeNri` that it sets, and the function that reads it."""

    field: str
    key: str
    read: Callable[[ConfigFile, KeyPath, list[Remark]], Any]


def read_source(tree: FileTree, path: str, remarks: list[Remark], format: Any = "toml") -> Source | None:  # noqa: A002
    """Read a file's text. Returns None without a file, or with a remark if it cannot be read."""
    try:
        return Source(path, tree.read(path).decode("utf-8-sig"), format)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        remarks.append(Remark(Kind.DENIED, path, {"reason": f"cannot be read: {error.strerror}"}))
    except OSError as error:
        remarks.append(Remark(Kind.UNREADABLE, path, {"reason": f"cannot be read: {error.strerror}"}))
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
        remarks.append(Remark(Kind.UNREADABLE, path, {"reason": reason}))
    return None


def load(tree: FileTree, path: str, remarks: list[Remark]) -> ConfigFile | None:
    """Read a TOML file. Returns None without a file, or with a remark if it cannot be used."""
    source = read_source(tree, path, remarks)
    if source is None:
        return None
    try:
        content = parse_text(source)
    except ConfigError as error:
        remarks.append(Remark(Kind.INVALID, error.source, {"reason": error.reason}))
        return None
    if not isinstance(content, (dict, type(None))):
        remarks.append(Remark(Kind.NO_TABLE, path))
        return None
    return ConfigFile(path, source, content or {})


def lower_case_keys(file: ConfigFile) -> ConfigFile:
    """The file with all keys in lower case, for runtimes that ignore case."""
    spelt: dict[Path, Path] = {}
    tree: dict[str, Any] = {}
    _fold_keys(file.tree, (), (), tree, spelt)
    return ConfigFile(file.path, file.source, tree, spelt)


def _fold_keys(
    tree: dict[str, Any], path: KeyPath, spelling: KeyPath, folded: dict[str, Any], spelt: dict[Path, Path]
) -> None:
    for key in sorted(tree, key=str.islower):  # the correct spelling comes last, so it overrides other spellings
        name, value = key.lower(), tree[key]
        spelt[*path, name] = (*spelling, key)
        if not isinstance(value, dict):
            folded[name] = value
            continue
        if not isinstance(folded.get(name), dict):
            folded[name] = {}
        _fold_keys(value, (*path, name), (*spelling, key), folded[name], spelt)


def apply_settings(
    draft: Draft, file: ConfigFile, table: KeyPath, settings: Sequence[Setting], remarks: list[Remark]
) -> None:
    """Add the settings of a table to the draft."""
    for setting in settings:
        path = (*table, setting.key)
        value = setting.read(file, path, remarks)
        if value is not None:
            draft.put(setting.field, value, setting.key, file.where(*path))


def ignored_keys(file: ConfigFile, table: KeyPath, known_keys: Collection[str], remarks: list[Remark]) -> None:
    """Remark on the keys of a table that the runtime does not have."""
    keys = file.at(*table)
    for key in keys if isinstance(keys, dict) else ():
        if key not in known_keys:
            remark_unknown(file, (*table, key), known_keys, remarks)


def remark_unknown(file: ConfigFile, path: KeyPath, known_keys: Collection[str], remarks: list[Remark]) -> None:
    """Remark on a key that the runtime does not have, with the most similar known key."""
    details = {"key": path[-1], "suggestion": suggest(path[-1], known_keys)}
    remarks.append(Remark(Kind.UNKNOWN_KEY, file.where(*path), details))


def misplaced_keys(file: ConfigFile, home: KeyPath, keys: Collection[str], remarks: list[Remark]) -> None:
    """Remark on NRI's keys outside of NRI's table, where the runtime ignores them silently."""
    for path, _ in file.paths():
        if path[: len(home)] != home and path[-1] in keys:
            details = {"key": path[-1], "table": toml_table(home)}
            remarks.append(Remark(Kind.MISPLACED, file.where(*path), details))


def toml_table(path: KeyPath) -> str:
    """Write a table's header as in TOML, without the brackets."""
    return ".".join(part if re.fullmatch(r"[\w-]+", part) else f'"{part}"' for part in path)


def typed(file: ConfigFile, keys: KeyPath, kind: type, remarks: list[Remark]) -> Any:
    """Return the value at `keys`. Returns None if it does not exist, or with a remark if it has another type."""
    value = file.at(*keys)
    if value is None or type(value) is kind:
        return value
    remarks.append(Remark(Kind.WRONG_TYPE, file.where(*keys), {"type": kind, "value": value}))
    return None


def text(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> str | None:
    """Return the string at `keys`. Returns None if it is missing, empty (which means the default) or invalid."""
    return typed(file, keys, str, remarks) or None


def duration_remark(file: ConfigFile, keys: KeyPath, error: ValueError) -> Remark:
    """Make the remark on an invalid duration, from the error of `parse_duration`."""
    reason, _, suggestion = str(error).partition("; ")
    return Remark(Kind.NO_DURATION, file.where(*keys), {"reason": reason, "suggestion": suggestion})


def switch(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> bool | None:
    """Return the boolean at `keys`. Returns None if it is missing or invalid."""
    is_on: bool | None = typed(file, keys, bool, remarks)
    return is_on


def off_switch(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> bool | None:
    """Return the opposite of the boolean at `keys`, for keys that disable something.

    Returns None if it is missing or invalid.
    """
    is_set = switch(file, keys, remarks)
    return None if is_set is None else not is_set


def _walk(tree: Any, path: KeyPath) -> list[tuple[KeyPath, Any]]:
    entries: list[tuple[KeyPath, Any]] = []
    if isinstance(tree, dict):
        for key, value in tree.items():
            entries.append(((*path, key), value))
            entries += _walk(value, (*path, key))
    return entries
