"""UpdateContainer on its way: the requested resources with all changes so far in, the merged ones out.

Next: `nri.adaptation.merge.update`, which says what the answers mean together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nri.adaptation.dispatch.event import AnsweredEvent, Parts
from nri.adaptation.dispatch.replies import UpdateReply
from nri.adaptation.merge import UpdateMerge
from nri.adaptation.peers.event_request import UpdateRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.rules import Rules

__all__ = ["UpdateEvent"]

_SPEC: Final = BY_METHOD["update_container"]


class UpdateEvent(AnsweredEvent):
    """One container whose resources are about to change."""

    __slots__ = ("_container_id", "_requested")

    reply_type: ClassVar[Any] = m.UpdateContainerResponse

    def __init__(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        resources: m.LinuxResources,
        rules: Rules,
        trail: AuditTrail,
        reporting: Reporting,
    ) -> None:
        known = trail.inventory.known()
        merge = UpdateMerge(Parts(pod, container, resources), rules, known)  # type: ignore[arg-type]
        super().__init__(UpdateRequest(_SPEC, pod, container, merge), merge, trail, reporting)
        self._container_id = container.id
        self._requested = resources

    def result(self) -> UpdateReply:
        """The resources that the container is to have, updates of other containers, and evictions."""
        return UpdateReply(self.merge, self._trail, self._container_id, self._requested)
