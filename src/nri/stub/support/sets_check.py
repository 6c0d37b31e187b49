"""Check that a plugin sets only the fields that its class declares (`sets`), because `nri predict` relies on it.

Other fields are an error in development (`nri.testing`, `nri try`, `nri run --reload`). On a node, where an error would
prevent a container, they are a warning, once per field.
"""

from __future__ import annotations

from nri.api import messages as m
from nri.api.fields import EVICT, RESOURCES_TREE, TREE, DeclaredField, touched
from nri.errors import NriError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def check_sets(cls: Any) -> None:
    """Raise TypeError or ValueError for an entry of `sets` that is not a field, with a similar field."""
    for entry in cls.sets or ():
        if not isinstance(entry, str):
            raise TypeError(f'{cls.__name__}.sets has {entry!r}: names of fields are expected, for example "env.*"')
        try:
            DeclaredField(entry)
        except ValueError as error:
            raise ValueError(f"{cls.__name__}.sets: {error}") from None


class SetsCheck:
    """The check of a plugin's answers and requests.

    Args:
        plugin: has `sets`, and a log for warnings.
        strict: raise NriError instead of logging a warning.
    """

    def __init__(self, plugin: Any, *, strict: bool) -> None:
        self._plugin, self._strict = plugin, strict
        self._sets = [DeclaredField(entry) for entry in plugin.sets]
        self._reported: set[str] = set()

    def check_request(self, message: m.UpdateContainersRequest) -> None:
        """Check a request of the plugin for updates and evictions."""
        for part in (*message.update, *message.evict):
            self.check_part(part)

    def check_part(self, part: Any) -> None:
        """Check an adjustment, an update or an eviction."""
        for label, path, key in _set_fields(part):
            if any(field.covers(path, key) for field in self._sets):
                continue
            name = type(self._plugin).__name__
            entry = f"{path}.{key}" if key else path
            text = f"{name} sets {label} {key}".rstrip() + f', which is not declared in {name}.sets: add "{entry}"'
            if self._strict:
                raise NriError(text)
            if label not in self._reported:
                self._reported.add(label)
                self._plugin.log.warning("%s", text)


def _set_fields(part: Any) -> Iterator[tuple[str, str, str]]:
    """The fields that an answer or request sets: the label used in conflicts, the path, and the key."""
    if isinstance(part, m.ContainerEviction):
        yield "an eviction", EVICT, ""
        return
    created = isinstance(part, m.ContainerAdjustment)
    message, tree = (part, TREE) if created else (part.linux.resources, RESOURCES_TREE)
    yield from ((row.label, row.path, key) for row, key in touched(message, tree))
