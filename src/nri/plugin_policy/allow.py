"""Least privilege: which events, namespaces and fields a plugin may change, and the check of its answers.

An answer with another change is a breach: an ordinary error of that plugin, which fails the request and leaves the
plugin connected. Nothing of such an answer is applied. Fields are named as in the API's `Field` enum (``Env``,
``MemLimit``) or by dotted paths of the API (``linux.resources.memory`` with all fields below it), as in the merge
table. ``evict`` means evictions. An event that is not allowed is not sent (`Allow.events_mask`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet

from nri.api.events import ALL, BY_NUMBER, EventMask
from nri.api.fields import EVICT, NAMES, RESOURCES_TREE, TREE, Node, Row, named
from nri.api.messages import ContainerAdjustment, ContainerEviction, ContainerUpdate
from nri.api.selectors import ParsedSelectors, Pattern, matches
from nri.errors import PluginError
from nri.text import plain

#: Names of events; a test compares the list with `nri.api.events`.
EventName = Literal[
    "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer",
    "PostStartContainer", "UpdateContainer", "PostUpdateContainer", "StopContainer", "RemoveContainer",
    "UpdatePodSandbox", "PostUpdatePodSandbox", "ValidateContainerAdjustment",
]  # fmt: skip


class AllowedField(ParsedSelectors):
    """An entry of ``fields``, and the paths of the merge table that it covers."""

    __slots__ = ("paths",)

    def __init__(self, text: str, paths: frozenset[str]) -> None:
        super().__init__(text)
        self.paths: Final = paths

    @classmethod
    def parse(cls, text: str) -> AllowedField:
        """Look up a name. Raises ValueError with the most similar name if it is unknown."""
        return cls(text, named(text))


@dataclass(frozen=True, slots=True)
class Allow:
    """What a plugin may change. None allows everything; an empty list allows nothing."""

    events: tuple[EventName, ...] | None = None
    namespaces: tuple[Pattern, ...] | None = None
    fields: tuple[AllowedField, ...] | None = None

    @property
    def events_mask(self) -> EventMask:
        """The events that the plugin may get."""
        return ALL if self.events is None else EventMask.of(*self.events)

    @property
    def paths(self) -> frozenset[str] | None:
        """The paths of the merge table that the plugin may set; None if it may set all."""
        if self.fields is None:
            return None
        return frozenset[str]().union(*(field.paths for field in self.fields))

    def namespace(self, name: str) -> bool:
        """Whether the plugin may change containers of this namespace."""
        return self.namespaces is None or (bool(self.namespaces) and matches(self.namespaces, name))


def breach(  # noqa: PLR0913 - the parts of an answer, by name
    allow: Allow,
    plugin: str,
    namespace: str,
    event: int = 0,
    *,
    reply: Any = None,
    adjust: ContainerAdjustment | None = None,
    update: Iterable[ContainerUpdate] = (),
    evict: Iterable[ContainerEviction] = (),
    namespace_of: Callable[[str], str | None] = lambda _: None,
) -> PluginError | None:
    """The error to raise if a plugin's answer changes something that is not allowed, else None.

    Args:
        plugin: ``NN-name``.
        namespace: the namespace of the event's pod.
        event: the event's number; 0 for UpdateContainers and Synchronize.
        reply: the whole answer, which may have fields in addition to the following three.
        namespace_of: returns the namespace of a container by its id, or None if the container is unknown.
    """
    cause = violation(allow, namespace, event, _changes(reply, adjust, update, evict), namespace_of)
    return None if cause is None else PluginError(plugin, f"its policy does not allow it to {cause}")


class Change(NamedTuple):
    """A change in an answer.

    Attributes:
        target: the container, None for the container of the event.
        what: a description of the change.
        paths: at least one of these paths has to be allowed.
    """

    target: str | None
    what: str
    paths: frozenset[str]


def violation(
    allow: Allow,
    namespace: str,
    event: int,
    changes: Iterable[Change],
    namespace_of: Callable[[str], str | None] = lambda _: None,
) -> str | None:
    """The first change that is not allowed, with the key that forbids it. Returns None if all are allowed.

    The arguments are as for `breach`.
    """
    paths = allow.paths
    if event and not allow.events_mask & BY_NUMBER[event].bit:
        outside = f" in {BY_NUMBER[event].rpc} (allow.events)"
    else:
        outside = ""
    for target, what, needed in changes:
        if target is not None:
            what += f' of container "{plain(target, 256)}"'  # noqa: PLW2901 - the description with the container
        if outside:
            return what + outside
        where = namespace if target is None else namespace_of(target)
        if where is None and allow.namespaces is not None:
            return f"{what}, whose namespace is unknown (allow.namespaces)"
        if where is not None and not allow.namespace(where):
            return f'{what} in namespace "{where}" (allow.namespaces)'
        if paths is not None and paths.isdisjoint(needed):
            return f"{what} (allow.fields)"
    return None


_UNKNOWN: frozenset[str] = frozenset()
_RESOURCES = "linux.resources"


def _changes(
    reply: Any,
    adjust: ContainerAdjustment | None,
    update: Iterable[ContainerUpdate],
    evict: Iterable[ContainerEviction],
) -> Iterator[Change]:
    """Yield all changes of an answer.

    An update without resources also counts as a change, because the runtime gets it.
    """
    if reply is not None:
        for number in _unknown(reply):
            yield Change(None, f"set the unknown field {number} of the answer", _UNKNOWN)
    if adjust is not None:
        for what, paths in _fields(adjust, TREE, ""):
            yield Change(None, what, paths)
    for entry in update:
        target = entry.container_id
        is_empty = True
        for what, paths in _update_fields(entry):
            is_empty = False
            yield Change(target, what, paths)
        if is_empty:
            yield Change(target, "make an update without resources", NAMES[_RESOURCES])
    for eviction in evict:
        yield Change(eviction.container_id, EVICT, NAMES[EVICT])


def _update_fields(update: ContainerUpdate) -> Iterator[tuple[str, frozenset[str]]]:
    for message in (update, update.linux):
        for number in _unknown(message):
            yield f"set the unknown field {number} of an update", _UNKNOWN
    yield from _fields(update.linux.resources, RESOURCES_TREE, _RESOURCES)


def _fields(message: Any, tree: Node, path: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the fields that a message sets, each with paths of the merge table. One of the paths must be allowed.

    An empty object counts as a change, because its presence can have a meaning (``linux.rdt``). A field that this
    version does not know counts as well, because the runtime may know it; no name allows such a field.
    """
    for number in _unknown(message):
        yield f"set the unknown field {number} of {path or 'the adjustment'}", _UNKNOWN
    for field, value in message.ListFields():
        node = tree[field.number]
        below = f"{path}.{field.name}" if path else field.name
        if isinstance(node, Row):
            yield f"set {node.label}", NAMES[node.path]
            for number in _unknown_below(field, value):
                yield f"set the unknown field {number} of {below}", _UNKNOWN
        elif value.ByteSize():
            yield from _fields(value, node, below)
        else:
            yield f"set an empty {below}", NAMES[below]


def _unknown_below(field: Any, value: Any) -> Iterator[int]:
    """Yield the numbers of unknown fields in a field's value and in all messages below it."""
    stack = [(field, value)]
    while stack:
        field, value = stack.pop()
        kind = field.message_type
        if kind is None:
            continue
        if kind.GetOptions().map_entry:
            field = kind.fields_by_name["value"]
            stack += [(field, inner) for inner in value.values()] if field.message_type is not None else []
            continue
        for message in (value,) if hasattr(value, "ListFields") else value:
            yield from _unknown(message)
            stack += [(below, inner) for below, inner in message.ListFields() if below.message_type is not None]


def _unknown(message: Any) -> list[int]:
    """The numbers of a message's unknown fields, without the unknown fields of inner messages."""
    fields = UnknownFieldSet(message)
    return [fields[place].field_number for place in range(len(fields))]
