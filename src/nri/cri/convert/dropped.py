"""The list of what a conversion could not carry over: the fields that were set, their values, and why.

One job: compare what a message holds with the list of fields that a conversion carries. A field that is not listed is
reported, so one that the CRI gains is never lost in silence. Next: `nri.cri.convert.resources`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import Message

from nri.text import plain

__all__ = ["Converted", "Dropped", "left_over"]

T = TypeVar("T")
_SHOWN = 120  # characters of a value


class Dropped(NamedTuple):
    """A field that was set and is not in the result. Its text is one line for people.

    Attributes:
        field: its path in the message that was converted, as ``linux.security_context.no_new_privs``.
        value: what it held, shortened.
        reason: why it is not carried over.
    """

    field: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field} ({self.value}): {self.reason}"

    def below(self, path: str) -> Dropped:
        """The same, of a message at `path` of a bigger one."""
        return self._replace(field=f"{path}.{self.field}")


class Converted(Generic[T]):
    """The result of a conversion, and what is not in it.

    Args:
        value: the message that was made.
        find: finds what is not in it. Called when it is asked for: it costs as much as the conversion itself, and
            most events of plugins are made without a look at it.

    Attributes:
        value: the message that was made.
    """

    __slots__ = ("_dropped", "_find", "value")

    def __init__(self, value: T, find: Callable[[], Iterable[Dropped]]) -> None:
        self.value = value
        self._find = find
        self._dropped: tuple[Dropped, ...] | None = None

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """The fields that were set in what was converted, as it is now, and are not in the value."""
        if self._dropped is None:
            self._dropped = tuple(self._find())
        return self._dropped


def left_over(message: Message, carried: Collection[str], reason: str) -> list[Dropped]:
    """The fields that are set in `message` and are neither in `carried` nor below a field of it.

    An index is written ``[]`` in `carried`: ``mounts[].host_path``.
    """
    return [
        Dropped(path, shown(value), reason)
        for path, value in _leaves(message, "")
        if not _is_carried(re.sub(r"\[\d+\]", "[]", path), carried)
    ]


def shown(value: object) -> str:
    """A value as a short text on one line."""
    return plain(str(value), _SHOWN) or "set, and empty"


def _is_carried(path: str, carried: Collection[str]) -> bool:
    """Whether a path, or one above it, is in the list."""
    parts = path.split(".")
    return any(".".join(parts[:count]) in carried for count in range(1, len(parts) + 1))


def _leaves(message: Message, above: str) -> Iterator[tuple[str, Any]]:
    """Each field that is set, with its path; a message that is there and empty counts as one."""
    for field, value in message.ListFields():
        path = above + field.name
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if field.message_type is None or is_map:
            yield path, dict(value) if is_map else list(value) if field.is_repeated else value
        elif field.is_repeated:
            for index, each in enumerate(value):
                yield from _inside(each, f"{path}[{index}]")
        else:
            yield from _inside(value, path)


def _inside(message: Message, path: str) -> Iterator[tuple[str, Any]]:
    if not message.ListFields():
        yield path, ""
    yield from _leaves(message, f"{path}.")
