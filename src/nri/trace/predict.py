"""Collisions foretold: plugins that set the same field of the same container, found in what they have answered.

Plugins that were recorded apart (some on the node, another by `nri replay --record` of the same events) were never
merged. Here their answers to the same kind of event of the same container are laid over each other, in the order
of their indices and by the rules of a merge: a later plugin may take over what it removes first. Names are enough for
that, so recordings whose values were replaced serve as well. A plugin that was never recorded takes part with what its
class declares (`sets`), against recorded answers and other declarations. Next: `nri.api.fields`, the table of fields.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.merge import RESOURCES_TREE, TREE, Entry, Kind, read
from nri.api.fields import BY_KEY, ROWS, Declared
from nri.trace.history import Event, Step, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Collision", "CollisionFinder"]

#: Bytes of what is kept of answers; a place in a set takes so many besides its texts.
_MOST_BYTES, _PLACE_BYTES = 512 << 20, 300
_NO_OWNER: Final = (Kind.LIST, Kind.ACCUMULATED)
_RDT: Final = ("RdtClosID", "RdtSchemata", "RdtEnableMonitoring")
#: Fields with an owner by their names for people -> path.
_OWNED: Final = {row.label: row.path for row in ROWS if row.kind not in (*_NO_OWNER, Kind.RESET)}


class OwnedField(NamedTuple):
    """A place that one plugin can own: a field of a container, or one entry of it."""

    container: str
    field: str
    key: str


class Collision(NamedTuple):
    """Two plugins on one field.

    Attributes:
        field, key: as conflicts name it: ``Env``, and the variable.
        event: in which it happens; "" if only the two plugins' classes say so.
        first, second: ``NN-name``; the second one's answer is refused.
        containers: ``NAMESPACE/POD/CONTAINER`` for which it happens, sorted; none if only classes say so.
        happened: for how many of these the recordings have it already as refused.
        declared: at least one of them was not recorded: it may set the field, and need not.
    """

    field: str
    key: str
    event: str
    first: str
    second: str
    containers: tuple[str, ...]
    happened: int
    declared: bool = False


class _Answers:
    """All that one plugin has asked for at one kind of event of one container."""

    __slots__ = ("refused", "sets", "takes")

    def __init__(self) -> None:
        self.sets: set[OwnedField] = set()
        self.takes: set[OwnedField] = set()
        self.refused = False


class CollisionFinder:
    """Collects events of any number of recordings, and tells collisions.

    Args:
        most: containers whose answers are kept, once for each kind of event.

    Attributes:
        left: events of further containers, or beyond `most_bytes`, which were not looked at.
    """

    def __init__(self, most: int = 200_000, most_bytes: int = _MOST_BYTES) -> None:
        self.left, self._most, self._room = 0, most, most_bytes
        self._found: dict[tuple[str, str], dict[str, _Answers]] = {}
        self._names: dict[str, str] = {}
        self._declared: dict[str, list[Declared]] = {}

    def declare(self, plugin: str, sets: Iterable[str]) -> None:
        """Let a plugin, ``NN-name``, take part with what its class says that it sets.

        Raises ValueError for a name that is no field.
        """
        self._declared[plugin] = [Declared(text) for text in sets]

    def take(self, event: Event) -> None:
        """Look at an event."""
        if event.container is None:
            return
        subject = event.container.id
        for step in event.steps:
            reply = parsed(step.event, step.reply, reply=True) if step.reply else None
            if reply is None or "update" not in reply.DESCRIPTOR.fields_by_name:
                continue
            key = (event.name, subject)
            if self._room <= 0 or (key not in self._found and len(self._found) >= self._most):
                self.left += 1
                return
            if key not in self._found:
                self._names[subject] = event.subject
                self._found[key] = {}
            self._room -= _keep(self._found[key].setdefault(step.plugin, _Answers()), subject, step, reply)

    def collisions(self) -> list[Collision]:
        """Who collides with whom, sorted by plugins and field; where classes alone say so, after the others."""
        found: dict[tuple[str, str, str, str, str], dict[str, bool]] = {}
        for (event, subject), plugins in self._found.items():
            for place, first, second in _collide(plugins):
                row = found.setdefault((first, second, event, place.field, place.key), {})
                row[self._names[subject]] = plugins[second].refused
            for place, first, second in self._may_collide(plugins):
                found.setdefault((first, second, event, place.field, place.key), {}).setdefault(
                    self._names[subject], False
                )
        rows = [
            Collision(
                *(field, key, event, first, second, tuple(sorted(names)), sum(names.values())),
                declared=first in self._declared or second in self._declared,
            )
            for (first, second, event, field, key), names in sorted(found.items())
        ]
        return rows + sorted(self._both_declare(), key=lambda row: (row.first, row.second, row.field, row.key))

    def _may_collide(self, plugins: dict[str, _Answers]) -> Iterator[tuple[OwnedField, str, str]]:
        """The places of recorded answers that a plugin declares which has none itself: place, earlier, later."""
        for name, sets in self._declared.items():
            for other, answers in plugins.items() if name not in plugins else ():
                first, second = sorted((name, other))
                for place in answers.sets if second == name else answers.sets - answers.takes:
                    if any(each.covers(_OWNED[place.field], place.key) for each in sets):
                        yield place, first, second

    def _both_declare(self) -> Iterator[Collision]:
        """Pairs of plugins that declare the same field, with the narrower of their keys."""
        for (first, ours), (second, theirs) in combinations(sorted(self._declared.items()), 2):
            seen = set()
            for mine in ours:
                for other in theirs:
                    key = mine.common(other)
                    if key is not None:
                        paths = mine.paths & other.paths
                        seen |= {(label, path, key) for label, path in _OWNED.items() if path in paths}
            for label, path, key in seen:
                yield Collision(label, key if path in BY_KEY else "", "", first, second, (), 0, declared=True)


def _keep(answers: _Answers, subject: str, step: Step, reply: Any) -> int:
    """Keep what an answer sets and takes; returns the bytes that this takes at most: an answer is bounded itself."""
    answers.refused |= step.refused is not None
    before = len(answers.sets) + len(answers.takes)
    if step.event == "CreateContainer":
        _places(answers, subject, read(reply.adjust, TREE))
    for update in reply.update:
        _places(answers, update.container_id, read(update.linux.resources, RESOURCES_TREE))
    return (len(answers.sets) + len(answers.takes) - before) * _PLACE_BYTES + len(step.reply or b"")


def _places(answers: _Answers, container: str, entries: Iterable[Entry]) -> None:
    """Add the places that entries set, and those that they take from others."""
    for entry in entries:
        field, kind = entry.row.label, entry.row.kind
        if kind is Kind.RESET:
            answers.takes.update(OwnedField(container, name, "") for name in _RDT)
        elif kind in (Kind.MAP, Kind.KEYED):
            answers.takes.update(OwnedField(container, field, key) for key in entry.removed)
            answers.sets.update(OwnedField(container, field, key) for key in entry.sets)
        elif kind not in _NO_OWNER:
            place = OwnedField(container, field, "")
            if kind is Kind.ARGS and not entry.value[0]:
                answers.takes.add(place)
            answers.sets.add(place)


def _collide(plugins: dict[str, _Answers]) -> Iterator[tuple[OwnedField, str, str]]:
    """The places that a later plugin sets although an earlier one holds them: place, earlier, later."""
    holders: dict[OwnedField, str] = {}
    for name in sorted(plugins):
        answers = plugins[name]
        for place in answers.takes:
            holders.pop(place, None)
        for place in answers.sets:
            holder = holders.setdefault(place, name)
            if holder != name:
                yield place, holder, name
