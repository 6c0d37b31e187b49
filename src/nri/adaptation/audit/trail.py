"""The audit trail: which containers there are, and who changed what in them, as events tell it.

One object between the events and the records, so that an event stays free of them and a runtime that wants none pays
for none. Next: `nri.adaptation.audit.inventory`, `nri.adaptation.audit.provenance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.adaptation.audit.inventory import Inventory, Presence
from nri.adaptation.audit.update_result import APPLIED, Restoration, UpdateResult, results_of
from nri.adaptation.merge.update_book import NO_CONTAINER, UNKNOWN_CONTAINER, Eviction, Ignored
from nri.api import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nri.adaptation.audit.provenance import Provenance
    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.merge.update_book import UpdateBook

__all__ = ["AuditTrail"]


class AuditTrail:
    """Keeps records of events. Thread-safe.

    Args:
        update: the runtime's update callback, for undoing side updates.
        provenance: who changed what; None to keep no record of that.
    """

    def __init__(
        self,
        update: Callable[[list[m.ContainerUpdate]], Iterable[m.ContainerUpdate | UpdateResult] | None],
        provenance: Provenance | None,
    ) -> None:
        self.inventory = Inventory()
        self.provenance = provenance
        self._update = update

    def asked(
        self,
        what: str,
        plugin: str,
        encoded: bytes,
        updates: Sequence[m.ContainerUpdate],
        failed: Sequence[m.ContainerUpdate],
        results: Sequence[UpdateResult] = (),
    ) -> None:
        """Record that a plugin asked for updates outside of an event: `what` is UpdateContainers or Synchronize."""
        unapplied = {update.container_id for update in failed}
        touched: dict[str, list[m.LinuxResources]] = {}
        for update in updates:
            if update.container_id not in unapplied:
                touched.setdefault(update.container_id, []).append(update.linux.resources)
        for container_id, resources in touched.items():
            self.inventory.updated(container_id, *resources)
        if self.provenance is not None:
            self.provenance.record(what, "", b"", [(plugin, encoded)], tuple(touched), outcomes=_rows(results))

    def outcomes(self, event: str, results: Sequence[UpdateResult]) -> None:
        """Record what became of the updates of an event, as the runtime says."""
        rows = _rows(results)
        if self.provenance is not None and rows:
            self.provenance.record(event, "", b"", (), {row[0] for row in rows}, outcomes=rows)

    def refused(
        self, what: str, plugin: str, encoded: bytes, updates: Sequence[m.ContainerUpdate], reason: str
    ) -> None:
        """Record that a plugin asked for updates outside of an event and that none was applied."""
        if self.provenance is not None:
            touched = {update.container_id for update in updates}
            self.provenance.record(what, "", b"", [(plugin, encoded)], touched, reason)

    def side_updates(
        self, book: UpdateBook, event: str, numbers: Mapping[str, int], reporting: Reporting
    ) -> list[m.ContainerUpdate]:
        """Keep what answers want of containers that are only being created, and report what is left out.

        Returns the updates of those that have been created in the meantime. To be called once for an event.

        Args:
            event: RPC name.
            numbers: of each plugin's answer, for the order in which updates are kept.
        """
        created = []
        for plugin, update in book.kept:
            presence = self.inventory.keep_update(plugin, update, event, numbers.get(plugin, 0))
            if presence is Presence.KNOWN:
                created.append(update)
            elif presence is Presence.GONE:
                book.ignored.append(Ignored(plugin, update.container_id, "", UNKNOWN_CONTAINER))
        for plugin, eviction in book.kept_evictions:
            presence = self.inventory.keep_eviction(plugin, eviction)
            if presence is Presence.KNOWN:
                book.evictions.append(Eviction(plugin, eviction.container_id, eviction.reason))
            elif presence is Presence.GONE:
                book.ignored.append(Ignored(plugin, eviction.container_id, "evict", UNKNOWN_CONTAINER))
        for each in book.ignored:
            if each.reason in (NO_CONTAINER, UNKNOWN_CONTAINER):
                reporting.left_out(each.plugin, event, each.container_id)
        return created

    def pod_removed(self, pod: m.PodSandbox) -> None:
        """Forget a pod that is gone, and its containers."""
        for container_id in self.inventory.pod_removed(pod.id):
            self._forget(container_id)

    def not_created(self, container_id: str) -> None:
        """Forget a container that the runtime could not create."""
        self.inventory.removed(container_id)
        self._forget(container_id)

    def container_removed(self, container: m.Container) -> None:
        """Forget a container that is gone."""
        self.inventory.removed(container.id)
        self._forget(container.id)

    def _forget(self, container_id: str) -> None:
        if self.provenance is not None:
            self.provenance.forget(container_id)

    def updated(self, updates: Sequence[m.ContainerUpdate]) -> list[Restoration]:
        """Note that containers are being updated; returns what would take that back, where it is known."""
        back = []
        for update in updates:
            earlier = self.inventory.resources_of(update.container_id)
            if earlier is not None:
                back.append(Restoration.of(update, earlier))
            self.inventory.updated(update.container_id, update.linux.resources)
        return back

    def undo(
        self, back: list[Restoration], restore: Callable[[list[Restoration]], object] | None = None
    ) -> list[m.ContainerUpdate]:
        """Have containers given back what they had, by `restore` or the update callback; returns what failed there."""
        for each in back:
            self.inventory.restored(each.container_id, each.resources)
        if restore is not None:
            restore(back)
            return []
        updates = [each.as_update() for each in back]
        return results_of(updates, self._update(updates))[0]


def _rows(results: Sequence[UpdateResult]) -> list[tuple[str, str, str, str]]:
    """Container, field, outcome and reason of every field that is not as it was asked for."""
    return [
        (result.update.container_id, row.field, row.outcome, row.reason)
        for result in results
        for row in result.fields
        if row.outcome != APPLIED
    ]
