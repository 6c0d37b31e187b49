"""The order of plugins' answers, field by field: a plugin's later answer wins, whichever thread processes it first.

Each answer, and each request that a plugin sends by itself, gets a sequence number when it is read from the plugin's
connection (`nri.ttrpc.waiters.ARRIVALS`). Threads may process answers in another order, so each update reaches the
runtime with the sequence numbers of its fields, and the runtime stores the number of each field that it has set:

    order = FieldOrder()                                         # one for each container

    def update(updates):                                         # the callback, and for a reply's `updates`
        for update in updates:
            result, numbers = UpdateResult(update), updates.numbers(update)
            with the_container's_lock:
                newest = order.newest(update.linux.resources, numbers, result)
                ...                                              # apply `newest`; record failures in `result`
                order.note(result, numbers)

The same order decides between two plugins that set the same field of a container: the later answer wins.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from nri.adaptation.containers.update_result import APPLIED, CLAMPED, field_names
from nri.api import messages as m
from nri.api.fields import ROWS
from nri.wire import sole_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final, Self

    from nri.adaptation.containers.update_result import UpdateResult
    from nri.adaptation.merge.ledger import Ledger

#: The key of the runtime's own request where sequence numbers are stored by the plugin's label.
RUNTIME_REQUEST: Final = ""

#: The reason for a stale field.
OVERTAKEN = "a later answer of a plugin has set it"

_PREFIX = "linux.resources."
_NAMES = {row.claim: row.path.removeprefix(_PREFIX) for row in ROWS if row.in_resources and row.claim}


class SequenceNumbers:
    """The sequence numbers of an update's fields: for each field, the number of the answer that set it.

    Only `FieldOrder` interprets them.

    Args:
        number: the number for all fields that `fields` does not name.
        fields: numbers by field name.
        over: when an answer is undone, its number by field name: older answers replace it.
    """

    __slots__ = ("_fields", "_number", "_undone_numbers")

    def __init__(
        self, number: int, fields: Mapping[str, int] | None = None, over: Mapping[str, int] | None = None
    ) -> None:
        self._number, self._fields, self._undone_numbers = number, fields or {}, over or {}

    def number(self, field: str) -> int:
        """The sequence number of the answer that set a field."""
        return self._fields.get(field, self._number)

    def greatest_overridden(self, field: str) -> int:
        """The greatest sequence number among the answers that this answer overrides."""
        return self._undone_numbers[field] if field in self._undone_numbers else self.number(field)

    @property
    def undone(self) -> Mapping[str, int]:
        """The sequence numbers of undone answers, by field name."""
        return self._undone_numbers

    def __repr__(self) -> str:
        return f"SequenceNumbers({self._number}, {dict(self._fields)}, {dict(self._undone_numbers)})"


def creation_answer(encoded: bytes) -> m.CreateContainerResponse:
    """Decode an answer to CreateContainer as the event does: as an adjustment if it has nothing else.

    The decoder accepts more in a separate adjustment than in a whole answer: lengths with unnecessary bytes, and one
    more level of nesting.
    """
    adjust = sole_field(encoded, 1)
    if adjust is None:
        return m.CreateContainerResponse.FromString(encoded)
    answer = m.CreateContainerResponse()
    answer.adjust.ParseFromString(adjust)
    return answer


class FieldOrder:
    """The latest answer of each field of one container. Use it under the container's lock.

    Args:
        resources: the resources that the answers to the container's creation set.
        numbers: the sequence numbers of these answers (`CreateReply.numbers`).
    """

    __slots__ = ("_last_numbers",)

    def __init__(self, resources: m.LinuxResources | None = None, numbers: SequenceNumbers | None = None) -> None:
        self._last_numbers: dict[str, int] = {}
        if resources is not None and numbers is not None:
            self.set(field_names(resources), numbers)

    @classmethod
    def of_creation(cls, answers: Iterable[tuple[bytes, int]]) -> Self:
        """The initial order of a container, from the encoded answers to its creation and their sequence numbers.

        No two plugins have set the same resource, because that is a conflict.
        """
        order = cls()
        for encoded, number in answers:
            order.set(field_names(creation_answer(encoded).adjust.linux.resources), SequenceNumbers(number))
        return order

    def copy(self) -> Self:
        """Return a copy."""
        copy = type(self)()
        copy._last_numbers = dict(self._last_numbers)
        return copy

    def last(self, field: str) -> int:
        """The sequence number of the latest answer that set a field; 0 if no answer has set it."""
        return self._last_numbers.get(field, 0)

    def newest(
        self, resources: m.LinuxResources, numbers: SequenceNumbers, result: UpdateResult | None = None
    ) -> m.LinuxResources:
        """The resources without the fields that a later answer has set, which `result` marks as stale.

        The caller must not change the returned message.

        Args:
            resources: the resources of an update; not changed.
            numbers: `OrderedUpdates.numbers` of the update, or `UpdateReply.numbers` for the event's own container.
        """
        overtaken = [
            field
            for field in (field_names(resources) if self._last_numbers else ())
            if self.last(field) > numbers.greatest_overridden(field)
        ]
        if not overtaken:
            return resources
        if result is not None:
            result.mark_stale(OVERTAKEN, *overtaken)
        return without(resources, overtaken)

    def note(self, result: UpdateResult, numbers: SequenceNumbers) -> None:
        """Record the fields that were applied or clamped."""
        self.set((row.field for row in result.fields if row.outcome in (APPLIED, CLAMPED)), numbers)

    def set(self, fields: Iterable[str], numbers: SequenceNumbers) -> None:
        """Record that fields are set, by name."""
        for field in fields:
            if self.last(field) <= numbers.greatest_overridden(field):
                self._last_numbers[field] = numbers.number(field)


class EventOrder:
    """The order of the fields that an event's answers set: each field has the sequence number of its owner's answer.

    Args:
        ledger: the owners of the event's fields.
        numbers: the sequence numbers of the answers by the plugin's label. The key RUNTIME_REQUEST has the number of
            the first answer, for fields that no plugin set.
    """

    __slots__ = ("_by_plugin", "_ledger")

    def __init__(self, ledger: Ledger, numbers: Mapping[str, int]) -> None:
        self._ledger, self._by_plugin = ledger, numbers

    def container_numbers(self, container_id: str) -> SequenceNumbers:
        """The sequence numbers of a container's fields."""
        return self.by_container([container_id])[container_id]

    def by_container(self, containers: Iterable[str]) -> dict[str, SequenceNumbers]:
        """The sequence numbers of the fields of some containers, in time linear in the number of fields."""
        fields_by_id: dict[str, dict[str, int]] = {id_: {} for id_ in containers}
        by_plugin = self._by_plugin
        for container_id, claim, key, owner in self._ledger.owned():
            name = _NAMES.get(claim)
            if name is not None and container_id in fields_by_id and owner in by_plugin:
                fields_by_id[container_id][f"{name}[{key}]" if key else name] = by_plugin[owner]
        return {id_: SequenceNumbers(by_plugin[RUNTIME_REQUEST], fields) for id_, fields in fields_by_id.items()}


class OrderedUpdates(list[m.ContainerUpdate]):
    """Updates for the runtime to apply, with the sequence numbers of their fields."""

    # The values in lists that `no_updates` creates.
    _numbers: SequenceNumbers | None = None
    _by_container: Mapping[str, SequenceNumbers] | None = None

    def __init__(
        self,
        updates: Iterable[m.ContainerUpdate] = (),
        numbers: SequenceNumbers | None = None,
        by_container: Mapping[str, SequenceNumbers] | None = None,
    ) -> None:
        super().__init__(updates)
        self._numbers, self._by_container = numbers, by_container

    def numbers(self, update: m.ContainerUpdate) -> SequenceNumbers:
        """The sequence numbers of an update's fields, for `FieldOrder`."""
        return (self._by_container or {}).get(update.container_id) or self._numbers or SequenceNumbers(0)

    def only(self, update: m.ContainerUpdate) -> OrderedUpdates:
        """A list with only this update and its sequence numbers, for runtimes that pass updates on one by one."""
        return OrderedUpdates([update], self.numbers(update))


#: An empty list, as most events have, created without a call of its initializer.
no_updates = partial(OrderedUpdates.__new__, OrderedUpdates)


def without(resources: m.LinuxResources, fields: Iterable[str]) -> m.LinuxResources:
    """Copy resources without some fields, for example `memory.limit`, `unified[x]`, `hugepage_limits[2MB]`."""
    reduced = m.LinuxResources()
    reduced.CopyFrom(resources)
    pages: set[str] = set()
    for field in fields:
        path, _, key = field.partition("[")
        *parents, last = path.split(".")
        message: Any = reduced
        for parent in parents:
            message = getattr(message, parent)
        if not key:
            message.ClearField(last)
        elif last == "hugepage_limits":
            pages.add(key[:-1])
        else:
            getattr(message, last).pop(key[:-1], None)
    if pages:
        remaining = [row for row in reduced.hugepage_limits if row.page_size not in pages]
        del reduced.hugepage_limits[:]
        reduced.hugepage_limits.extend(remaining)
    return reduced
