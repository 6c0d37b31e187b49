"""What is remembered of events beside their outcome: the inventory, provenance, the answers of shadow plugins.

One object between the pipeline and those who keep records, so that the pipeline stays free of them and a runtime that wants
none pays for none. Next: `nri.adaptation.inventory`, `nri.adaptation.provenance`, `nri.adaptation.shadow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.adaptation.inventory import Inventory
from nri.api import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.peer import Peer
    from nri.adaptation.question import Question

__all__ = ["Recorder"]


class Recorder:
    """Keeps records of events. Thread-safe.

    Args:
        update: the runtime's update callback, for undoing side updates.
    """

    def __init__(self, update: Callable[[list[m.ContainerUpdate]], list[m.ContainerUpdate]]) -> None:
        self.inventory = Inventory()
        self._update = update

    def before(self, state: Any) -> int:
        """Where the ledger stands before a plugin's reply is merged."""
        return 0

    def took(self, peer: Peer, question: Question, state: Any, reply: Any, before: int) -> None:
        """A plugin's reply was merged."""

    def shadow(self, peer: Peer, question: Question, state: Any, reply: Any) -> None:
        """A shadow plugin answered; nothing of it is merged."""

    def pod_removed(self, pod: m.PodSandbox) -> None:
        """A pod is gone."""
        self.inventory.pod_removed(pod.id)

    def container_removed(self, container: m.Container) -> None:
        """A container is gone."""
        self.inventory.removed(container.id)

    def before_update(self, update: m.ContainerUpdate) -> m.ContainerUpdate | None:
        """The update that takes back what `update` changes; None if what was before is not known."""
        earlier = self.inventory.resources_of(update.container_id)
        if earlier is None:
            return None
        undo = m.ContainerUpdate(container_id=update.container_id, ignore_failure=True)
        undo.linux.resources.CopyFrom(earlier)
        return undo

    def undo(self, updates: list[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        """Have containers given back what they had; returns what could not be applied."""
        for update in updates:
            self.inventory.updated(update.container_id, update.linux.resources)
        return self._update(updates)
