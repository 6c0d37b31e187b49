"""Find the fields that a conversion could not carry over, by comparison with the list of carried fields.

Unlisted fields are reported, so that a new field of the CRI is never lost silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from nri.text import plain

T = TypeVar("T")
_MAX_VALUE_LENGTH = 120


class DroppedField(NamedTuple):
    """A set field that is not in the result of a conversion. `str` is a line for users.

    Attributes:
        field: its path in the converted message, for example ``linux.security_context.no_new_privs``.
        value: its value, shortened.
        reason: why it is not carried over.
    """

    field: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field} ({self.value}): {self.reason}"

    def below(self, path: str) -> DroppedField:
        """The same field with its path in an outer message, which contains the converted message at `path`."""
        return self._replace(field=f"{path}.{self.field}")


class Conversion(Generic[T]):
    """The result of a conversion, with the dropped fields.

    Args:
        value: the resulting message.
        find: finds the dropped fields. It is called on first use, because it takes as long as the conversion, and most
            events never need it.

    Attributes:
        value: the resulting message.
    """

    __slots__ = ("_dropped", "_find", "value")

    def __init__(self, value: T, find: Callable[[], Iterable[DroppedField]]) -> None:
        self.value = value
        self._find = find
        self._dropped: tuple[DroppedField, ...] | None = None

    @property
    def dropped(self) -> tuple[DroppedField, ...]:
        """The set fields that the result does not have, found in the original message at the first call."""
        if self._dropped is None:
            self._dropped = tuple(self._find())
        return self._dropped


def left_over(message: Message, carried: Collection[str], reason: str) -> list[DroppedField]:
    """The set fields of `message` that are neither in `carried` nor below a field of it.

    An index is written ``[]`` in `carried`: ``mounts[].host_path``.
    """
    return [
        DroppedField(path, shown(value), reason)
        for path, value in _set_fields(message, "")
        if not _is_carried(re.sub(r"\[\d+\]", "[]", path), carried)
    ]


def shown(value: object) -> str:
    """A value as a short line."""
    return plain(str(value), _MAX_VALUE_LENGTH) or "set, but empty"


def _is_carried(path: str, carried: Collection[str]) -> bool:
    """Whether a path, or a parent of it, is in `carried`."""
    parts = path.split(".")
    return any(".".join(parts[:count]) in carried for count in range(1, len(parts) + 1))


def _set_fields(message: Message, above: str) -> Iterator[tuple[str, Any]]:
    """Yield all set fields with their paths. An empty message counts as a field."""
    for field, value in message.ListFields():
        path = above + field.name
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is None or is_map:
            yield path, dict(value) if is_map else list(value) if field.is_repeated else value
        elif field.is_repeated:
            for index, message_ in enumerate(value):
                yield from _fields_inside(message_, f"{path}[{index}]")
        else:
            yield from _fields_inside(value, path)


def _fields_inside(message: Message, path: str) -> Iterator[tuple[str, Any]]:
    if not message.ListFields():
        yield path, ""
    yield from _set_fields(message, f"{path}.")
