"""CreateContainer on its way: the container with all adjustments so far in, one merged adjustment out, validated.

Next: `nri.adaptation.merge.create`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.event import AnsweredEvent, EventReply, Parts
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.peers.event_request import CreateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.peers.peer import Peer
    from nri.rules import Rules

__all__ = ["CreateEvent", "CreateReply"]

_SPEC: Final = BY_METHOD["create_container"]


class CreateReply(EventReply):
    """The outcome of CreateContainer.

    Attributes:
        adjust: the merged adjustment; always there, perhaps empty.
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ("adjust",)

    _event = "CreateContainer"

    def __init__(self, merge: CreateMerge, trail: AuditTrail, adjust: m.ContainerAdjustment) -> None:
        self.adjust = adjust
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


class CreateEvent(AnsweredEvent):
    """One container that is about to be created."""

    __slots__ = ("_container", "_pod", "_resources")

    reply_type: ClassVar[Any] = m.CreateContainerResponse

    def __init__(
        self, pod: m.PodSandbox, container: m.Container, rules: Rules, trail: AuditTrail, reporting: Reporting
    ) -> None:
        merge = CreateMerge(Parts(pod, container), rules, trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(CreateRequest(_SPEC, pod, container, merge), merge, trail, reporting)
        self._pod, self._container = pod, container
        self._resources: bytes | None = None

    def overlap(self) -> None:
        """Encode what the container had before, and sort earlier records: in the time that a plugin needs anyway."""
        if self._resources is None:
            self._resources = self._container.linux.resources.SerializeToString()
            provenance = self._trail.provenance
            if provenance is not None:
                provenance.tidy()

    def validation_request(self, present: Iterable[Peer]) -> bytes:
        """The request that all validators get: the container as it was, the merged result, and who set what."""
        reply = self.merge.reply()
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
        return encoded

    def result(self) -> CreateReply:
        """The merged adjustment, updates of other containers, and evictions."""
        resources = self._resources
        if resources is None:
            resources = self._container.linux.resources.SerializeToString()
        adjust = self.merge.adjust
        resources += adjust.linux.resources.SerializeToString()
        self._trail.inventory.created(self._container.id, self._pod, resources)
        return CreateReply(self.merge, self._trail, adjust)
