"""Compare two messages field by field, or line by line of their YAML.

Entries of lists are matched by key, not by position: a variable by its name, a mount by its destination. So the
replacement of a mount is one update.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.plugins.dump import yaml_lines
from nri.text import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: The field that identifies an entry, by the name of the list.
_KEY_FIELDS = {
    "mounts": "destination",
    "devices": "path",
    "rlimits": "type",
    "namespaces": "type",
    "CDI_devices": "name",
}
#: Show this many lines of YAML around a difference.
_CONTEXT_LINES = 3


class Difference(NamedTuple):
    """A difference: its kind (create, update or delete), the field's path, and both values. A missing value is None."""

    kind: str
    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        # A key may contain a line end, for example in the path of a mount, which would start a new line of the log.
        return f"{self.kind}: {escape(self.path)}: From: {_one_line(self.before)} -> To: {_one_line(self.after)}"


def differences(before: Any, after: Any, path: str = "") -> Iterator[Difference]:
    """The differences between two trees of `nri.plugins.dump.tree_of`, in the order of their paths."""
    if before == after:
        return
    present = before or after
    if isinstance(present, list):
        name = path.rpartition(".")[2]
        before, after, pattern = _table(name, before or []), _table(name, after or []), "{}[{}]"
    elif isinstance(present, dict) and present and not (path.endswith("]") and None in (before, after)):
        before, after, pattern = before or {}, after or {}, "{}.{}" if path else "{}{}"
    else:  # a scalar, an empty message, or the whole entry of a list
        kind = "create" if before is None else "delete" if after is None else "update"
        yield Difference(kind, path, before, after)
        return
    for key in sorted({*before, *after}):
        yield from differences(before.get(key), after.get(key), pattern.format(path, key))


def _table(name: str, items: list[Any]) -> dict[str, Any]:
    """The entries of a list by their key. Entries without a key are listed by position, or by their text."""
    table: dict[str, Any] = {}
    for position, item in enumerate(items):
        if isinstance(item, dict):
            key = str(item.get(_KEY_FIELDS.get(name, ""), position))
        else:
            key = str(item).partition("=")[0] if name == "env" else str(item)
        table[f"{key}, {position}" if key in table else key] = item
    return table


def _one_line(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{escape(key)}: {_one_line(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_one_line, value)) + "]"
    return "<nil>" if value is None else yaml_lines(value)[0]


def yaml_differences(before: Any, after: Any) -> list[str]:
    """The lines of YAML that differ, with context: `+` for added lines, `-` for removed lines."""
    import difflib

    lines = difflib.unified_diff(yaml_lines(before), yaml_lines(after), lineterm="", n=_CONTEXT_LINES)
    return [line for line in lines if not line.startswith(("+++", "---"))]
