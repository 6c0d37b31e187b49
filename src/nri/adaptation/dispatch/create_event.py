"""CreateContainer on its way: the container with all adjustments so far in, one merged adjustment out, validated.

Next: `nri.adaptation.merge.create`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.bounds import ROOM
from nri.adaptation.dispatch.event import AnsweredEvent
from nri.adaptation.dispatch.event_context import Parts
from nri.adaptation.dispatch.event_reply import EventReply
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.peers.event_request import CreateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import PluginError
from nri.ttrpc.codes import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Final

    from nri.adaptation.audit.update_result import Restoration, UpdateResult
    from nri.adaptation.dispatch.event_context import EventContext
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

    __slots__ = ("_container_id", "_kept", "adjust")

    _event = "CreateContainer"

    def __init__(
        self,
        merge: CreateMerge,
        context: EventContext,
        adjust: m.ContainerAdjustment,
        container_id: str,
        numbers: Mapping[str, int],
    ) -> None:
        self.adjust = adjust
        self._container_id = container_id
        self._kept = context.kept
        book = merge.book
        if book is None:  # nearly always: there is nothing to be undone
            self._merge, self._trail = merge, context.trail
            self._numbers, self._order = numbers, {}
            self.updates, self.ignored, self._side = [], [], []
        else:
            super().__init__(merge, context.trail, book.updates(), book.ignored, numbers)

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the container is created: its side updates stand.

        The update callback gets what plugins have asked for this container while it was being created, in this call.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        if results or self._side:
            super().commit(results)
        self._kept.runtime_commits = True
        if not self._trail.inventory.committed(self._container_id):
            self._kept.hand_over(self._container_id)

    def abort(self, restore: Callable[[list[Restoration]], object] | None = None) -> list[m.ContainerUpdate]:
        """Forget the container, which could not be created, and have the side updates undone, as `EventReply.abort`."""
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
        resources += adjust.linux.resources.SerializeToString()
        context, container_id = self._context, self._container.id
        reply = CreateReply(self.merge, context, adjust, container_id, self.numbers)
        book = self.merge.book
        if book is not None:
            reply.updates += self._context.trail.side_updates(book, self.rpc, self.numbers, self._context.reporting)
        kept = context.kept
        if context.trail.inventory.created(container_id, self._pod, resources, uncommitted=kept.runtime_commits):
            kept.add(container_id)
        return reply
