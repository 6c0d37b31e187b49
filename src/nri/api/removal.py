"""Removal marks: in an adjustment, a key with a leading `-` requests the removal of the key.

Annotation keys, names of variables, destinations of mounts, paths of devices, types of namespaces, names of sysctls and
host names of network devices can be removed; rlimits, CDI devices and cgroup v2 keys cannot, and their keys are
literal. A removal drops the value that the same adjustment has set before. If the adjustment sets the key after the
removal, the value replaces the value of an earlier plugin.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The first character of a key that requests a removal.
MARK = "-"


def mark(key: str) -> str:
    """The marked form of `key`, which requests its removal: `-key`."""
    return MARK + key


def is_marked(key: str) -> bool:
    """Whether the key requests a removal. The empty key does not."""
    return key.startswith(MARK)


def split(key: str) -> tuple[str, bool]:
    """The key without its mark, and whether it had a mark. Only one mark is stripped."""
    return (key[1:], True) if key.startswith(MARK) else (key, False)


def mark_in_list(entries: Any, key_field: str, key: str) -> None:
    """Add an entry that requests the removal of a key, to a repeated field of an adjustment.

    Earlier entries for the key are dropped. `key_field` names the entries' field that has the key.
    """
    marked = mark(key)
    for position in range(len(entries) - 1, -1, -1):
        if getattr(entries[position], key_field) in (key, marked):
            del entries[position]
    entries.add(**{key_field: marked})


def mark_in_map(entries: Any, key: str) -> None:
    """Add an entry that requests the removal of a key, to a map of an adjustment. An earlier entry is dropped."""
    if key in entries:
        del entries[key]
    if hasattr(entries, "get_or_create"):
        entries.get_or_create(mark(key))
    else:
        entries[mark(key)] = ""
