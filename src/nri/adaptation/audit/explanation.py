"""The history of a container, computed from its records in `nri.adaptation.audit.provenance`.

Events are replayed in their order: the creation with the merge itself, updates over the resources that the container
had at that time. An event that cannot be replayed (an invalid reply, a failed event) becomes a note, not an error:
people read a history when something is already wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from nri.adaptation.audit.diff import Change, changes, described_changes, set_values, show, spots
from nri.adaptation.audit.record import CREATION, TAKEN_BACK, Record, named, updates_of
from nri.adaptation.containers.answer_order import OVERTAKEN, FieldOrder, SequenceNumbers, creation_answer, without
from nri.adaptation.containers.update_result import APPLIED, REFUSED, STALE, UNSUPPORTED, field_names
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.effects import put_resources
from nri.adaptation.merge.entries import read
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE, TREE, Row, Visibility
from nri.rules import Rules

#: The plugin's name for changes by the runtime's own request (usually the kubelet's).
REQUEST = "(request)"
#: The state of a container after an event. A runtime records only some of these events in its history.
STATES: Final = {
    "CreateContainer": "created",
    "PostCreateContainer": "created",
    "StartContainer": "starting",
    "PostStartContainer": "running",
    "StopContainer": "stopped",
    "RemoveContainer": "removed",
}
#: The values in force of a container have at most this many bytes as JSON.
_MAX_VALUE_BYTES = 1 << 20


class _Latest(SequenceNumbers):
    """The sequence numbers of a record without numbers: newer than earlier records, older than later records."""

    def greatest_overridden(self, field: str) -> int:  # noqa: ARG002 - the same for all fields
        """A number above all others."""
        return sys.maxsize


_NO_NUMBER = _Latest(0)


class Step(NamedTuple):
    """A change, with its plugin.

    Attributes:
        when: seconds since 1970.
        event: the RPC name of the event.
        plugin: ``NN-name``, or `REQUEST`.
        change: field, key, before, after.
        note: further information, for example why the change was not applied.
    """

    when: float
    event: str
    plugin: str
    change: Change
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The step as a JSON object. The time is a string in UTC."""
        change = {key: value for key, value in self.change.to_json().items() if key != "container"}
        return {"time": _time(self.when), "event": self.event, "plugin": self.plugin, **change, "note": self.note}


@dataclass(slots=True)
class Explanation:
    """The chain of changes of a container.

    Attributes:
        container: the container's id.
        name: the container's name. It is "" without an event of this container, which is then older than the records.
        pod: ``namespace/name`` of its pod.
        steps: the changes, the oldest first.
        notes: (seconds since 1970, text) for events without changes.
        forgotten: the number of events in between whose records were dropped.
        refused: time (seconds since 1970) and reason of a refused creation; None if the creation was not refused.
        current: the container after all events.
        state: the state after the last recorded event of the container, a value of `STATES`; "" without such an event.
        rules: the rules with which the events were replayed.
    """

    container: str
    name: str = ""
    pod: str = ""
    steps: list[Step] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    forgotten: int = 0
    refused: tuple[float, str] | None = None
    current: m.Container = field(default_factory=m.Container)
    state: str = ""
    rules: Rules = Rules.DEFAULT

    def to_json(self) -> dict[str, Any]:
        """The chain as a JSON object."""
        return {
            "container": self.container,
            "name": self.name,
            "pod": self.pod,
            "refused": self.refused and {"time": _time(self.refused[0]), "reason": self.refused[1]},
            "steps": [step.to_json() for step in self.steps],
            "notes": [{"time": _time(when), "text": text} for when, text in self.notes],
            "forgotten": self.forgotten,
        }

    def to_json_with_values(self) -> dict[str, Any]:
        """The chain as a JSON object, with the container's image, its state and the values in force.

        Each value has the plugin that set it, `REQUEST` for a value of the runtime. Values above a limit in bytes are
        counted in `values_left_out`.
        """
        setters = {(step.change.field, step.change.key): step for step in self.steps if not step.note}
        values = {
            (spot.row.label, spot.key): value
            for spot, value in set_values(self.current, later_plugins_see_all=self.rules.later_plugins_see_all)
        }
        for place, step in setters.items():  # adjustments of fields that a container does not show
            if step.event == CREATION and step.change.after is not None:
                values.setdefault(place, step.change.after)
        rows, remaining = [], _MAX_VALUE_BYTES
        for place, value in values.items():
            setter = setters.get(place)
            row = {"field": place[0], "key": place[1], "value": value, "plugin": setter.plugin if setter else REQUEST}
            row["time"] = _time(setter.when) if setter else ""
            remaining -= len(json.dumps(row))
            if remaining >= 0:
                rows.append(row)
        image = self.current.image
        return {
            **self.to_json(),
            "image": {"name": image.name, "digest": image.digest or image.config_digest},
            "state": "not created" if self.refused else self.state,
            "values": rows,
            "values_left_out": len(values) - len(rows),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The chain as rows of strings for a table: time, event, plugin, field, key, before, after, note."""
        return [
            (_time(when), event, plugin, change.field, change.key, show(change.before), show(change.after), note)
            for when, event, plugin, change, note in self.steps
        ]


def _time(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def explain(container: str, records: Sequence[Record], forgotten: int = 0, rules: Rules = Rules.DEFAULT) -> Explanation:
    """Compute the changes of a container from its records, the oldest first."""
    names = named(container, records)
    pod = "/".join(part for part in (names.namespace, names.pod) if part)
    explanation = Explanation(container, names.name, pod, forgotten=forgotten, rules=rules)
    undone: dict[tuple[str, int], str] = {}  # the event that undid an answer, by field and sequence number
    for record in records:
        numbers = record.numbers.get(TAKEN_BACK)
        if isinstance(numbers, SequenceNumbers):
            undone |= dict.fromkeys(numbers.undone.items(), record.event)
    replay = _Replay(explanation, rules, undone)
    for record in records:
        try:
            replay.run(record)
        except Exception as error:  # noqa: BLE001 - invalid bytes of a plugin must not spoil the rest
            explanation.notes.append((record.when, f"{record.event}: cannot be replayed: {error}"))
        if record.container == container and not record.failed:
            explanation.state = STATES.get(record.event, explanation.state)
    explanation.current = replay.current
    return explanation


class _Replay:
    """The container as it was after the records so far."""

    __slots__ = ("_before", "_container", "_explanation", "_order", "_rules", "_undo_events")

    def __init__(self, explanation: Explanation, rules: Rules, undone: Mapping[tuple[str, int], str]) -> None:
        self._explanation = explanation
        self._rules = rules
        self._container = m.Container(id=explanation.container)
        self._order = FieldOrder()
        self._undo_events = undone
        self._before: list[tuple[Record, str, m.LinuxResources]] | None = []

    @property
    def current(self) -> m.Container:
        """The container after the records so far."""
        return self._container

    def run(self, record: Record) -> None:
        """Replay an event, and add its changes."""
        before = len(self._explanation.steps)
        is_own = record.container == self._explanation.container
        creation = record.event == CREATION and is_own
        if creation:
            self._explanation.refused = (record.when, record.failed) if record.failed else None
        if creation and record.is_given_up:
            steps = self._explanation.steps
            steps[:] = [step._replace(note=step.note or "not applied: the container was not created") for step in steps]
            return
        if creation:
            self._create(record)
        else:
            self._update(record, is_own)
        if record.failed:
            failed = f"not applied: {record.failed}"
            steps = self._explanation.steps
            steps[before:] = [step._replace(note=failed) for step in steps[before:]]
            if len(steps) == before and not creation:
                self._explanation.notes.append((record.when, f"{record.event}: {failed}"))
        for container, what, outcome, reason in record.outcomes:
            if container == self._explanation.container and outcome != APPLIED:
                self._explanation.notes.append((record.when, f"{record.event}: {what} {outcome}: {reason}"))

    def _create(self, record: Record) -> None:
        request = m.CreateContainerRequest.FromString(record.request)
        if not record.failed and self._before:
            self._explanation.steps.clear()
            self._order = FieldOrder()
        state = CreateMerge(request, self._rules)
        unseen: dict[tuple[str, str], Any] = {}
        for plugin, raw in record.replies:
            reply = creation_answer(raw)
            if not record.failed:
                reply.ClearField("update")  # ignored updates must not cause conflicts in the replay
            before = m.Container()
            before.CopyFrom(state.container)
            try:
                state.apply(plugin, reply)
            except Exception as error:  # noqa: BLE001 - the conflict that failed the event
                refused_changes = described_changes(
                    self._explanation.container, read(reply.adjust, TREE), before, equal=True
                )
                self._add(record, plugin, refused_changes, f"not applied: {error}")
                continue
            touched = spots(entry for entry in read(reply.adjust, TREE) if self._is_shown(entry.row))
            self._add(record, plugin, changes(self._explanation.container, touched, before, state.container))
            self._add(record, plugin, self._hidden_changes(reply.adjust, unseen))
            if not record.failed:
                self._order.set(field_names(reply.adjust.linux.resources), _reply_numbers(record, plugin))
        if not record.failed:
            self._container.CopyFrom(state.container)
            # Updates that were requested during the container's creation may be recorded before it, and were applied
            # after it.
            earlier_requests, self._before = self._before or [], None
            for earlier, plugin, resources in earlier_requests:
                self._resources(earlier, plugin, resources, self._container, self._order)

    def _hidden_changes(self, adjust: m.ContainerAdjustment, last: dict[tuple[str, str], Any]) -> list[Change]:
        """Changes of the fields that a container does not show. Old values come from earlier replies."""
        entries = [entry for entry in read(adjust, TREE) if not self._is_shown(entry.row)]
        hidden = []
        for change in described_changes(self._explanation.container, entries, m.Container()):
            place = (change.field, change.key)
            hidden.append(change._replace(before=last.get(place)))
            last[place] = change.after
        return hidden

    def _is_shown(self, row: Row) -> bool:
        if row.shown is Visibility.BY_RULE:
            return self._rules.later_plugins_see_all
        return row.shown is Visibility.ALWAYS

    def _update(self, record: Record, is_own: bool) -> None:
        target, order = m.Container(), self._order.copy()
        target.CopyFrom(self._container)
        if record.event == "UpdateContainer" and is_own:
            request = m.UpdateContainerRequest.FromString(record.request)
            self._resources(record, REQUEST, request.linux_resources, target, order)
        for plugin, raw in record.replies:
            merged = m.ContainerUpdate()
            for update in updates_of(record.event, raw):
                if update.container_id == self._explanation.container:
                    put_resources(merged, read(update.linux.resources, RESOURCES_TREE))
            self._resources(record, plugin, merged.linux.resources, target, order)
        if not record.failed:
            self._container, self._order = target, order

    def _resources(
        self, record: Record, plugin: str, requested: m.LinuxResources, target: m.Container, order: FieldOrder
    ) -> None:
        """Merge resources into the container's resources as the runtime did, and add the differences."""
        if self._before is not None and not record.failed:
            self._before.append((record, plugin, requested))
        numbers = _reply_numbers(record, "" if plugin == REQUEST else plugin)
        unapplied = self._unapplied_fields(record, requested, numbers)
        supported = without(requested, unapplied)
        newest = order.newest(supported, numbers)
        fields = field_names(newest)
        order.set(fields, numbers)
        unapplied |= dict.fromkeys(set(field_names(supported)).difference(fields), f"not applied: {OVERTAKEN}")
        container_id = self._explanation.container
        for note in dict.fromkeys(unapplied.values()):
            part = without(requested, [name for name in field_names(requested) if unapplied.get(name) != note])
            self._add(record, plugin, described_changes(container_id, read(part, RESOURCES_TREE), target), note)
        entries = read(newest, RESOURCES_TREE)
        before = m.Container()
        before.CopyFrom(target)
        put_resources(target, entries)
        self._add(record, plugin, changes(container_id, spots(entries), before, target))

    def _unapplied_fields(
        self, record: Record, requested: m.LinuxResources, numbers: SequenceNumbers
    ) -> dict[str, str]:
        """The fields of an update that were not applied or were undone, with reasons."""
        reasons = {
            row[1]: f"not applied: {row[2]}: {row[3]}"
            for row in record.outcomes
            if row[0] == self._explanation.container and row[2] in (STALE, UNSUPPORTED, REFUSED) and row[3] != OVERTAKEN
        }
        names = field_names(requested)
        for name in names:
            if (name, numbers.number(name)) in self._undo_events:
                reasons[name] = f"undone, because {self._undo_events[name, numbers.number(name)]} has failed"
        return {name: why for name, why in reasons.items() if name in names}

    def _add(self, record: Record, plugin: str, changes_: list[Change], note: str = "") -> None:
        self._explanation.steps += [Step(record.when, record.event, plugin, change, note) for change in changes_]


def _reply_numbers(record: Record, plugin: str) -> SequenceNumbers:
    """The sequence numbers of a reply. A reply without a number is newer than earlier records."""
    number = record.numbers.get(plugin)
    if number is None:
        return _NO_NUMBER
    return number if isinstance(number, SequenceNumbers) else SequenceNumbers(number)
