"""The order of plugins' answers, field by field: a plugin's later word wins, whatever threads do in between.

An answer, or a request that a plugin sends by itself, gets its number where it is read from the plugin's connection
(`nri.ttrpc.waiters.ARRIVALS`), and keeps it. Threads may carry words out in another order than they came: so each
update goes to the runtime with the numbers of its fields, and a runtime keeps the number of each field that it has set:

    order = FieldOrder()                                         # one for each container

    def update(updates):                                         # the callback, and for a reply's `updates`
        for update in updates:
            result, numbers = UpdateResult(update), updates.numbers(update)
            with the_container's_lock:
                wanted = order.newest(update.linux.resources, numbers, result)
                ...                                              # put `wanted` into force; say in `result` what failed
                order.note(result, numbers)

Of two plugins on one field of a container, the later one in that order counts as well. Next:
`nri.adaptation.containers.update_result`, whose names of fields these are.
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

__all__ = [
    "OVERTAKEN",
    "RUNTIME_REQUEST",
    "EventOrder",
    "FieldOrder",
    "Numbers",
    "OrderedUpdates",
    "creation_answer",
    "no_updates",
    "without",
]

#: Stands for the runtime's own request where numbers of answers are kept by the plugin's label.
RUNTIME_REQUEST: Final = ""

#: Why a field of an update is left alone.
OVERTAKEN = "a later answer of a plugin has set it"

_PREFIX = "linux.resources."
_NAMES = {row.claim: row.path.removeprefix(_PREFIX) for row in ROWS if row.in_resources and row.claim}


class Numbers:
    """The numbers of one update's fields; what they mean is for `FieldOrder` alone.

    Args:
        number: that of all fields which `fields` does not name.
        fields: numbers by name of the field.
        over: likewise, where an answer is taken back: the number of that one, which gives way to what was before it.
    """

    __slots__ = ("_fields", "_number", "_over")

    def __init__(
        self, number: int, fields: Mapping[str, int] | None = None, over: Mapping[str, int] | None = None
    ) -> None:
        self._number, self._fields, self._over = number, fields or {}, over or {}

    def of(self, field: str) -> int:
        """The number of the answer that a field is from."""
        return self._fields.get(field, self._number)

    def reach(self, field: str) -> int:
        """The greatest number of an answer over which the field is set."""
        return self._over[field] if field in self._over else self.of(field)

    @property
    def undone(self) -> Mapping[str, int]:
        """By field the number of an answer that was taken back."""
        return self._over

    def __repr__(self) -> str:
        return f"Numbers({self._number}, {dict(self._fields)}, {dict(self._over)})"


def creation_answer(encoded: bytes) -> m.CreateContainerResponse:
    """An answer to CreateContainer, read as the event has read it: its adjustment by itself, if there is nothing else.

    The decoder refuses around a message what it takes by itself: lengths with idle bytes, and one level more.
    """
    adjust = sole_field(encoded, 1)
    if adjust is None:
        return m.CreateContainerResponse.FromString(encoded)
    answer = m.CreateContainerResponse()
    answer.adjust.ParseFromString(adjust)
    return answer


class FieldOrder:
    """The answers by which the fields of one container were set last. To be used under the lock of the container.

    Args:
        numbers: of the answers to its creation (`CreateReply.numbers`), with
        resources: what these set.
    """

    __slots__ = ("_last",)

    def __init__(self, resources: m.LinuxResources | None = None, numbers: Numbers | None = None) -> None:
        self._last: dict[str, int] = {}
        if resources is not None and numbers is not None:
            self.set(field_names(resources), numbers)

    @classmethod
    def of_creation(cls, answers: Iterable[tuple[bytes, int]]) -> Self:
        """The order with which a container begins: of the answers to its creation, encoded, with their numbers.

        No two plugins have set the same resource: that is a conflict.
        """
        order = cls()
        for encoded, number in answers:
            order.set(field_names(creation_answer(encoded).adjust.linux.resources), Numbers(number))
        return order

    def copy(self) -> Self:
        """Another one with the same numbers."""
        made = type(self)()
        made._last = dict(self._last)
        return made

    def last(self, field: str) -> int:
        """The number of the answer that has set a field; 0 if none has."""
        return self._last.get(field, 0)

    def newest(
        self, wanted: m.LinuxResources, numbers: Numbers, result: UpdateResult | None = None
    ) -> m.LinuxResources:
        """The resources without those that a later answer has set, of which `result` then says so. Do not change them.

        Args:
            wanted: those of an update; it is not changed.
            numbers: those of the update: `OrderedUpdates.numbers`, or `UpdateReply.numbers` for the container itself.
        """
        overtaken = [
            field for field in (field_names(wanted) if self._last else ()) if self.last(field) > numbers.reach(field)
        ]
        if not overtaken:
            return wanted
        if result is not None:
            result.mark_stale(OVERTAKEN, *overtaken)
        return without(wanted, overtaken)

    def note(self, result: UpdateResult, numbers: Numbers) -> None:
        """Note that fields are set, as the result says: those that were applied or clamped."""
        self.set((row.field for row in result.fields if row.outcome in (APPLIED, CLAMPED)), numbers)

    def set(self, fields: Iterable[str], numbers: Numbers) -> None:
        """Note that fields are set, by their names."""
        for field in fields:
            if self.last(field) <= numbers.reach(field):
                self._last[field] = numbers.of(field)


class EventOrder:
    """The order of the fields that one event's answers set: each has the number of its owner's answer.

    Args:
        ledger: the owners of the event's fields.
        numbers: of the answers, by the plugin's label; by RUNTIME_REQUEST that of the first one, for what no plugin has
            set.
    """

    __slots__ = ("_by_plugin", "_ledger")

    def __init__(self, ledger: Ledger, numbers: Mapping[str, int]) -> None:
        self._ledger, self._by_plugin = ledger, numbers

    def of(self, container_id: str) -> Numbers:
        """The numbers of one container's fields."""
        return self.by_container([container_id])[container_id]

    def by_container(self, containers: Iterable[str]) -> dict[str, Numbers]:
        """The numbers of the fields of some containers, in time linear in what the event has set."""
        found: dict[str, dict[str, int]] = {each: {} for each in containers}
        by_plugin = self._by_plugin
        for container_id, claim, key, owner in self._ledger.owned():
            name = _NAMES.get(claim)
            if name is not None and container_id in found and owner in by_plugin:
                found[container_id][f"{name}[{key}]" if key else name] = by_plugin[owner]
        return {each: Numbers(by_plugin[RUNTIME_REQUEST], fields) for each, fields in found.items()}


class OrderedUpdates(list[m.ContainerUpdate]):
    """Updates for the runtime to apply, and for each its place in the order of answers."""

    # What `no_updates` makes has these.
    _numbers: Numbers | None = None
    _by_container: Mapping[str, Numbers] | None = None

    def __init__(
        self,
        updates: Iterable[m.ContainerUpdate] = (),
        numbers: Numbers | None = None,
        by_container: Mapping[str, Numbers] | None = None,
    ) -> None:
        super().__init__(updates)
        self._numbers, self._by_container = numbers, by_container

    def numbers(self, update: m.ContainerUpdate) -> Numbers:
        """The numbers of an update's fields, for `FieldOrder`."""
        return (self._by_container or {}).get(update.container_id) or self._numbers or Numbers(0)

    def only(self, update: m.ContainerUpdate) -> OrderedUpdates:
        """One of the updates by itself, with its numbers: for runtimes that pass each one on to where it belongs."""
        return OrderedUpdates([update], self.numbers(update))


#: An empty one, as most events have: made without a call of its initializer.
no_updates = partial(OrderedUpdates.__new__, OrderedUpdates)


def without(resources: m.LinuxResources, fields: Iterable[str]) -> m.LinuxResources:
    """Resources without some fields, named as in a result: `memory.limit`, `unified[x]`, `hugepage_limits[2MB]`."""
    made = m.LinuxResources()
    made.CopyFrom(resources)
    pages: set[str] = set()
    for field in fields:
        path, _, key = field.partition("[")
        *parents, last = path.split(".")
        message: Any = made
        for each in parents:
            message = getattr(message, each)
        if not key:
            message.ClearField(last)
        elif last == "hugepage_limits":
            pages.add(key[:-1])
        else:
            getattr(message, last).pop(key[:-1], None)
    if pages:
        stay = [row for row in made.hugepage_limits if row.page_size not in pages]
        del made.hugepage_limits[:]
        made.hugepage_limits.extend(stay)
    return made
