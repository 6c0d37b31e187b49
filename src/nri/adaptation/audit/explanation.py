"""The history of one container, worked out from what `nri.adaptation.audit.provenance` kept of its events.

Events are run again in their order: the creation through the merge itself, updates over the resources that the
container had at that time. An event that cannot be run again (a reply does not decode, the event failed) becomes a
note, not an error: this is read when something is already wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nri.adaptation.audit.diff import Change, changes, described, show, spots
from nri.adaptation.audit.record import CREATION, TAKEN_BACK, Record, named, updates_of
from nri.adaptation.containers.answer_order import OVERTAKEN, FieldOrder, Numbers, creation_answer, without
from nri.adaptation.containers.update_result import APPLIED, REFUSED, STALE, UNSUPPORTED, field_names
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.effects import put_resources
from nri.adaptation.merge.entries import read
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE, TREE, Row, Visibility
from nri.rules import Rules

__all__ = ["REQUEST", "Explanation", "Step", "explain"]

#: The plugin's name where the runtime's own request (the kubelet's, mostly) changed something.
REQUEST = "(request)"


class _Latest(Numbers):
    """The numbers of a record that has none: it is newer than those before it, and others are newer than it."""

    def reach(self, field: str) -> int:  # noqa: ARG002 - it is the same for all
        """More than any number."""
        return sys.maxsize


_UNNUMBERED = _Latest(0)


class Step(NamedTuple):
    """One change, and who made it.

    Attributes:
        when: seconds since 1970.
        event: RPC name of the event.
        plugin: ``NN-name``, or `REQUEST`.
        change: field, key, before, after.
        note: what else there is to say: not applied and why, clamped, ...
    """

    when: float
    event: str
    plugin: str
    change: Change
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The step as a table of JSON; the time as text in UTC."""
        change = {key: value for key, value in self.change.to_json().items() if key != "container"}
        return {"time": _time(self.when), "event": self.event, "plugin": self.plugin, **change, "note": self.note}


@dataclass(slots=True)
class Explanation:
    """The chain of changes of one container.

    Attributes:
        container: its id.
        name: its name, "" if no event of its own was seen (it is older than the runtime, or than the records).
        pod: ``namespace/name`` of its pod.
        steps: the changes, oldest first.
        notes: (seconds since 1970, text) of what happened without changing anything.
        forgotten: that many events in between are no longer remembered.
        refused: when its creation was refused, in seconds since 1970, and why; None if it was not.
    """

    container: str
    name: str = ""
    pod: str = ""
    steps: list[Step] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    forgotten: int = 0
    refused: tuple[float, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The chain as a table of JSON."""
        return {
            "container": self.container,
            "name": self.name,
            "pod": self.pod,
            "refused": self.refused and {"time": _time(self.refused[0]), "reason": self.refused[1]},
            "steps": [step.to_json() for step in self.steps],
            "notes": [{"time": _time(when), "text": text} for when, text in self.notes],
            "forgotten": self.forgotten,
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The chain as rows of texts for a table: time, event, plugin, field, key, before, after, note."""
        return [
            (_time(when), event, plugin, change.field, change.key, show(change.before), show(change.after), note)
            for when, event, plugin, change, note in self.steps
        ]


def _time(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def explain(container: str, records: Sequence[Record], forgotten: int = 0, rules: Rules = Rules.DEFAULT) -> Explanation:
    """Work out who changed what in a container, from its records, oldest first."""
    names = named(container, records)
    pod = "/".join(part for part in (names.namespace, names.pod) if part)
    made = Explanation(container, names.name, pod, forgotten=forgotten)
    undone: dict[tuple[str, int], str] = {}  # fields and numbers of answers that were taken back, and by which event
    for record in records:
        numbers = record.numbers.get(TAKEN_BACK)
        if isinstance(numbers, Numbers):
            undone |= dict.fromkeys(numbers.undone.items(), record.event)
    replay = _Replay(made, rules, undone)
    for record in records:
        try:
            replay.run(record)
        except Exception as error:  # noqa: BLE001 - bytes of a plugin: whatever is wrong with them, the rest still holds
            made.notes.append((record.when, f"{record.event}: cannot be worked out: {error}"))
    return made


class _Replay:
    """The container as it was after the records so far."""

    __slots__ = ("_before", "_made", "_now", "_order", "_rules", "_undone")

    def __init__(self, made: Explanation, rules: Rules, undone: Mapping[tuple[str, int], str]) -> None:
        self._made = made
        self._rules = rules
        self._now = m.Container(id=made.container)
        self._order = FieldOrder()
        self._undone = undone
        self._before: list[tuple[Record, str, m.LinuxResources]] | None = []

    def run(self, record: Record) -> None:
        """Run one event again, and note its changes."""
        before = len(self._made.steps)
        mine = record.container == self._made.container
        creation = record.event == CREATION and mine
        if creation:
            self._made.refused = (record.when, record.failed) if record.failed else None
        if creation and record.is_given_up:
            steps = self._made.steps
            steps[:] = [step._replace(note=step.note or "not applied: it was not created") for step in steps]
            return
        if creation:
            self._create(record)
        else:
            self._update(record, mine)
        if record.failed:
            failed = f"not applied: {record.failed}"
            steps = self._made.steps
            steps[before:] = [step._replace(note=failed) for step in steps[before:]]
            if len(steps) == before and not creation:
                self._made.notes.append((record.when, f"{record.event}: {failed}"))
        for container, what, outcome, reason in record.outcomes:
            if container == self._made.container and outcome != APPLIED:
                self._made.notes.append((record.when, f"{record.event}: {what} {outcome}: {reason}"))

    def _create(self, record: Record) -> None:
        request = m.CreateContainerRequest.FromString(record.request)
        if not record.failed and self._before:
            self._made.steps.clear()
            self._order = FieldOrder()
        state = CreateMerge(request, self._rules)
        unseen: dict[tuple[str, str], Any] = {}
        for plugin, raw in record.replies:
            reply = creation_answer(raw)
            if not record.failed:
                reply.ClearField("update")  # of others, some of which were left out: what they want is no conflict here
            before = m.Container()
            before.CopyFrom(state.container)
            try:
                state.apply(plugin, reply)
            except Exception as error:  # noqa: BLE001 - the conflict that failed the event; its text says it all
                found = described(self._made.container, read(reply.adjust, TREE), before, equal=True)
                self._add(record, plugin, found, f"not applied: {error}")
                continue
            touched = spots(entry for entry in read(reply.adjust, TREE) if self._shown(entry.row))
            self._add(record, plugin, changes(self._made.container, touched, before, state.container))
            self._add(record, plugin, self._hidden(reply.adjust, unseen))
            if not record.failed:
                self._order.set(field_names(reply.adjust.linux.resources), _numbers(record, plugin))
        if not record.failed:
            self._now.CopyFrom(state.container)
            # Requests of others, made while it was being created, may be recorded before it; it came after it.
            others, self._before = self._before or [], None
            for earlier, plugin, asked in others:
                self._resources(earlier, plugin, asked, self._now, self._order)

    def _hidden(self, adjust: m.ContainerAdjustment, last: dict[tuple[str, str], Any]) -> list[Change]:
        """Changes of the fields that a container does not show; what they were is known from earlier replies."""
        entries = [entry for entry in read(adjust, TREE) if not self._shown(entry.row)]
        found = []
        for change in described(self._made.container, entries, m.Container()):
            place = (change.field, change.key)
            found.append(change._replace(before=last.get(place)))
            last[place] = change.after
        return found

    def _shown(self, row: Row) -> bool:
        if row.shown is Visibility.BY_RULE:
            return self._rules.later_plugins_see_all
        return row.shown is Visibility.ALWAYS

    def _update(self, record: Record, mine: bool) -> None:
        target, order = m.Container(), self._order.copy()
        target.CopyFrom(self._now)
        if record.event == "UpdateContainer" and mine:
            request = m.UpdateContainerRequest.FromString(record.request)
            self._resources(record, REQUEST, request.linux_resources, target, order)
        for plugin, raw in record.replies:
            whole = m.ContainerUpdate()
            for update in updates_of(record.event, raw):
                if update.container_id == self._made.container:
                    put_resources(whole, read(update.linux.resources, RESOURCES_TREE))
            self._resources(record, plugin, whole.linux.resources, target, order)
        if not record.failed:
            self._now, self._order = target, order

    def _resources(
        self, record: Record, plugin: str, asked: m.LinuxResources, target: m.Container, order: FieldOrder
    ) -> None:
        """Put resources over those of the container as the runtime did, and note the differences."""
        if self._before is not None and not record.failed:
            self._before.append((record, plugin, asked))
        numbers = _numbers(record, "" if plugin == REQUEST else plugin)
        idle = self._idle(record, asked, numbers)
        done = without(asked, idle)
        wanted = order.newest(done, numbers)
        fields = field_names(wanted)
        order.set(fields, numbers)
        idle |= dict.fromkeys(set(field_names(done)).difference(fields), f"not applied: {OVERTAKEN}")
        mine = self._made.container
        for note in dict.fromkeys(idle.values()):
            part = without(asked, [name for name in field_names(asked) if idle.get(name) != note])
            self._add(record, plugin, described(mine, read(part, RESOURCES_TREE), target), note)
        entries = read(wanted, RESOURCES_TREE)
        before = m.Container()
        before.CopyFrom(target)
        put_resources(target, entries)
        self._add(record, plugin, changes(mine, spots(entries), before, target))

    def _idle(self, record: Record, asked: m.LinuxResources, numbers: Numbers) -> dict[str, str]:
        """Fields of an update that were not put into force, or were taken back, and why."""
        found = {
            row[1]: f"not applied: {row[2]}: {row[3]}"
            for row in record.outcomes
            if row[0] == self._made.container and row[2] in (STALE, UNSUPPORTED, REFUSED) and row[3] != OVERTAKEN
        }
        names = field_names(asked)
        for name in names:
            if (name, numbers.of(name)) in self._undone:
                found[name] = f"taken back: {self._undone[name, numbers.of(name)]} has failed"
        return {name: why for name, why in found.items() if name in names}

    def _add(self, record: Record, plugin: str, found: list[Change], note: str = "") -> None:
        self._made.steps += [Step(record.when, record.event, plugin, change, note) for change in found]


def _numbers(record: Record, plugin: str) -> Numbers:
    """The place of a reply in the order of answers; a record without one is newer than those before it."""
    found = record.numbers.get(plugin)
    if found is None:
        return _UNNUMBERED
    return found if isinstance(found, Numbers) else Numbers(found)
