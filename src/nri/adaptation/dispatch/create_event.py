"""CreateContainer on its way: the container with all adjustments so far in, one merged adjustment out, validated.

Next: `nri.adaptation.merge.create`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.event import AnsweredEvent, Parts
from nri.adaptation.dispatch.replies import CreateReply
from nri.adaptation.merge import CreateMerge
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.peers.event_request import CreateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from nri.adaptation.audit.inventory import ContainerRecord
    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.peers.peer import Peer
    from nri.rules import Rules

__all__ = ["CreateEvent"]

_SPEC: Final = BY_METHOD["create_container"]


class CreateEvent(AnsweredEvent):
    """One container that is about to be created."""

    __slots__ = ("_container", "_pod", "_record")

    reply_type: ClassVar[Any] = m.CreateContainerResponse

    def __init__(
        self, pod: m.PodSandbox, container: m.Container, rules: Rules, trail: AuditTrail, reporting: Reporting
    ) -> None:
        merge = CreateMerge(Parts(pod, container), rules, trail.inventory.known())  # type: ignore[arg-type]
        super().__init__(CreateRequest(_SPEC, pod, container, merge), merge, trail, reporting)
        self._pod, self._container = pod, container
        self._record: ContainerRecord | None = None

    def overlap(self) -> None:
        """Note what is known of the container, and sort earlier records: in the time that a plugin needs anyway."""
        if self._record is None:
            self._record = self._trail.inventory.record_of(self._pod, self._container)
            self._trail.tidy()

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
        record = self._record or self._trail.inventory.record_of(self._pod, self._container)
        return CreateReply(self.merge, self._trail, self._container.id, record)
