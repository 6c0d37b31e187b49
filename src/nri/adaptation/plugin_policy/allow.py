"""Least privilege: which events, namespaces and fields a plugin may touch, and what its answer says about that. Pure.

An answer that changes something outside of what the operator allowed is a breach: an ordinary error of that plugin,
which fails the request and leaves the plugin connected. Nothing of such an answer is applied. Fields go by the names
of the API's `Field` enum (``Env``, ``MemLimit``) or by dotted paths of the API (``linux.resources.memory`` with all
below it); what exists follows from the merge table, so a new field needs nothing here. ``evict`` stands for
evictions.

An event that is not allowed is not even sent: the adaptation cuts the plugin's subscription with `Allow.events_mask`.
Next: `nri.adaptation.dispatch.event` asks `breach` after every answer of a plugin that has an `Allow`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from nri.adaptation.merge.fields import FIELD_NAMES, RESOURCES_TREE, ROWS, TREE, Node, Row
from nri.api.events import ALL, BY_NUMBER, EventMask
from nri.api.messages import ContainerAdjustment, ContainerEviction, ContainerUpdate
from nri.api.selectors import Parsed, Pattern, matches
from nri.errors import PluginError
from nri.text import plain

__all__ = ["EVICT", "Allow", "AllowedField", "EventName", "breach"]

#: Events by the names that people use; a test holds the list to `nri.api.events`.
EventName = Literal[
    "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer",
    "PostStartContainer", "UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer",
    "UpdatePodSandbox", "PostUpdatePodSandbox", "ValidateContainerAdjustment",
]  # fmt: skip

#: The name by which evictions are allowed.
EVICT = "evict"


def _spellings() -> dict[str, frozenset[str]]:
    """Every name that `fields` may hold -> the paths that it covers."""
    names: dict[str, set[str]] = {EVICT: {EVICT}}
    for row in ROWS:
        parts = row.path.split(".")
        for end in range(1, len(parts) + 1):
            names.setdefault(".".join(parts[:end]), set()).add(row.path)
        if row.claim:
            names.setdefault(FIELD_NAMES[row.claim], set()).add(row.path)
    return {name: frozenset(paths) for name, paths in names.items()}


_SPELLINGS = _spellings()


class AllowedField(Parsed):
    """One entry of ``fields``, and the paths of the merge table that it covers."""

    __slots__ = ("paths",)

    def __init__(self, text: str, paths: frozenset[str]) -> None:
        super().__init__(text)
        self.paths: Final = paths

    @classmethod
    def parse(cls, text: str) -> AllowedField:
        """Look the name up; ValueError suggests the nearest one."""
        if text in _SPELLINGS:
            return cls(text, _SPELLINGS[text])
        lower = {name.lower(): name for name in _SPELLINGS}
        near = difflib.get_close_matches(text.lower(), lower, 1, 0.6)
        hint = f'did you mean "{lower[near[0]]}"?' if near else "write such as Env, MemLimit or linux.resources.cpu"
        raise ValueError(f'"{text}" is not a field that a plugin can change; {hint}')


@dataclass(frozen=True, slots=True)
class Allow:
    """What a plugin may touch. None means everything; an empty list means nothing."""

    events: tuple[EventName, ...] | None = None
    namespaces: tuple[Pattern, ...] | None = None
    fields: tuple[AllowedField, ...] | None = None

    @property
    def events_mask(self) -> EventMask:
        """The events that the plugin may be sent."""
        return ALL if self.events is None else EventMask.of(*self.events)

    @property
    def paths(self) -> frozenset[str] | None:
        """Paths of the merge table that it may set; None for all."""
        if self.fields is None:
            return None
        return frozenset[str]().union(*(field.paths for field in self.fields))

    def namespace(self, name: str) -> bool:
        """Whether it may change containers of this namespace."""
        return self.namespaces is None or (bool(self.namespaces) and matches(self.namespaces, name))


def breach(
    allow: Allow,
    plugin: str,
    namespace: str,
    event: int = 0,
    *,
    adjust: ContainerAdjustment | None = None,
    update: Iterable[ContainerUpdate] = (),
    evict: Iterable[ContainerEviction] = (),
    namespace_of: Callable[[str], str | None] = lambda _: None,
) -> PluginError | None:
    """What a plugin's answer touches without being allowed to, as the error to raise; None if all is well.

    Args:
        plugin: ``NN-name``.
        namespace: of the pod that the event is about.
        event: its number; 0 for what the plugin asked for without one (unsolicited, or in Synchronize).
        namespace_of: the namespace of a container by its id, None for a container that nobody knows.
    """
    cause = _breach(allow, namespace, event, adjust, update, evict, namespace_of)
    return None if cause is None else PluginError(plugin, f"its policy does not allow it to {cause}")


def _breach(
    allow: Allow,
    namespace: str,
    event: int,
    adjust: ContainerAdjustment | None,
    update: Iterable[ContainerUpdate],
    evict: Iterable[ContainerEviction],
    namespace_of: Callable[[str], str | None],
) -> str | None:
    paths = allow.paths
    for target, row in _touched(adjust, update, evict):
        what = f"set {row.label}" if row else EVICT
        if target is not None:
            what += f' of container "{plain(target, 256)}"'
        if event and not allow.events_mask & BY_NUMBER[event].bit:
            return f"{what} in {BY_NUMBER[event].rpc} (allow.events)"
        where = namespace if target is None else namespace_of(target)
        if where is None and allow.namespaces is not None:
            return f"{what}, which nobody knows (allow.namespaces)"
        if where is not None and not allow.namespace(where):
            return f'{what} in namespace "{where}" (allow.namespaces)'
        if paths is not None and (row.path if row else EVICT) not in paths:
            return f"{what} (allow.fields)"
    return None


def _touched(
    adjust: ContainerAdjustment | None, update: Iterable[ContainerUpdate], evict: Iterable[ContainerEviction]
) -> Iterator[tuple[str | None, Row | None]]:
    """All that an answer touches: (None, row) of the adjustment, (container, row) of an update, (container, None)."""
    if adjust is not None:
        for row in _rows(adjust, TREE):
            yield None, row
    for one in update:
        for row in _rows(one.linux.resources, RESOURCES_TREE):
            yield one.container_id, row
    for eviction in evict:
        yield eviction.container_id, None


def _rows(message: Any, tree: Node) -> Iterator[Row]:
    """The rows of the merge table that a message sets."""
    for field, value in message.ListFields():
        node = tree[field.number]
        if isinstance(node, Row):
            yield node
        else:
            yield from _rows(value, node)
