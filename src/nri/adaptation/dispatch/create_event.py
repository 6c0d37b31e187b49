"""CreateContainer on its way: the container with all adjustments so far in, one merged adjustment out, validated.

Next: `nri.adaptation.merge.create`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.bounds import ROOM
from nri.adaptation.dispatch.event import AnsweredEvent, Parts
from nri.adaptation.dispatch.event_reply import EventReply
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.peers.event_request import CreateRequest
from nri.adaptation.registration.kept_updates import report_left_out
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import PluginError
from nri.ttrpc.codes import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from nri.adaptation.audit.answer_order import EventOrder, FieldOrder
    from nri.adaptation.audit.restoration import Restoration
    from nri.adaptation.audit.update_result import UpdateResult
    from nri.adaptation.dispatch.event import EventContext
    from nri.adaptation.peers.peer import Peer

__all__ = ["CreateEvent", "CreateReply"]

_SPEC: Final = BY_METHOD["create_container"]


class CreateReply(EventReply):
    """The outcome of CreateContainer.

    Attributes:
        adjust: the merged adjustment; always there, perhaps empty.
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ("_kept", "_waiting", "adjust")

    _event = "CreateContainer"

    def __init__(
        self,
        merge: CreateMerge,
        context: EventContext,
        adjust: m.ContainerAdjustment,
        container_id: str,
        created: list[m.ContainerUpdate] | None,
        order: EventOrder,
    ) -> None:
        """`created`: updates of what was created meanwhile; None: what was being created waits for `commit`."""
        self.adjust = adjust
        self._kept = context.kept
        self._waiting = created is None and merge.book is not None
        book = merge.book
        updates = [] if book is None else [*book.updates(), *(created or ())]
        super().__init__(merge, context.trail, container_id, updates, [] if book is None else book.ignored, order)

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the container is created: its side updates stand.

        The update callback gets what plugins have asked for this container while it was being created, in this call.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        super().commit(results)
        self._kept.runtime_commits = True
        if self._waiting:
            self._waiting = False
            self._kept.of_creation(self._merge.book, self._event, self._order.by_plugin)
        if not self._trail.inventory.committed(self._container_id):
            self._kept.hand_over(self._container_id)

    def abort(self, restore: Callable[[list[Restoration]], object] | None = None) -> list[m.ContainerUpdate]:
        """Forget the container, which could not be created, and have the side updates undone, as `EventReply.abort`."""
        if self._waiting:
            self._waiting = False
            self._trail.dropped(self._event, self._merge.book.kept, self._order.by_plugin)
        self._trail.not_created(self._container_id)
        return super().abort(restore)

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


class CreateEvent(AnsweredEvent):
    """One container that is about to be created."""

    __slots__ = ("_container", "_pod", "_resources")

    reply_type: ClassVar[Any] = m.CreateContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, context: EventContext) -> None:
        merge = CreateMerge(Parts(pod, container), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(CreateRequest(_SPEC, pod, container, merge), merge, context)
        self._pod, self._container = pod, container
        self._resources: bytes | None = None
        context.trail.inventory.creating(container.id, pod.namespace)

    def refused(self) -> None:
        """Forget the container, whose creation has failed."""
        self._context.trail.inventory.not_created(self._container.id)

    def overlap(self) -> None:
        """Encode what the container had before, and sort earlier records: in the time that a plugin needs anyway."""
        if self._resources is None:
            self._resources = self._container.linux.resources.SerializeToString()
            provenance = self._context.trail.provenance
            if provenance is not None:
                provenance.tidy()

    def validation_request(self, present: Iterable[Peer], *, sent: bool) -> bytes:
        """The request that all validators get: the container as it was, the merged result, and who set what.

        PluginError, with the name of the plugin that asked for most, if it is to be sent and too long for a message.
        """
        reply = self.merge.reply()
        if self._context.rules.hooks_only_when_set and not reply.adjust.hooks.ListFields():
            reply.adjust.ClearField("hooks")
        message = m.ValidateContainerAdjustmentRequest(
            pod=self._pod,
            container=self._container,
            adjust=reply.adjust,
            update=reply.update,
            owners=self.merge.owners(),
            plugins=[m.PluginInstance(name=peer.name, index=peer.index) for peer in present],
        )
        normalise(message.container)
        encoded: bytes = message.SerializeToString()
        if sent and len(encoded) > ROOM and self._context.rules.event_replies_limited and self.replies:
            largest = max(self.replies, key=lambda reply: len(reply[1]))[0]
            reason = f"its reply to {self.rpc} makes the request to validators {len(encoded)} bytes long"
            raise PluginError(largest, f"{reason}, at most {ROOM} are sent", code=Code.RESOURCE_EXHAUSTED)
        return encoded

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.encoded_reply([reply for _, reply in self.replies])
        return encoded

    def result(self) -> CreateReply:
        """The merged adjustment, updates of other containers, and evictions."""
        resources = self._resources
        if resources is None:
            resources = self._container.linux.resources.SerializeToString()
        adjust = self.merge.adjust
        mine = adjust.linux.resources.SerializeToString()
        resources += mine
        context, container_id = self._context, self._container.id
        created: list[m.ContainerUpdate] | None = []
        book = self.merge.book
        if book is not None and self._context.kept.runtime_commits:
            report_left_out(book, self.rpc, self._context.reporting)
            created = None
        elif book is not None:
            created = self.side_updates()
        order = self.order()
        reply = CreateReply(self.merge, context, adjust, container_id, created, order)
        kept = context.kept
        begun: FieldOrder | tuple[bytes, int] | None = None
        if mine and self.replies:  # one plugin's nearly always: its number is all that is to be kept
            begun = (mine, self.numbers[self.replies[0][0]])
            if len(self.replies) > 1:
                begun = order.started(container_id, adjust.linux.resources)
        if context.trail.inventory.created(container_id, self._pod, resources, begun, uncommitted=kept.runtime_commits):
            kept.add(container_id)
        return reply
