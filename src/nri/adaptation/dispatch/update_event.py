"""UpdateContainer on its way: the requested resources with all changes so far in, the merged ones out.

Next: `nri.adaptation.merge.update`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.event import AnsweredEvent, Parts
from nri.adaptation.dispatch.event_reply import EventReply
from nri.adaptation.merge import UpdateMerge
from nri.adaptation.peers.event_request import UpdateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.audit.answer_order import EventOrder
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.dispatch.event import EventContext

__all__ = ["UpdateEvent", "UpdateReply"]

_SPEC: Final = BY_METHOD["update_container"]


class UpdateReply(EventReply):
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
        created: list[m.ContainerUpdate],
        order: EventOrder,
    ) -> None:
        reply = merge.reply()
        *others, mine = reply.update
        self.changed = bool(mine.container_id)
        self.resources: m.LinuxResources = mine.linux.resources if self.changed else requested
        trail.inventory.updated(container_id, self.resources, order.of(container_id))
        if created:
            del reply.update[-1]
            reply.update.extend([*created, mine])
        super().__init__(merge, trail, container_id, [*others, *created], merge.book.ignored, order)
        self.evictions: list[m.ContainerEviction] = list(reply.evict)
        self.message = reply


class UpdateEvent(AnsweredEvent):
    """One container whose resources are about to change."""

    __slots__ = ("_container_id", "_requested")

    reply_type: ClassVar[Any] = m.UpdateContainerResponse

    def __init__(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        resources: m.LinuxResources,
        context: EventContext,
    ) -> None:
        merge = UpdateMerge(Parts(pod, container, resources), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(UpdateRequest(_SPEC, pod, container, merge), merge, context)
        self._container_id = container.id
        self._requested = resources

    def result(self) -> UpdateReply:
        """The resources that the container is to have, updates of other containers, and evictions."""
        created = self.side_updates()
        trail, order = self._context.trail, self.order()
        return UpdateReply(self.merge, trail, self._container_id, self._requested, created, order)
