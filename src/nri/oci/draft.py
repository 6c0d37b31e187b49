"""A copy-on-write view of an OCI spec.

Objects and lists are accessed by their path, for reading or for changes. Only changed objects are copied, each once, so
that a long seccomp profile costs nothing. Unknown fields survive. A value of the wrong type on the path causes a
SpecError that names the path.
"""

from __future__ import annotations

from nri.config.complaint import shorten
from nri.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: An OCI runtime spec, or an object in it: JSON as plain dicts, lists and scalars, including unknown fields.
Spec = dict[str, "Any"]


class Draft:
    """A changeable view of a spec. `spec` is the result, complete at any time; the original spec never changes.

    null counts as absent, as it does for OCI runtimes.
    """

    __slots__ = ("_copies", "spec")

    def __init__(self, spec: Spec) -> None:
        if not isinstance(spec, dict):
            raise _kind_error("", "an object", spec)
        self.spec: Spec = dict(spec)
        # By identity. The objects are kept alive, so that no other object can get the same identity.
        self._copies: dict[int, object] = {id(self.spec): self.spec}

    def table(self, *path: str) -> dict[str, Any]:
        """A copy of the object at a path, for changes. A missing object is created, with its parents."""
        node = self.spec
        for depth, key in enumerate(path, 1):
            value = node.get(key)
            if value is None:
                value = {}
            elif not isinstance(value, dict):
                raise _kind_error(".".join(path[:depth]), "an object", value)
            if id(value) not in self._copies:
                value = dict(value)
                self._copies[id(value)] = value
                node[key] = value
            node = value
        return node

    def rows(self, *path: str) -> list[Any]:
        """A copy of the list at a path, for changes. A missing list is created. The elements are not copied."""
        parent, key = self.table(*path[:-1]), path[-1]
        value = parent.get(key)
        if value is None:
            value = []
        elif not isinstance(value, list):
            raise _kind_error(".".join(path), "a list", value)
        if id(value) not in self._copies:
            value = list(value)
            self._copies[id(value)] = value
            parent[key] = value
        return value

    def find(self, *path: str) -> Any:
        """The value at a path for reading, or None if it or a parent is absent."""
        node: Any = self.spec
        for depth, key in enumerate(path, 1):
            if not isinstance(node, dict):
                raise _kind_error(".".join(path[: depth - 1]), "an object", node)
            node = node.get(key)
            if node is None:
                return None
        return node

    def objects(self, *path: str) -> list[dict[str, Any]]:
        """The objects of the list at a path, for reading. Returns an empty list if it is absent."""
        rows = self.find(*path)
        if rows is None:
            return []
        if not isinstance(rows, list):
            raise _kind_error(".".join(path), "a list", rows)
        for place, row in enumerate(rows):
            if not isinstance(row, dict):
                raise _kind_error(f"{'.'.join(path)}[{place}]", "an object", row)
        return rows

    def texts(self, *path: str) -> list[str]:
        """The strings of the list at a path, for reading. Returns an empty list if it is absent."""
        texts = self.find(*path)
        if texts is None:
            return []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _kind_error(".".join(path), "a list of strings", texts)
        return texts

    def drop(self, *path: str) -> None:
        """Remove the value at a path. No effect if it is absent."""
        parent = self.find(*path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            del self.table(*path[:-1])[path[-1]]


def _kind_error(path: str, expected: str, value: Any) -> SpecError:
    """The error for a value of the wrong type."""
    return SpecError(path, f"is not {expected}: {shorten(value)}")
