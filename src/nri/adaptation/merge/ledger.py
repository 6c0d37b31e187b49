"""The owners of fields by container, for one event: claims, removals, and rollback.

The unit of ownership is a slot: a container, a field, and for a compound field the key of the entry in it. The owner of
a slot is stored as a string:

| the slot is | the string | claimed by the same plugin | claimed by another plugin |
|---|---|---|---|
| free | none | granted | granted |
| owned | ``NN-name`` | granted if `Rules.same_plugin_may_repeat`, else a conflict | a conflict |
| cleared by a removal | ``-NN-name`` | granted | granted if `Rules.removal_frees_key`, else a conflict |

Clearing is always granted, because a plugin takes a field over from another plugin by a removal. A field with many
owners (hooks) is never in conflict; its string has all owners, joined by commas.

Every change goes into a journal, for `rollback` and for provenance (`claims`).
"""

from __future__ import annotations

from itertools import repeat
from typing import NamedTuple

from nri.api import messages as m
from nri.api.fields import COMPOUND_FIELDS, FIELD_NAMES
from nri.errors import Conflict, ConflictError
from nri.rules import Rules


class Claim(NamedTuple):
    """A line of the journal.

    Attributes:
        container: the id of the container.
        field: the number of the API's `Field` enum.
        key: the entry within a compound field, else "".
        before: the owner before the change, "" for no owner.
        after: the owner after the change: ``NN-name``, ``-NN-name`` (cleared by), or several joined by commas (hooks).
    """

    container: str
    field: int
    key: str
    before: str
    after: str

    @property
    def cleared(self) -> bool:
        """Whether this line took the field from its owner without setting it."""
        return self.after.startswith("-")


class Ledger:
    """The owners of an event's fields."""

    __slots__ = ("_exact_keys", "_journal", "_may_repeat", "_owners", "_removal_frees_key")

    def __init__(self, rules: Rules) -> None:
        self._owners: dict[tuple[str, int, str], str] = {}
        self._journal: list[tuple[tuple[str, int, str], str]] = []
        self._removal_frees_key = rules.removal_frees_key
        self._may_repeat = rules.same_plugin_may_repeat
        self._exact_keys = not rules.conflict_keys_escaped

    def claim(self, container: str, field: int, key: str, plugin: str) -> bool:
        """Record `plugin` as the owner. Returns whether the slot was free. Raises ConflictError if it is owned."""
        slot = (container, field, key)
        holder = self._owners.get(slot, "")
        if holder:
            cleared = holder[0] == "-"
            other = holder[1:] if cleared else holder
            same = other == plugin
            if not (same or self._removal_frees_key if cleared else same and self._may_repeat):
                raise ConflictError(
                    Conflict(container, field, FIELD_NAMES[field], key, other, plugin, self._exact_keys)
                )
        self._owners[slot] = plugin
        self._journal.append((slot, holder))
        return not holder

    def claim_fresh(self, claims: list[tuple[str, int, str]], plugin: str) -> bool:
        """Record `plugin` as the owner of these slots, if all are free and no slot occurs twice.

        Returns False if nothing was recorded; the caller then claims one by one.
        """
        owners = self._owners
        if owners:  # a loop is faster than a set's method for the few claims of a reply
            for claim in claims:
                if claim in owners:
                    return False
        fresh = dict.fromkeys(claims, plugin)
        if len(fresh) != len(claims):
            return False
        if owners:
            owners.update(fresh)
        else:
            self._owners = fresh
        self._journal += zip(claims, repeat(""))
        return True

    def clear(self, container: str, field: int, key: str, plugin: str) -> None:
        """Record that `plugin` removed the field from its owner, if it had an owner."""
        self._set_owner((container, field, key), "-" + plugin)

    def accumulate(self, container: str, field: int, plugin: str) -> None:
        """Record another owner of a field that may have many."""
        slot = (container, field, "")
        old = self._owners.get(slot)
        self._set_owner(slot, f"{old},{plugin}" if old else plugin)

    def _set_owner(self, slot: tuple[str, int, str], owner: str) -> None:
        self._journal.append((slot, self._owners.get(slot, "")))
        self._owners[slot] = owner

    def mark(self) -> int:
        """A position in the journal, for `rollback`."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo all changes that were recorded since `mark`."""
        while len(self._journal) > mark:
            slot, before = self._journal.pop()
            if before:
                self._owners[slot] = before
            else:
                del self._owners[slot]

    def owner(self, container: str, field: int, key: str = "") -> str:
        """The owner of a slot as a string, "" for no owner."""
        return self._owners.get((container, field, key), "")

    def claims(self, since: int = 0) -> list[Claim]:
        """The lines of the journal since a mark, the oldest first."""
        lines: list[Claim] = []
        later: dict[tuple[str, int, str], str] = dict(self._owners)
        for slot, before in reversed(self._journal[since:]):
            lines.append(Claim(*slot, before, later[slot]))
            later[slot] = before
        lines.reverse()
        return lines

    def owned(self) -> list[tuple[str, int, str, str]]:
        """All slots: container, field, key and owner."""
        return [(*slot, owner) for slot, owner in self._owners.items()]

    def message(self) -> m.OwningPlugins:
        """All owners as a message for validators."""
        owning = m.OwningPlugins()
        for (container, field, key), owner in self._owners.items():
            owners = owning.owners[container]
            if field in COMPOUND_FIELDS:
                owners.compound[field].owners[key] = owner
            else:
                owners.simple[field] = owner
        return owning
