"""StopContainer on its way: the container that stops in, updates of other containers out.

Next: `nri.adaptation.merge.update`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.event import AnsweredEvent
from nri.adaptation.dispatch.event_context import Parts
from nri.adaptation.dispatch.event_reply import EventReply
from nri.adaptation.merge import StopMerge
from nri.adaptation.peers.event_request import EventRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.dispatch.event_context import EventContext

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
        self, merge: StopMerge, trail: AuditTrail, created: list[m.ContainerUpdate], numbers: Mapping[str, int]
    ) -> None:
        super().__init__(merge, trail, [*merge.reply().update, *created], merge.book.ignored, numbers)


class StopEvent(AnsweredEvent):
    """One container that has stopped, or is about to."""

    __slots__ = ()

    reply_type: ClassVar[Any] = m.StopContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, context: EventContext) -> None:
        merge = StopMerge(Parts(pod, container), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(EventRequest(_SPEC, pod, container), merge, context)

    def record(self, failed: str = "") -> None:
        """Keep a record, unless no plugin was asked: the stop itself changes nothing."""
        if self.asked is not None:
            super().record(failed)

    def result(self) -> StopReply:
        """Updates of other containers."""
        return StopReply(
            self.merge,
            self._context.trail,
            self._context.trail.side_updates(self.merge.book, self.rpc, self.numbers, self._context.reporting),
            self.numbers,
        )
