"""The reply to an event, as the runtime gets it: `EventReply`, the common part of the replies of all kinds of events.

Next: `nri.adaptation.dispatch.create_event`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.audit.update_result import Restoration, UpdateResult
    from nri.adaptation.merge.update_book import Ignored
    from nri.api import messages as m

__all__ = ["EventReply"]


class EventReply:
    """The common part of all replies: owners, and the two ways in which the runtime's request ends.

    Attributes:
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.

    If the runtime fails to create its container after it has updated others, `abort` hands the update callback what
    those had before; `commit` forgets that. Calling neither is harmless.
    """

    __slots__ = ("_merge", "_numbers", "_order", "_side", "_trail", "ignored", "updates")

    _event = ""

    def __init__(
        self,
        merge: Any,
        trail: AuditTrail,
        updates: list[m.ContainerUpdate],
        ignored: list[Ignored],
        numbers: Mapping[str, int],
    ) -> None:
        self._merge = merge
        self._trail = trail
        self._numbers = numbers
        self._order: dict[str, int] | None = None
        self.updates = updates
        self.ignored = ignored
        self._side = trail.updated(updates) if updates else []

    @property
    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set, of the event's container and of those updated along with it."""
        owners: m.OwningPlugins = self._merge.owners()
        return owners

    def order_of(self, update: m.ContainerUpdate) -> int:
        """The place of an update in time, as a number: of two replies the one with the greater number is later.

        Replies to requests that run side by side may be carried out in another order than plugins gave them. A runtime
        that keeps the number with each field that it changes can leave out what is older than what it has done.
        0: no plugin asked for anything.
        """
        if self._order is None:
            asked = self._merge.ledger.plugins()
            self._order = {key: min(self._numbers.get(each, 0) for each in plugins) for key, plugins in asked.items()}
        return self._order.get(update.container_id, 0)

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the runtime's request went well: its side updates stand.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        self._side = []
        if results:
            self._trail.outcomes(self._event, results)

    def abort(self, restore: Callable[[list[Restoration]], object] | None = None) -> list[m.ContainerUpdate]:
        """Have the side updates undone, because the runtime's request failed.

        The update callback gets what the containers had before, with values for "not set" where kernels have one (no
        limit, 1024 shares). What it could not apply is returned.

        Args:
            restore: called instead of the update callback: it gets the same as `Restoration`, which also names the
                fields that were not set before.
        """
        side, self._side = self._side, []
        return self._trail.undo(side, restore) if side else []
