"""A runtime's configuration file as a tree whose keys know their file and line, and its keys read one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.config.complaint import suggest
from nri.config.place import show
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
    """A configuration file as it was read.

    Attributes:
        path: as seen inside the root, for people.
        source: the text.
        tree: its keys and values.
        spelt: how the file spells those keys that the tree has in another form.
    """

    path: str
    source: Source
    tree: dict[str, Any]
    spelt: Mapping[KeyPath, KeyPath] = field(default_factory=dict)
    _lines: list[Lines] = field(default_factory=list, init=False, repr=False, compare=False)

    def where(self, *keys: str) -> str:
        """Return the place of a key: ``/etc/x.toml:12: a.b``."""
        keys = self.spelt.get(keys, keys)
        if not self._lines:
            self._lines.append(Lines(self.source))
        line = self._lines[0].find(keys) if keys else None
        return f"{self.path}{f':{line}' if line else ''}" + (f": {show(keys)}" if keys else "")

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
    """One key of a runtime: the field of `RuntimeNri` that it sets, and the function that reads it."""

    field: str
    key: str
    read: Callable[[ConfigFile, KeyPath, list[Remark]], Any]


def read_source(tree: FileTree, path: str, remarks: list[Remark], format: Any = "toml") -> Source | None:  # noqa: A002
    """Read a file's text; None without a file, and with a remark if it cannot be read."""
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
    """Read one TOML file; None, with a remark if it exists, when it cannot be used."""
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


def in_lower_case(file: ConfigFile) -> ConfigFile:
    """The file with all keys in lower case, for runtimes to which case does not matter."""
    spelt: dict[KeyPath, KeyPath] = {}
    tree: dict[str, Any] = {}
    _fold(file.tree, (), (), tree, spelt)
    return ConfigFile(file.path, file.source, tree, spelt)


def _fold(
    tree: dict[str, Any], path: KeyPath, spelling: KeyPath, folded: dict[str, Any], spelt: dict[KeyPath, KeyPath]
) -> None:
    for key in sorted(tree, key=str.islower):  # the right spelling comes last, so it wins over others of the same key
        name, value = key.lower(), tree[key]
        spelt[*path, name] = (*spelling, key)
        if not isinstance(value, dict):
            folded[name] = value
            continue
        if not isinstance(folded.get(name), dict):
            folded[name] = {}
        _fold(value, (*path, name), (*spelling, key), folded[name], spelt)


def take(draft: Draft, file: ConfigFile, table: KeyPath, settings: Sequence[Setting], remarks: list[Remark]) -> None:
    """Let the settings that a table makes take effect."""
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
    """Remark on a key that the runtime does not have, with the nearest that it has."""
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
    """Return the value at `keys` if it has the type; None if it is not there, and with a remark if it has another."""
    value = file.at(*keys)
    if value is None or type(value) is kind:
        return value
    remarks.append(Remark(Kind.WRONG_TYPE, file.where(*keys), {"type": kind, "value": value}))
    return None


def text(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> str | None:
    """Return the text at `keys`; None when absent, empty (which means the default) or wrong."""
    return typed(file, keys, str, remarks) or None


def no_duration(file: ConfigFile, keys: KeyPath, error: ValueError) -> Remark:
    """Make the remark on a text that is not a duration, from the error of `parse_duration`."""
    reason, _, suggestion = str(error).partition("; ")
    return Remark(Kind.NO_DURATION, file.where(*keys), {"reason": reason, "suggestion": suggestion})


def switch(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> bool | None:
    """Return true or false as it is at `keys`; None when absent or wrong."""
    is_on: bool | None = typed(file, keys, bool, remarks)
    return is_on


def off_switch(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> bool | None:
    """Return the opposite of what is at `keys`, for keys that switch something off; None when absent or wrong."""
    is_set = switch(file, keys, remarks)
    return None if is_set is None else not is_set


def texts(file: ConfigFile, keys: KeyPath, remarks: list[Remark]) -> tuple[str, ...]:
    """Return the list at `keys` as texts; empty when absent or wrong."""
    return tuple(map(str, typed(file, keys, list, remarks) or ()))


def _walk(tree: Any, path: KeyPath) -> list[tuple[KeyPath, Any]]:
    entries: list[tuple[KeyPath, Any]] = []
    if isinstance(tree, dict):
        for key, value in tree.items():
            entries.append(((*path, key), value))
            entries += _walk(value, (*path, key))
    return entries
