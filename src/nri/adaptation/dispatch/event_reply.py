"""The reply to an event, as the runtime gets it: `EventReply`, the common part of the replies of all kinds of events.

Next: `nri.adaptation.dispatch.create_event`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.adaptation.audit.answer_order import OrderedUpdates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adaptation.audit.answer_order import EventOrder, Numbers
    from nri.adaptation.audit.restoration import Restoration
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.audit.update_result import UpdateResult
    from nri.adaptation.merge.update_book import Ignored
    from nri.api import messages as m

__all__ = ["EventReply"]


class EventReply:
    """The common part of all replies: owners, and the two ways in which the runtime's request ends.

    Attributes:
        updates: updates of other containers, for the runtime to apply, with their places in the order of answers.
        ignored: what plugins asked for and did not get, with reasons.

    If the runtime fails to create its container after it has updated others, `abort` hands the update callback what
    those had before; `commit` forgets that. Calling neither is harmless.
    """

    __slots__ = ("_container_id", "_merge", "_open", "_order", "_trail", "ignored", "updates")

    _event = ""

    def __init__(
        self,
        merge: Any,
        trail: AuditTrail,
        container_id: str,
        updates: list[m.ContainerUpdate],
        ignored: list[Ignored],
        order: EventOrder,
    ) -> None:
        self._merge = merge
        self._trail = trail
        self._container_id = container_id
        self._order = order
        self.ignored = ignored
        self._open = bool(updates)
        if updates:
            self.updates = OrderedUpdates(updates, None, order.by_container(update.container_id for update in updates))
            trail.updated(self.updates, self)
        else:
            self.updates = OrderedUpdates()

    @property
    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set, of the event's container and of those updated along with it."""
        owners: m.OwningPlugins = self._merge.owners()
        return owners

    @property
    def numbers(self) -> Numbers:
        """The places of the event's own container's resources in the order of answers, for its `FieldOrder`.

        What no plugin has set, but the runtime's own request, counts as older than all answers to that.
        """
        return self._order.of(self._container_id)

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the runtime's request went well: its side updates stand.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        if self._open or results:
            self._open = False
            self._trail.committed(self._event, self.updates, self, results)

    def abort(self, restore: Callable[[list[Restoration]], object] | None = None) -> list[m.ContainerUpdate]:
        """Have the side updates undone, because the runtime's request failed.

        The update callback gets what the containers had before, or what a later answer has set since, with values for
        "not set" where kernels have one (no limit, 1024 shares). What it could not apply is returned.

        Args:
            restore: called instead of the update callback: it gets the same as `Restoration`, which also names the
                fields that were not set before.
        """
        still_open, self._open = self._open, False
        return self._trail.undo(self._event, self.updates, self, restore) if still_open else []
