"""Claim the fields of a reply, with a function for each kind of field. Only the ledger changes.

Each function returns whether the entry is mergeable: no plugin has set it before, and it has no removal mark, so that
merging the messages gives the right result. `claim` raises ConflictError at the first field that another plugin owns;
the caller then rolls the ledger back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.adaptation.merge.entries import Entry
from nri.adaptation.merge.ledger import Ledger
from nri.api.fields import ROWS, Kind
from nri.api.removal import split
from nri.errors import PluginError
from nri.rules import Rules
from nri.text import plain

_RDT_CLAIMS = tuple(row.claim for row in ROWS if row.path.startswith("linux.rdt.") and row.claim)


class Claimer:
    """Claims entries for a plugin on a container.

    Attributes:
        merged: the adjustment merged so far, with the list entries that a removal can clear; None for updates.
    """

    __slots__ = ("container", "ledger", "merged", "plugin", "rules")

    def __init__(self, ledger: Ledger, rules: Rules, container: str, plugin: str, merged: Any = None) -> None:
        self.ledger, self.rules, self.container, self.plugin, self.merged = ledger, rules, container, plugin, merged

    def claim(self, entries: list[Entry]) -> bool:
        """Claim entries. Returns whether all are mergeable.

        Raises ConflictError, or PluginError if a removal mark is meaningless.
        """
        all_mergeable = True
        for entry in entries:
            if not _BY_KIND[entry.row.kind](self, entry):
                all_mergeable = False
        return all_mergeable

    def _claim_simple(self, entry: Entry) -> bool:
        return self.ledger.claim(self.container, entry.row.claim, "", self.plugin)

    def _keys(self, entry: Entry) -> bool:
        """Claim the keys of a map or list."""
        ledger, container, field, plugin = self.ledger, self.container, entry.row.claim, self.plugin
        if entry.marked:
            return self._marked_keys(entry)
        if not entry.row.removable and self.rules.literal_marks_refused:
            self._refuse_marks(entry)
        all_mergeable = True
        for key in entry.keys:
            if not ledger.claim(container, field, key, plugin):
                all_mergeable = False
        return all_mergeable

    def _marked_keys(self, entry: Entry) -> bool:
        """Claim the keys of an entry that also removes keys. Removals apply first, at any position in the reply."""
        ledger, container, field, plugin = self.ledger, self.container, entry.row.claim, self.plugin
        keys = [split(key) for key in entry.keys]
        # The Go library counts a removal of these keys as a claim.
        if entry.row.removal_claims and not self.rules.removal_frees_key:
            for key, _ in keys:
                ledger.claim(container, field, key, plugin)
            return True
        for key in self._cleared_keys(entry):
            ledger.clear(container, field, key, plugin)
        for key, removed in keys:
            if not removed:
                ledger.claim(container, field, key, plugin)
        return False

    def _cleared_keys(self, entry: Entry) -> list[str]:
        """The removed keys whose owner is cleared."""
        if self.rules.removal_frees_key:
            return list(entry.removed)
        if entry.row.kind is Kind.MAP:
            return [key for key in entry.removed if key in entry.sets]
        row = entry.row
        collected = [getattr(element, row.key) for element in getattr(row.parent(self.merged), row.name)]
        return [key for key in collected if key in entry.removed]

    def _refuse_marks(self, entry: Entry) -> None:
        for key in entry.keys:
            if key[:1] == "-":
                raise PluginError(
                    self.plugin, f"cannot remove {plain(key[1:])}: {entry.row.path} does not support removal"
                )

    def _args(self, entry: Entry) -> bool:
        ledger, field = self.ledger, entry.row.claim
        if entry.value[0]:
            return ledger.claim(self.container, field, "", self.plugin)
        ledger.clear(self.container, field, "", self.plugin)
        if len(entry.value) > 1 or not self.rules.args_reset_shows_original:
            ledger.claim(self.container, field, "", self.plugin)
        return False

    def _reset(self, _entry: Entry) -> bool:
        for field in _RDT_CLAIMS:
            self.ledger.clear(self.container, field, "", self.plugin)
        return False

    def _accumulated(self, entry: Entry) -> bool:
        if entry.value.ListFields():
            self.ledger.accumulate(self.container, entry.row.claim, self.plugin)
        return True

    def _list(self, _entry: Entry) -> bool:
        return True


_METHODS: dict[Kind, Callable[[Claimer, Entry], bool]] = {
    Kind.SIMPLE: Claimer._claim_simple,
    Kind.MAP: Claimer._keys,
    Kind.KEYED: Claimer._keys,
    Kind.LIST: Claimer._list,
    Kind.ACCUMULATED: Claimer._accumulated,
    Kind.ARGS: Claimer._args,
    Kind.RESET: Claimer._reset,
}
_BY_KIND = [_METHODS[kind] for kind in Kind]
