"""The container as later plugins see it, with the adjustments of earlier plugins.

The container is computed on demand. Most adjustments only add values, and bytes may be appended to an encoded protobuf
message: such a step is stored as the bytes to append, and the container is neither copied nor encoded again
(`nri.adaptation.peers.event_request` joins the bytes). Any other adjustment changes a copy. The runtime's own message
is never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nri.adaptation.merge.effects import drop, put_map, put_simple
from nri.adaptation.merge.entries import Entry
from nri.adaptation.merge.fast_path import Fields, split
from nri.adaptation.merge.fast_path import entries as all_entries
from nri.api import messages as m
from nri.api.fields import Kind, Row, Visibility
from nri.rules import Rules
from nri.wire import bytes_field, sole_field

_SIMPLE, _MAP, _KEYED, _ARGS, _RESET = Kind.SIMPLE, Kind.MAP, Kind.KEYED, Kind.ARGS, Kind.RESET


#: At most this many keys are searched in a message's bytes; for more, the keys are read.
_MAX_KEYS_SEARCHED: Final = 64
#: At most this many additions are searched one by one.
_MAX_ADDITIONS_SEARCHED: Final = 8

_LINUX = m.Container.DESCRIPTOR.fields_by_name["linux"].number
_RESOURCES = m.LinuxContainer.DESCRIPTOR.fields_by_name["resources"].number
_ADJUST_LINUX = m.ContainerAdjustment.DESCRIPTOR.fields_by_name["linux"].number
_ADJUST_RESOURCES = m.LinuxContainerAdjustment.DESCRIPTOR.fields_by_name["resources"].number


class AcceptedAdjustment:
    """An adjustment of a plugin that was accepted.

    Attributes:
        entries: the fields with their rows; None for a fresh reply, whose fields no earlier plugin has set: it can only
            replace values of the original container.
        fresh: the fields of a fresh reply.
        adjust: the adjustment as a message.
        encoded: the adjustment's bytes as received; None if they are not available.
    """

    __slots__ = ("adjust", "encoded", "entries", "fresh")

    def __init__(
        self, entries: list[Entry] | None, fresh: Fields, adjust: m.ContainerAdjustment, encoded: bytes | None = None
    ) -> None:
        self.entries, self.fresh, self.adjust, self.encoded = entries, fresh, adjust, encoded

    def resources(self) -> bytes:
        """The encoded resources, cut out of the received bytes if the adjustment has no other fields."""
        if self.encoded is not None:
            linux = sole_field(self.encoded, _ADJUST_LINUX)
            resources = None if linux is None else sole_field(linux, _ADJUST_RESOURCES)
            if resources is not None:
                return resources
        encoded: bytes = self.adjust.linux.resources.SerializeToString()
        return encoded


def normalise(container: m.Container) -> None:
    """Create the messages that plugins rely on: hooks, linux, resources, memory and cpu."""
    container.hooks.SetInParent()
    container.linux.resources.memory.SetInParent()
    container.linux.resources.cpu.SetInParent()


class ContainerView:
    """A container as the next plugin sees it: a base, and the bytes that were appended to it."""

    __slots__ = (
        "_added",
        "_base",
        "_bytes",
        "_current",
        "_has_odd_env",
        "_origin",
        "_parsed",
        "_pending",
        "_rules",
        "_steps",
    )

    def __init__(self, origin: m.Container, rules: Rules, encoded: bytes | None = None) -> None:
        """Begin with `origin`. `encoded` are its bytes, if they are available."""
        self._origin = origin
        self._base = origin
        self._added: list[bytes] = []
        self._parsed: list[m.Container] = []  # decoded messages of the first elements of `_added`
        self._current: m.Container | None = None
        self._pending: list[AcceptedAdjustment] = []
        self._bytes = encoded
        self._rules = rules
        self._has_odd_env = False  # a variable's name with "=" was appended
        self._steps: list[bytes | None] = []

    def add(self, adjustment: AcceptedAdjustment) -> None:
        """Add a plugin's adjustment, which is applied on demand."""
        self._pending.append(adjustment)

    def steps(self) -> list[bytes | None]:
        """The container's changes so far: for each change the bytes to append, or None if it must be encoded again."""
        if self._pending:
            pending, self._pending = self._pending, []
            for adjustment in pending:
                if adjustment.entries is None:
                    self._fresh_step(adjustment)
                else:
                    self._step(self._shown_entries(adjustment.entries), adjustment)
        return self._steps

    def container(self) -> m.Container:
        """The container at present. It belongs to this object: do not change it."""
        self.steps()
        return self._merged_container()

    def encoded_base(self) -> bytes:
        """The container's bytes without the bytes that were appended since the last step that is None. Encoded once."""
        if self._bytes is None:
            self._bytes = self._base.SerializeToString()
        return self._bytes

    def _merged_container(self) -> m.Container:
        """Merge the base and the additions into a copy."""
        if self._current is None:
            self._current = m.Container()
            self._current.CopyFrom(self._base)
            normalise(self._current)
            for added in self._added:
                self._current.MergeFromString(added)
        return self._current

    def _additions(self) -> list[m.Container]:
        """The appended bytes as messages."""
        for added in self._added[len(self._parsed) :]:
            self._parsed.append(m.Container.FromString(added))
        return self._parsed

    def _shown_entries(self, entries: list[Entry]) -> list[Entry]:
        """The entries that later plugins see."""
        return [entry for entry in entries if entry.row.always_shown or self._is_visible(entry.row)]

    def _fresh_step(self, adjustment: AcceptedAdjustment) -> None:
        resources, entries = split(adjustment.fresh)
        entries = self._shown_entries(entries)
        for entry in entries:
            # A field that no plugin claimed before is not in any addition. The exception is a variable with "=" in its
            # name, because the name that is read back from the container ends at the first "=".
            added: Sequence[m.Container] = ()
            if entry.row.path == "env":
                added = self._additions() if self._has_odd_env else ()
                self._has_odd_env = self._has_odd_env or "=" in "".join(entry.keys)
            if not all(self._can_append(container, entry) for container in (self._base, *added)):
                self._change(self._shown_entries(all_entries(adjustment.fresh)))
                return
        if resources or entries:
            self._append(entries, adjustment, resources)

    def _step(self, entries: list[Entry], adjustment: AcceptedAdjustment) -> None:
        has_many = len(self._added) > _MAX_ADDITIONS_SEARCHED
        for container in (self._merged_container(),) if has_many else (self._base, *self._additions()):
            for entry in entries:
                if not self._can_append(container, entry):
                    self._change(entries)
                    return
        self._has_odd_env = True  # not checked
        if entries:
            self._append(entries, adjustment)

    def _change(self, entries: list[Entry]) -> None:
        """Replace or remove values: the result is the new base."""
        self._base = self._merged_container()
        for entry in entries:
            self._apply(self._base, entry)
        self._bytes = self._current = None
        self._added, self._parsed = [], []
        self._steps.append(None)

    def _append(self, entries: list[Entry], adjustment: AcceptedAdjustment, resources: bool = False) -> None:
        step = b""
        if entries:
            delta = m.Container()
            for entry in entries:
                if entry.row.in_resources:
                    resources = True
                else:
                    self._apply(delta, entry)
            step = delta.SerializeToString()
        if resources:  # the same message type in both: one merge instead of one per field
            step += bytes_field(_LINUX, bytes_field(_RESOURCES, adjustment.resources()))
        self._steps.append(step)
        self._added.append(step)
        if self._current is not None:
            self._current.MergeFromString(step)

    def _is_visible(self, row: Row) -> bool:
        return row.shown is not Visibility.NEVER and self._rules.later_plugins_see_all

    def _replaces_element(self, row: Row) -> bool:
        """Whether setting a key of this list drops the element that has it."""
        return row.removable or self._rules.limits_replace

    def _can_append(self, container: m.Container, entry: Entry) -> bool:
        """Whether appending the entry's bytes to the container's bytes gives the right result."""
        row = entry.row
        kind = row.kind
        if kind is _KEYED:
            return not self._replaces_element(row) or self._lacks_keys(container, entry)
        if kind is _SIMPLE:
            return row.is_text or (row.is_wrapper and bool(entry.value.ListFields())) or not row.has(container)
        if kind is _MAP:
            present = getattr(row.parent(container), row.name)
            return not (entry.marked and self._rules.last_word_wins and any(key in present for key in entry.unpaired))
        if kind is _ARGS:
            return bool(entry.value[0]) and not container.args
        return kind is not _RESET or not container.linux.HasField("rdt")

    def _lacks_keys(self, container: m.Container, entry: Entry) -> bool:
        """Whether no element of the list has a key of the entry."""
        row = entry.row
        names = entry.keys if not entry.marked else [*entry.sets, *entry.removed]
        # Searching a key's bytes in the whole message is ten times as fast as reading the keys. A match may be in
        # another field, so the keys are read after a match.
        if container is self._base and not row.removal_claims and len(names) <= _MAX_KEYS_SEARCHED:
            data = self.encoded_base()
            if all(key.encode() not in data for key in names):
                return True
        keys = _keys(container, row)
        if row.removal_claims and len(set(keys)) != len(keys):
            return False
        return set(keys).isdisjoint(names)

    def _apply(self, container: m.Container, entry: Entry) -> None:
        row = entry.row
        parent = row.parent(container)
        kind = row.kind
        if kind is _SIMPLE:
            put_simple(parent, row, entry.value)
        elif kind is _MAP:
            self._apply_map(getattr(parent, row.name), entry)
        elif row.path == "env":
            self._apply_env(container, entry)
        elif kind is _KEYED:
            self._apply_keyed(getattr(parent, row.name), entry)
        elif kind is _ARGS:
            self._apply_args(container, entry)
        elif kind is _RESET:
            container.linux.ClearField("rdt")
        else:
            getattr(parent, row.name).MergeFrom(entry.value)

    def _apply_map(self, target: Any, entry: Entry) -> None:
        if entry.marked and self._rules.last_word_wins:
            for key in entry.unpaired:
                target.pop(key, None)
        put_map(target, entry.sets)

    def _apply_keyed(self, target: Any, entry: Entry) -> None:
        row = entry.row
        if len(target) and self._replaces_element(row):
            drop(target, row.key, {*entry.removed, *entry.sets})
            if row.removal_claims:
                _drop_repeated(target, row.key)
        if entry.plain:
            target.MergeFrom(entry.value)
        else:
            target.extend(entry.sets.values())

    def _apply_env(self, container: m.Container, entry: Entry) -> None:
        if container.env:
            replaced = {*entry.removed, *entry.sets}
            container.env[:] = [text for text in container.env if text.partition("=")[0] not in replaced]
        container.env.extend([f"{key}={variable.value}" for key, variable in entry.sets.items()])

    def _apply_args(self, container: m.Container, entry: Entry) -> None:
        args = list(entry.value) if entry.value[0] else list(entry.value[1:])
        if not args and self._rules.args_reset_shows_original:
            args = list(self._origin.args)
        container.args[:] = args


def _keys(container: m.Container, row: Row) -> list[str]:
    elements: Any = getattr(row.parent(container), row.name)
    if row.path == "env":
        return [text.partition("=")[0] for text in elements]
    return [getattr(element, row.key) for element in elements]


def _drop_repeated(elements: Any, key: str) -> None:
    """Keep the last element of each key."""
    last = {getattr(element, key): index for index, element in enumerate(elements)}
    if len(last) < len(elements):
        remaining = [elements[index] for index in sorted(last.values())]
        del elements[:]
        elements.extend(remaining)
