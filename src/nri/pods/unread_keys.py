"""Find the keys of a manifest that were not read, by mappings that record which keys were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from nri.config.key_path import Path, path_text


class KeyTracker(dict[Any, Any]):
    """A mapping that records which keys were read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[Any] = set()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return a value like `dict.get`, and record the key."""
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: Any) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys. A subclass that defines this is not copied by reading each key."""
        return super().__iter__()

    def items(self) -> Any:
        """Return all items, and record all keys."""
        self.asked.update(self)
        return super().items()


class Unread(NamedTuple):
    """A key that was not read.

    Attributes:
        table: the mapping that contains it.
        path: its path, such as `spec.volumes[0].medium`.
    """

    table: KeyTracker
    key: str
    path: str


def watch(root: Any) -> Any:
    """Copy a tree with mappings that record reads. A value that occurs twice, by YAML aliases, stays one object."""
    copies: dict[int, tuple[Any, Any]] = {}
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)) and id(value) not in copies:
            copies[id(value)] = value, KeyTracker() if isinstance(value, dict) else []
            waiting += value.values() if isinstance(value, dict) else value

    def copy(value: Any) -> Any:
        return copies[id(value)][1] if id(value) in copies else value

    for old, new in copies.values():
        if isinstance(old, dict):
            new.update({key: copy(value) for key, value in old.items()})
        else:
            new.extend(map(copy, old))
    return copy(root)


def unread(root: Any, ignored: frozenset[str]) -> Iterator[Unread]:
    """Yield the keys that were not read, except for paths in `ignored`, in the order of the file."""
    waiting: list[tuple[Any, Path]] = [(root, ())]
    visited: set[int] = set()
    while waiting:
        value, path = waiting.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, list):
            waiting += reversed([(one, (*path, place)) for place, one in enumerate(value)])
        if not isinstance(value, KeyTracker):
            continue
        for key in value:
            key_path = (*path, str(key))
            if key not in value.asked and path_text(key_path) not in ignored:
                yield Unread(value, str(key), path_text(key_path))
        waiting += reversed([(dict.get(value, key), (*path, str(key))) for key in value if key in value.asked])
