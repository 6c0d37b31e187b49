"""Predict collisions: plugins that set the same field of the same container.

Plugins can be recorded separately, for example a plugin by `nri replay --record`. Their answers to the same event of
the same container are compared in the order of indices, by the rules of a merge: a later plugin may set a field that it
removes first. Values are not needed, so redacted recordings suffice. For a plugin without a recording, the fields that
its class declares (`sets`) are used.
"""

from __future__ import annotations

from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.merge import RESOURCES_TREE, TREE, Entry, Kind, read
from nri.api.fields import BY_KEY, ROWS, DeclaredField
from nri.trace.history import Event, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Answers of this many bytes may be stored in any case.
_MAX_BYTES = 12 << 20
#: Further bytes of answers for each byte of the recordings.
_BYTES_PER_BYTE = 2
#: Approximate memory of a container at an event.
_EVENT_BYTES = 500
#: Approximate memory of a plugin at such an event.
_PLUGIN_BYTES = 100
#: Approximate memory of a plugin's answers at such an event.
_ANSWERS_BYTES = 700
#: Approximate memory of a field in an answer.
_PLACE_BYTES = 300
#: A character of a text takes up to this many bytes.
_TEXT_FACTOR = 4
#: Names of containers in collisions that may be stored in any case.
_NAMES = 20_000
#: A further name may be stored for this many bytes of the recordings.
_BYTES_PER_NAME = 50
#: A container's id has at most this many characters.
_MAX_ID_CHARACTERS = 256
#: A container's name is cut to this many characters.
_MAX_SUBJECT_CHARACTERS = 1000
_NO_OWNER: Final = (Kind.LIST, Kind.ACCUMULATED)
_RDT: Final = ("RdtClosID", "RdtSchemata", "RdtEnableMonitoring")
#: The path of each field with an owner, by its label.
_OWNED: Final = {row.label: row.path for row in ROWS if row.kind not in (*_NO_OWNER, Kind.RESET)}


class OwnedField(NamedTuple):
    """A field of a container ("" for the event's own container), or an entry of the field, that one plugin can own."""

    container: str
    field: str
    key: str


class Collision(NamedTuple):
    """Two plugins that set the same field.

    Attributes:
        field, key: as in conflicts, for example ``Env`` and the variable.
        event: the event; "" if only declarations of classes collide.
        first, second: ``NN-name``; the answer of the second plugin would be refused.
        containers: ``NAMESPACE/POD/CONTAINER``, sorted; empty if only declarations collide.
        happened: the number of these containers for which a recording has the refusal.
        declared: at least one of the plugins was not recorded, and may set the field.
    """

    field: str
    key: str
    event: str
    first: str
    second: str
    containers: tuple[str, ...]
    happened: int
    declared: bool = False


class _Answers(NamedTuple):
    """All fields that a plugin sets or removes at one kind of event of a container. Equal answers share one object."""

    sets: frozenset[OwnedField] = frozenset()
    takes: frozenset[OwnedField] = frozenset()
    refused: bool = False


class CollisionFinder:
    """Collects events of recordings and finds collisions.

    Args:
        max_containers: the limit of containers whose answers are stored, once for each kind of event.
        max_bytes: the limit of bytes of answers, in addition to the bytes that `recording_bytes` allows.
        recording_bytes: the size of all recordings; the limits of answers and names grow with it.

    Attributes:
        left_out: events of further containers, or beyond the limit of bytes, which were not compared.
        left_out_names: containers of collisions that are neither named nor counted.
    """

    def __init__(self, max_containers: int = 200_000, max_bytes: int = _MAX_BYTES, *, recording_bytes: int = 0) -> None:
        self.left_out, self._max_containers, self._remaining_bytes = (
            0,
            max_containers,
            max_bytes + _BYTES_PER_BYTE * recording_bytes,
        )
        self.left_out_names, self._max_names = 0, _NAMES + recording_bytes // _BYTES_PER_NAME
        self._answers: dict[tuple[str, str], dict[str, _Answers]] = {}
        self._shared: dict[_Answers | str, _Answers | str] = {}  # answers, and names of plugins
        self._names: dict[str, str] = {}
        self._declared: dict[str, list[DeclaredField]] = {}

    def declare(self, plugin: str, sets: Iterable[str]) -> None:
        """Add a plugin, ``NN-name``, by the fields that its class declares.

        Raises ValueError for an unknown field.
        """
        self._declared[plugin] = [DeclaredField(text) for text in sets]

    def take(self, event: Event) -> None:
        """Add an event."""
        if event.container is None:
            return
        subject = event.container.id
        for step in event.steps:
            reply = event.parse(step.event, step.reply, reply=True) if step.reply else None
            if reply is None or "update" not in reply.DESCRIPTOR.fields_by_name:
                continue
            key = (event.name, subject)
            full = self._remaining_bytes <= 0 or len(subject) > _MAX_ID_CHARACTERS
            if full or (key not in self._answers and len(self._answers) >= self._max_containers):
                self.left_out += 1
                return
            if key not in self._answers:
                self._names[subject] = event.subject[:_MAX_SUBJECT_CHARACTERS]
                self._answers[key] = {}
                self._remaining_bytes -= _EVENT_BYTES + _text_bytes(subject) + _text_bytes(self._names[subject])
            self._store_answer(self._answers[key], subject, step, reply)

    def _store_answer(self, plugins: dict[str, _Answers], subject: str, step: Step, reply: Any) -> None:
        """Store the fields that an answer sets and removes."""
        sets, takes = set[OwnedField](), set[OwnedField]()
        if step.event == "CreateContainer":
            _add_places(sets, takes, "", read(reply.adjust, TREE))
        for update in reply.update:
            container = "" if update.container_id == subject else update.container_id
            _add_places(sets, takes, container, read(update.linux.resources, RESOURCES_TREE))
        before = plugins.get(step.plugin, _Answers())
        refused = before.refused or step.refused is not None
        answers = _Answers(before.sets | sets, before.takes | takes, refused)
        if answers not in self._shared:
            self._shared[answers] = answers
            self._remaining_bytes -= _ANSWERS_BYTES + (len(answers.sets) + len(answers.takes)) * _PLACE_BYTES
            self._remaining_bytes -= _TEXT_FACTOR * len(step.reply or b"")
        if step.plugin not in self._shared:
            self._shared[step.plugin] = step.plugin
            self._remaining_bytes -= _PLUGIN_BYTES + _text_bytes(step.plugin)
        if step.plugin not in plugins:
            self._remaining_bytes -= _PLUGIN_BYTES
        plugins[self._shared[step.plugin]] = self._shared[answers]  # type: ignore[index, assignment]

    def collisions(self) -> list[Collision]:
        """Return all collisions, sorted by plugins and field, with collisions of declarations at the end."""
        outcomes: dict[tuple[str, str, str, str, str], dict[str, bool]] = {}
        names_left = self._max_names
        for (event, subject), plugins in self._answers.items():
            name = self._names[subject]
            recorded = ((*collision, plugins[collision[2]].refused) for collision in _collisions_of(plugins))
            declared = ((*collision, False) for collision in self._declared_collisions(plugins))
            for place, first, second, refused in chain(recorded, declared):
                key = (first, second, event, place.field, place.key)
                if name not in outcomes.get(key, {}):
                    if not names_left:
                        self.left_out_names += 1
                        continue
                    names_left -= 1
                row = outcomes.setdefault(key, {})
                row[name] = row.get(name, False) or refused
        rows = [
            Collision(
                *(field, key, event, first, second, tuple(sorted(names)), sum(names.values())),
                declared=first in self._declared or second in self._declared,
            )
            for (first, second, event, field, key), names in sorted(outcomes.items())
        ]
        return rows + sorted(
            self._declaration_collisions(), key=lambda row: (row.first, row.second, row.field, row.key)
        )

    def _declared_collisions(self, plugins: dict[str, _Answers]) -> Iterator[tuple[OwnedField, str, str]]:
        """Yield recorded fields that a plugin without answers declares: field, earlier plugin, later plugin."""
        for name, sets in self._declared.items():
            for other, answers in plugins.items() if name not in plugins else ():
                first, second = sorted((name, other))
                for place in answers.sets if second == name else answers.sets - answers.takes:
                    if any(declaration.covers(_OWNED[place.field], place.key) for declaration in sets):
                        yield place, first, second

    def _declaration_collisions(self) -> Iterator[Collision]:
        """Collisions between two declarations, with the narrower of their keys."""
        for (first, first_sets), (second, second_sets) in combinations(sorted(self._declared.items()), 2):
            fields = set()
            for declaration in first_sets:
                for other in second_sets:
                    key = declaration.common(other)
                    if key is not None:
                        paths = declaration.paths & other.paths
                        fields |= {(label, path, key) for label, path in _OWNED.items() if path in paths}
            for label, path, key in fields:
                yield Collision(label, key if path in BY_KEY else "", "", first, second, (), 0, declared=True)


def _text_bytes(text: str) -> int:
    return len(text) * (1 if text.isascii() else _TEXT_FACTOR)


def _add_places(sets: set[OwnedField], takes: set[OwnedField], container: str, entries: Iterable[Entry]) -> None:
    """Add the fields that entries set, and the fields that they remove."""
    for entry in entries:
        field, kind = entry.row.label, entry.row.kind
        if kind is Kind.RESET:
            takes.update(OwnedField(container, name, "") for name in _RDT)
        elif kind in (Kind.MAP, Kind.KEYED):
            takes.update(OwnedField(container, field, key) for key in entry.removed)
            sets.update(OwnedField(container, field, key) for key in entry.sets)
        elif kind not in _NO_OWNER:
            place = OwnedField(container, field, "")
            if kind is Kind.ARGS and not entry.value[0]:
                takes.add(place)
            sets.add(place)


def _collisions_of(plugins: dict[str, _Answers]) -> Iterator[tuple[OwnedField, str, str]]:
    """Yield fields that a later plugin sets although an earlier plugin owns them: field, earlier and later plugin."""
    holders: dict[OwnedField, str] = {}
    for name in sorted(plugins):
        answers = plugins[name]
        for place in answers.takes:
            holders.pop(place, None)
        for place in answers.sets:
            holder = holders.setdefault(place, name)
            if holder != name:
                yield place, holder, name
