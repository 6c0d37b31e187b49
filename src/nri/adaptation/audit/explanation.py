"""The history of one container, worked out from what `nri.adaptation.audit.provenance` kept of its events. Pure.

Events are run again in their order: the creation through the merge itself, updates over the resources that the
container had at that time. What cannot be run again (a reply that does not decode, an event that failed) becomes a
note, not an error: this is read when something is already wrong. Next: `nri.adaptation.audit.diff`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nri.adaptation.audit.diff import Change, changes, described, show, spots
from nri.adaptation.audit.record import Record, updates_of
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.effects import put_resources
from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.fields import RESOURCES_TREE, TREE, Row, Visibility
from nri.api import messages as m
from nri.rules import Rules

__all__ = ["REQUEST", "Explanation", "Step", "explain"]

#: Stands for the plugin where the runtime's own request (the kubelet's, mostly) changed something.
REQUEST = "(request)"


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
        name: its name, "" if its creation was not seen (it is older than the runtime, or than the records).
        pod: ``namespace/name`` of its pod.
        steps: the changes, oldest first.
        notes: (seconds since 1970, text) of what happened without changing anything.
        forgotten: that many events in between are no longer remembered.
    """

    container: str
    name: str = ""
    pod: str = ""
    steps: list[Step] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    forgotten: int = 0

    def to_json(self) -> dict[str, Any]:
        """The chain as a table of JSON."""
        return {
            "container": self.container,
            "name": self.name,
            "pod": self.pod,
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
    made = Explanation(container, forgotten=forgotten)
    replay = _Replay(made, rules)
    for record in records:
        try:
            replay.run(record)
        except Exception as error:  # noqa: BLE001 - bytes of a plugin: whatever is wrong with them, the rest still holds
            made.notes.append((record.when, f"{record.event}: cannot be worked out: {error}"))
    return made


class _Replay:
    """The container as it was after the records so far."""

    __slots__ = ("_made", "_now", "_rules")

    def __init__(self, made: Explanation, rules: Rules) -> None:
        self._made = made
        self._rules = rules
        self._now = m.Container(id=made.container)

    def run(self, record: Record) -> None:
        """Run one event again, and note its changes."""
        before = len(self._made.steps)
        mine = record.container == self._made.container
        if record.event == "CreateContainer" and mine:
            self._create(record)
        else:
            self._update(record, mine)
        if record.failed:
            failed = f"not applied: {record.failed}"
            steps = self._made.steps
            steps[before:] = [step._replace(note=failed) for step in steps[before:]]
            if len(steps) == before:
                self._made.notes.append((record.when, f"{record.event}: {failed}"))
        for container, what, outcome, reason in record.outcomes:
            if container == self._made.container and outcome != "applied":
                self._made.notes.append((record.when, f"{record.event}: {what} {outcome}: {reason}"))

    def _create(self, record: Record) -> None:
        request = m.CreateContainerRequest.FromString(record.request)
        self._made.name = request.container.name
        self._made.pod = f"{request.pod.namespace}/{request.pod.name}" if request.pod.namespace else request.pod.name
        state = CreateMerge(request, self._rules)
        unseen: dict[tuple[str, str], Any] = {}
        for plugin, raw in record.replies:
            reply = m.CreateContainerResponse.FromString(raw)
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
            self._now.CopyFrom(state.container)

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
        target = m.Container()
        target.CopyFrom(self._now)
        if record.event == "UpdateContainer" and mine:
            request = m.UpdateContainerRequest.FromString(record.request)
            self._made.name = self._made.name or request.container.name
            self._resources(record, REQUEST, read(request.linux_resources, RESOURCES_TREE), target)
        for plugin, raw in record.replies:
            same = [update for update in updates_of(record.event, raw) if update.container_id == self._made.container]
            entries = [entry for update in same for entry in read(update.linux.resources, RESOURCES_TREE)]
            if entries:
                self._resources(record, plugin, entries, target)
        if not record.failed:
            self._now = target

    def _resources(self, record: Record, plugin: str, entries: list[Entry], target: m.Container) -> None:
        """Put resources over those of the container, and note the differences."""
        before = m.Container()
        before.CopyFrom(target)
        put_resources(target, entries)
        self._add(record, plugin, changes(self._made.container, spots(entries), before, target))

    def _add(self, record: Record, plugin: str, found: list[Change], note: str = "") -> None:
        self._made.steps += [Step(record.when, record.event, plugin, change, note) for change in found]
