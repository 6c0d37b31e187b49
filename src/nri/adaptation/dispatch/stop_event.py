"""StopContainer on its way: the container that stops in, updates of other containers out.

Next: `nri.adaptation.merge.update`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.event import AnsweredEvent, Parts
from nri.adaptation.dispatch.event_reply import EventReply
from nri.adaptation.merge import StopMerge
from nri.adaptation.peers.event_request import EventRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.audit.answer_order import EventOrder
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.dispatch.event import EventContext

__all__ = ["StopEvent", "StopReply"]

_SPEC: Final = BY_METHOD["stop_container"]


class StopReply(EventReply):
    """The outcome of StopContainer.

    Attributes:
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ()

    _event = "StopContainer"

    def __init__(
        self,
        merge: StopMerge,
        trail: AuditTrail,
        container_id: str,
        created: list[m.ContainerUpdate],
        order: EventOrder,
    ) -> None:
        super().__init__(merge, trail, container_id, [*merge.reply().update, *created], merge.book.ignored, order)


class StopEvent(AnsweredEvent):
    """One container that has stopped, or is about to."""

    __slots__ = ("_container_id",)

    reply_type: ClassVar[Any] = m.StopContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, context: EventContext) -> None:
        merge = StopMerge(Parts(pod, container), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(EventRequest(_SPEC, pod, container), merge, context)
        self._container_id = container.id

    def record(self, failed: str = "") -> None:
        """Keep a record, unless no plugin was asked: the stop itself changes nothing."""
        if self.asked is not None:
            super().record(failed)

    def result(self) -> StopReply:
        """Updates of other containers."""
        created = self.side_updates()
        return StopReply(self.merge, self._context.trail, self._container_id, created, self.order())
