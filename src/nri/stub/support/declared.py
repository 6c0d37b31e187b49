"""Hold a plugin to what its class says that it sets (`sets`): whoever predicts conflicts believes it.

One job: find what an answer touches and `sets` does not have. Where plugins are written (`nri.testing`, `nri try`,
`nri run --reload`) that is an error; on a node, where it would cost a container, a warning, once for each field. Loaded
only for a plugin that has `sets`. Next: `nri.api.fields`, which has the names.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.fields import EVICT, RESOURCES_TREE, TREE, Declared, touched
from nri.errors import NriError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["SetsCheck", "check_sets"]


def check_sets(cls: Any) -> None:
    """Raise TypeError or ValueError for an entry of `sets` that is no field, with the nearest one."""
    for entry in cls.sets or ():
        if not isinstance(entry, str):
            raise TypeError(f'{cls.__name__}.sets has {entry!r}: names of fields are expected, such as "env.*"')
        try:
            Declared(entry)
        except ValueError as error:
            raise ValueError(f"{cls.__name__}.sets: {error}") from None


class SetsCheck:
    """Looks at what one plugin answers and asks for.

    Args:
        plugin: has `sets`, and a log for warnings.
        strict: raise NriError instead of a warning.
    """

    def __init__(self, plugin: Any, *, strict: bool) -> None:
        self._plugin, self._strict = plugin, strict
        self._sets = [Declared(entry) for entry in plugin.sets]
        self._told: set[str] = set()

    def request(self, message: m.UpdateContainersRequest) -> None:
        """Look at what the plugin asks for by itself."""
        for part in (*message.update, *message.evict):
            self.part(part)

    def part(self, part: Any) -> None:
        """Look at an adjustment, an update or an eviction."""
        for label, path, key in _touched(part):
            if any(each.covers(path, key) for each in self._sets):
                continue
            name = type(self._plugin).__name__
            entry = f"{path}.{key}" if key else path
            text = f"{name} sets {label} {key}".rstrip() + f', which {name}.sets does not have: add "{entry}"'
            if self._strict:
                raise NriError(text)
            if label not in self._told:
                self._told.add(label)
                self._plugin.log.warning("%s", text)


def _touched(part: Any) -> Iterator[tuple[str, str, str]]:
    """What a part of an answer asks for: the field as conflicts name it, its path, and the key."""
    if isinstance(part, m.ContainerEviction):
        yield "an eviction", EVICT, ""
        return
    created = isinstance(part, m.ContainerAdjustment)
    message, tree = (part, TREE) if created else (part.linux.resources, RESOURCES_TREE)
    yield from ((row.label, row.path, key) for row, key in touched(message, tree))
