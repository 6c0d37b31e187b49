"""What later plugins are shown: the container with the adjustments of earlier plugins in it.

`Shown` keeps its own copy of the container, made when a later plugin first needs it, and remembers of every step
whether it only appended. Protobuf bytes may be appended to: then old bytes + bytes of the step are the new
container, and the shell need not encode the rest again (`nri.adaptation.encoded`). Next:
`nri.adaptation.merge.create`.
"""

from __future__ import annotations

from typing import Any

from nri.adaptation.merge.effects import drop, put_map, put_simple
from nri.adaptation.merge.entries import Entry
from nri.adaptation.merge.fields import Kind, Row
from nri.adaptation.merge.fields import Shown as When
from nri.adaptation.rules import Rules
from nri.api import messages as m

__all__ = ["Shown", "normalise"]


def normalise(container: m.Container) -> None:
    """Make the parts present that plugins may rely on: hooks, linux, resources, memory and cpu."""
    container.hooks.SetInParent()
    container.linux.resources.memory.SetInParent()
    container.linux.resources.cpu.SetInParent()


class Shown:
    """A container as the next plugin sees it; the runtime's own message is never touched.

    Attributes:
        steps: one per change made so far: the message to append, or None if the container must be encoded anew.
    """

    __slots__ = ("_copy", "_keys", "_origin", "_pending", "_rules", "steps")

    def __init__(self, origin: m.Container, rules: Rules) -> None:
        self._origin = origin
        self._copy: m.Container | None = None
        self._pending: list[list[Entry]] = []
        self._keys: dict[str, list[str]] = {}
        self._rules = rules
        self.steps: list[m.Container | None] = []

    def add(self, entries: list[Entry]) -> None:
        """Note one plugin's adjustments; they are applied when somebody looks."""
        if entries:
            self._pending.append(entries)

    def container(self) -> m.Container:
        """The container now. Belongs to this object: do not change it."""
        if self._copy is None:
            self._copy = m.Container()
            self._copy.CopyFrom(self._origin)
            normalise(self._copy)
        while self._pending:
            self._step(self._copy, self._pending.pop(0))
        return self._copy

    def _step(self, container: m.Container, entries: list[Entry]) -> None:
        wanted = [entry for entry in entries if self._visible(entry.row)]
        if not wanted:
            return
        if all(self._appends(container, entry) for entry in wanted):
            delta = m.Container()
            for entry in wanted:
                self._apply(delta, entry)
                self._remember(entry)
            container.MergeFrom(delta)
            self.steps.append(delta)
            return
        for entry in wanted:
            self._apply(container, entry)
        self._keys.clear()
        self.steps.append(None)

    def _visible(self, row: Row) -> bool:
        return row.shown is When.ALWAYS or (row.shown is When.BY_RULE and self._rules.later_plugins_see_all)

    def _replaces(self, row: Row) -> bool:
        """Whether setting a key of this list drops the element that has it."""
        return row.removable or self._rules.limits_replace

    def _keys_of(self, container: m.Container, row: Row) -> list[str]:
        """Keys of a list in the container; kept until the container is changed by more than appending."""
        keys = self._keys.get(row.path)
        if keys is None:
            elements: Any = getattr(row.parent(container), row.name)
            if row.path == "env":
                keys = [text.partition("=")[0] for text in elements]
            else:
                keys = [getattr(element, row.key) for element in elements]
            self._keys[row.path] = keys
        return keys

    def _remember(self, entry: Entry) -> None:
        """Keep the known keys true after appending; a variable's name ends at the first equals sign, whoever set it."""
        keys = self._keys.get(entry.row.path)
        if keys is not None:
            keys.extend([key.partition("=")[0] for key in entry.sets] if entry.row.path == "env" else entry.sets)

    def _appends(self, container: m.Container, entry: Entry) -> bool:
        """Whether merging the entry over the container, as protobuf merges bytes, gives what the entry means."""
        row = entry.row
        if row.kind is Kind.KEYED:
            if not self._replaces(row):
                return True
            keys = self._keys_of(container, row)
            if row.removal_claims and len(set(keys)) != len(keys):
                return False
            return entry.removed.keys().isdisjoint(keys) and entry.sets.keys().isdisjoint(keys)
        if row.kind is Kind.MAP:
            present = getattr(row.parent(container), row.name)
            return not (self._rules.last_word_wins and any(key in present for key in entry.unpaired))
        if row.kind is Kind.SIMPLE:
            return row.is_text or (row.is_wrapper and bool(entry.value.ListFields())) or not row.has(container)
        if row.kind is Kind.ARGS:
            return bool(entry.value[0]) and not container.args
        if row.kind is Kind.RESET:
            return not container.linux.HasField("rdt")
        return True

    def _apply(self, container: m.Container, entry: Entry) -> None:
        row = entry.row
        parent = row.parent(container)
        if row.kind is Kind.SIMPLE:
            put_simple(parent, row, entry.value)
        elif row.kind is Kind.MAP:
            target = getattr(parent, row.name)
            if self._rules.last_word_wins:
                for key in entry.unpaired:
                    target.pop(key, None)
            put_map(target, entry.sets)
        elif row.path == "env":
            self._apply_env(container, entry)
        elif row.kind is Kind.KEYED:
            self._apply_keyed(getattr(parent, row.name), entry)
        elif row.kind is Kind.ARGS:
            self._apply_args(container, entry)
        elif row.kind is Kind.RESET:
            container.linux.ClearField("rdt")
        else:
            getattr(parent, row.name).MergeFrom(entry.value)

    def _apply_keyed(self, target: Any, entry: Entry) -> None:
        row = entry.row
        if self._replaces(row):
            drop(target, row.key, {*entry.removed, *entry.sets})
            if row.removal_claims:
                _drop_repeated(target, row.key)
        target.extend(entry.sets.values())

    def _apply_env(self, container: m.Container, entry: Entry) -> None:
        gone = {*entry.removed, *entry.sets}
        container.env[:] = [text for text in container.env if text.partition("=")[0] not in gone]
        container.env.extend([f"{key}={variable.value}" for key, variable in entry.sets.items()])

    def _apply_args(self, container: m.Container, entry: Entry) -> None:
        args = list(entry.value) if entry.value[0] else list(entry.value[1:])
        if not args and self._rules.args_reset_shows_original:
            args = list(self._origin.args)
        container.args[:] = args


def _drop_repeated(elements: Any, key: str) -> None:
    """Keep the last element of each key."""
    seen: set[str] = set()
    for index in range(len(elements) - 1, -1, -1):
        name = getattr(elements[index], key)
        if name in seen:
            del elements[index]
        seen.add(name)
