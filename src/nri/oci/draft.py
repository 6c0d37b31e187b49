"""A spec in the making: what is touched is copied first, so the spec that came in stays as it was.

One job: reach tables and lists of a spec by their path, for reading or for change. Only what is changed is copied, and
once: a spec with a long seccomp profile costs no more than a short one. A field that is not known here survives,
because no field is ever taken apart without need. A value of the wrong kind on the way is a SpecError that names its
path. Next: `nri.oci.process`, the first of the steps.
"""

from __future__ import annotations

from nri.config.complaint import shorten
from nri.errors import SpecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Draft", "Spec"]

#: An OCI runtime spec, or a part of one: JSON as plain dicts, lists and scalars, unknown fields included.
Spec = dict[str, "Any"]


class Draft:
    """A changing view of one spec. `spec` is the result, whole at any time; the spec given is never changed.

    null counts as absent, as it does for OCI runtimes.
    """

    __slots__ = ("_mine", "spec")

    def __init__(self, spec: Spec) -> None:
        if not isinstance(spec, dict):
            raise _wrong("", "an object", spec)
        self.spec: Spec = dict(spec)
        # Objects are kept by their identity, and alive, so that no other object can ever have it.
        self._mine: dict[int, object] = {id(self.spec): self.spec}

    def table(self, *path: str) -> dict[str, Any]:
        """The object at a path, ours to change; it and those above it are made where they are absent."""
        here = self.spec
        for depth, key in enumerate(path, 1):
            value = here.get(key)
            if value is None:
                value = {}
            elif not isinstance(value, dict):
                raise _wrong(".".join(path[:depth]), "an object", value)
            if id(value) not in self._mine:
                value = dict(value)
                self._mine[id(value)] = value
                here[key] = value
            here = value
        return here

    def rows(self, *path: str) -> list[Any]:
        """The list at a path, ours to change; made where it is absent. Its elements are not ours: replace them."""
        here, key = self.table(*path[:-1]), path[-1]
        value = here.get(key)
        if value is None:
            value = []
        elif not isinstance(value, list):
            raise _wrong(".".join(path), "a list", value)
        if id(value) not in self._mine:
            value = list(value)
            self._mine[id(value)] = value
            here[key] = value
        return value

    def find(self, *path: str) -> Any:
        """The value at a path for reading, or None where it, or something above it, is absent."""
        here: Any = self.spec
        for depth, key in enumerate(path, 1):
            if not isinstance(here, dict):
                raise _wrong(".".join(path[: depth - 1]), "an object", here)
            here = here.get(key)
            if here is None:
                return None
        return here

    def objects(self, *path: str) -> list[dict[str, Any]]:
        """The objects of the list at a path, for reading; an empty list where it is absent."""
        found = self.find(*path)
        if found is None:
            return []
        if not isinstance(found, list):
            raise _wrong(".".join(path), "a list", found)
        for place, each in enumerate(found):
            if not isinstance(each, dict):
                raise _wrong(f"{'.'.join(path)}[{place}]", "an object", each)
        return found

    def texts(self, *path: str) -> list[str]:
        """The texts of the list at a path, for reading; an empty list where it is absent."""
        found = self.find(*path)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise _wrong(".".join(path), "a list of texts", found)
        return found

    def drop(self, *path: str) -> None:
        """Take out the value at a path; nothing where it is absent."""
        above = self.find(*path[:-1])
        if isinstance(above, dict) and path[-1] in above:
            del self.table(*path[:-1])[path[-1]]


def _wrong(path: str, wanted: str, value: Any) -> SpecError:
    """The error of a value of the wrong kind, which is shown."""
    return SpecError(path, f"is not {wanted}: {shorten(value)}")
