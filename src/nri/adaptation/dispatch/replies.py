"""What an event gives back to the runtime: the merged result, who set what, and the way back for side updates.

`updates` are what the runtime applies to other containers. If the runtime then fails to create its container, `abort`
hands the update callback what those containers had before; `commit` forgets that. Calling neither is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api import messages as m

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from nri.adaptation.audit.inventory import ContainerRecord
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.audit.update_result import UpdateResult
    from nri.adaptation.merge import CreateMerge, Ignored, StopMerge, UpdateMerge

__all__ = ["CreateReply", "StopReply", "UpdateReply"]


class _Reply:
    """What all replies share: owners, and the two ways in which the runtime's request ends."""

    __slots__ = ("_merge", "_side", "_trail", "ignored", "updates")

    _event = ""

    def __init__(self, merge: Any, trail: AuditTrail, updates: list[m.ContainerUpdate], ignored: list[Ignored]) -> None:
        self._merge = merge
        self._trail = trail
        self.updates = updates
        self.ignored = ignored
        self._side = trail.updated(updates) if updates else []

    @property
    def owners(self) -> m.OwningPlugins:
        """Which plugin set which field, of the event's container and of those updated along with it."""
        owners: m.OwningPlugins = self._merge.owners()
        return owners

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """The runtime's request went well: its side updates stand.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        self._side = []
        if results:
            self._trail.outcomes(self._event, results)

    def abort(self) -> list[m.ContainerUpdate]:
        """The runtime's request failed: have the side updates undone.

        The update callback gets what the containers had before; what it could not apply is returned.
        """
        side, self._side = self._side, []
        return self._trail.undo(side) if side else []


class CreateReply(_Reply):
    """The outcome of CreateContainer.

    Attributes:
        adjust: the merged adjustment; always there, perhaps empty.
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ("adjust",)

    _event = "CreateContainer"

    def __init__(self, merge: CreateMerge, trail: AuditTrail, container_id: str, record: ContainerRecord) -> None:
        self.adjust: m.ContainerAdjustment = merge.adjust
        trail.inventory.created(container_id, record, self.adjust)
        super().__init__(merge, trail, merge.updates, merge.ignored)

    @property
    def evictions(self) -> list[m.ContainerEviction]:
        """Containers that plugins want gone, as messages."""
        return [
            m.ContainerEviction(container_id=each.container_id, reason=each.reason) for each in self._merge.evictions
        ]

    @property
    def container(self) -> m.Container:
        """The container with the adjustment in it, as a further plugin would be shown it. Do not change it."""
        container: m.Container = self._merge.container
        return container


class UpdateReply(_Reply):
    """The outcome of UpdateContainer.

    Attributes:
        resources: what the container is to have: the request with all changes; the request itself if there are none.
        changed: whether a plugin changed it.
        updates: updates of other containers, for the runtime to apply.
        evictions: containers that plugins want gone.
        ignored: what plugins asked for and did not get, with reasons.
        message: the reply as the reference gives it: the requested container's update is the last one.
    """

    __slots__ = ("changed", "evictions", "message", "resources")

    _event = "UpdateContainer"

    def __init__(
        self,
        merge: UpdateMerge,
        trail: AuditTrail,
        container_id: str,
        requested: m.LinuxResources,
    ) -> None:
        reply = merge.reply()
        *others, mine = reply.update
        self.changed = bool(mine.container_id)
        self.resources: m.LinuxResources = mine.linux.resources if self.changed else requested
        trail.inventory.updated(container_id, self.resources)
        super().__init__(merge, trail, others, merge.book.ignored)
        self.evictions: list[m.ContainerEviction] = list(reply.evict)
        self.message = reply


class StopReply(_Reply):
    """The outcome of StopContainer: `updates` of other containers, for the runtime to apply."""

    __slots__ = ()

    _event = "StopContainer"

    def __init__(self, merge: StopMerge, trail: AuditTrail) -> None:
        super().__init__(merge, trail, list(merge.reply().update), merge.book.ignored)
