"""The audit trail: the live containers and the history of their changes, behind one interface for events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.adaptation.audit.record import TAKEN_BACK
from nri.adaptation.containers.answer_order import OrderedUpdates, SequenceNumbers
from nri.adaptation.containers.inventory import Inventory
from nri.adaptation.containers.restoration import Restoration, as_updates
from nri.adaptation.containers.update_result import (
    APPLIED,
    CLAMPED,
    REFUSED,
    UNSUPPORTED,
    UpdateResult,
    field_names,
    results_of,
)
from nri.api import messages as m

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nri.adaptation.audit.provenance import Provenance


class AuditTrail:
    """Records events. Thread-safe.

    Args:
        update: the runtime's update callback, for undoing side updates.
        provenance: the histories; with None, nothing is recorded.
    """

    def __init__(
        self,
        update: Callable[[OrderedUpdates], Iterable[m.ContainerUpdate | UpdateResult] | None],
        provenance: Provenance | None,
    ) -> None:
        self.inventory = Inventory()
        self.provenance = provenance
        self.update = update

    def apply(
        self, what: str, plugin: str, encoded: bytes, updates: Sequence[m.ContainerUpdate], numbers: SequenceNumbers
    ) -> list[m.ContainerUpdate]:
        """Give the runtime a plugin's updates outside of an event, and record them. Returns the failed updates.

        Args:
            what: UpdateContainers or Synchronize.
            plugin: the plugin's label.
            encoded: the plugin's message.
            updates: the updates in the message.
            numbers: the sequence numbers of the updates.
        """
        # Recorded before the runtime gets them, so that an update that is undone meanwhile does not override them.
        by = object()
        for update in updates:
            self.inventory.updated(update.container_id, update.linux.resources, numbers, by)
        try:
            failed, results = results_of(updates, self.update(OrderedUpdates(updates, numbers)))
        except BaseException:
            for update in updates:
                self.inventory.take_back(update.container_id, by)
            raise
        self._settle_updates(updates, by, results)
        if self.provenance is not None:
            touched = dict.fromkeys(result.update.container_id for result in results if self._is_history(result))
            self.provenance.record(
                what, "", b"", [(plugin, encoded)], tuple(touched), outcomes=_rows(results), numbers={plugin: numbers}
            )
        return failed

    def committed(
        self, event: str, updates: Sequence[m.ContainerUpdate], by: object, results: Sequence[UpdateResult]
    ) -> None:
        """Record that the updates of an event are final, with their results from the runtime.

        Raises:
            TypeError: a result has another type; nothing is recorded.
        """
        for result in results:
            if not isinstance(result, UpdateResult):
                raise TypeError(f"commit(): each result must be an UpdateResult, not {type(result).__name__}")
        self._settle_updates(updates, by, results)
        rows = _rows(results)
        if self.provenance is not None and rows:
            self.provenance.record(event, "", b"", (), {row[0] for row in rows}, outcomes=rows)

    def _is_history(self, result: UpdateResult) -> bool:
        """Whether an update's result belongs to a history: a field was applied, or the container exists."""
        is_applied = any(row.outcome in (APPLIED, CLAMPED) for row in result.fields)
        return is_applied or result.update.container_id in self.inventory.known

    def _settle_updates(
        self, updates: Sequence[m.ContainerUpdate], by: object, results: Sequence[UpdateResult]
    ) -> None:
        failed: dict[str, list[str]] = {}
        for result in results:
            fields = [row.field for row in result.fields if row.outcome in (UNSUPPORTED, REFUSED)]
            failed.setdefault(result.update.container_id, []).extend(fields)
        for container_id in {update.container_id for update in updates}:
            self.inventory.settle(container_id, by, failed.get(container_id, ()))

    def refused(
        self, what: str, plugin: str, encoded: bytes, updates: Sequence[m.ContainerUpdate], reason: str
    ) -> None:
        """Record that a plugin's updates outside of an event were refused."""
        if self.provenance is not None:
            touched = {update.container_id for update in updates}
            self.provenance.record(what, "", b"", [(plugin, encoded)], touched, reason)

    def pod_removed(self, pod: m.PodSandbox) -> None:
        """Forget a removed pod and its containers."""
        for container_id in self.inventory.pod_removed(pod.id):
            self._forget_container(container_id)

    def not_created(self, container_id: str, reason: str = "") -> None:
        """Forget a container that the runtime failed to create. With a `reason`, its history is kept."""
        self.inventory.removed(container_id)
        if reason and self.provenance is not None:
            self.provenance.not_created(container_id, reason)
        else:
            self._forget_container(container_id)

    def container_removed(self, container: m.Container) -> None:
        """Forget a removed container."""
        self.inventory.removed(container.id)
        self._forget_container(container.id)

    def _forget_container(self, container_id: str) -> None:
        if self.provenance is not None:
            self.provenance.forget(container_id)

    def updated(self, updates: OrderedUpdates, by: object) -> None:
        """Record updates of an event, until `committed` or `undo`."""
        for update in updates:
            self.inventory.updated(update.container_id, update.linux.resources, updates.numbers(update), by)

    def undo(
        self,
        event: str,
        updates: Sequence[m.ContainerUpdate],
        by: object,
        restore: Callable[[list[Restoration]], object] | None = None,
    ) -> list[m.ContainerUpdate]:
        """Undo the updates of an event, with `restore` or the update callback. Returns the updates that failed.

        A container gets its earlier resources, or the resources of a newer answer.
        """
        failed: list[m.ContainerUpdate] = []
        containers = dict.fromkeys(update.container_id for update in updates)
        restorations = [old for id_ in containers if (old := self.inventory.take_back(id_, by)) is not None]
        self._record_undo(event, restorations)
        restorations = [old for old in restorations if old.restored or old.unset]
        while restorations:
            if restore is not None:
                restore(restorations)
            else:
                restoring_updates = as_updates(restorations)
                failed += results_of(restoring_updates, self.update(restoring_updates))[0]
            restorations = [
                restoration for old in restorations if (restoration := self.inventory.follow_up(old)) is not None
            ]
        return failed

    def dropped(self, event: str, updates: Iterable[tuple[str, m.ContainerUpdate]], numbers: Mapping[str, int]) -> None:
        """Record that updates are dropped which waited for the commit of an event.

        Args:
            event: the RPC name.
            updates: pairs of plugin and update.
            numbers: the sequence numbers of the plugins' answers.
        """
        if self.provenance is not None:
            for plugin, update in updates:
                over = dict.fromkeys(field_names(update.linux.resources), numbers[plugin])
                numbers_by_plugin = {TAKEN_BACK: SequenceNumbers(0, over=over)}
                self.provenance.record(event, "", b"", (), (update.container_id,), numbers=numbers_by_plugin)

    def _record_undo(self, event: str, restorations: list[Restoration]) -> None:
        """Record that an event's updates of containers are undone."""
        if self.provenance is not None:
            for restoration in restorations:
                self.provenance.record(
                    event, "", b"", (), (restoration.container_id,), numbers={TAKEN_BACK: restoration.numbers}
                )


def _rows(results: Sequence[UpdateResult]) -> list[tuple[str, str, str, str]]:
    """Container, field, outcome and reason of every field that was not applied as requested."""
    return [
        (result.update.container_id, row.field, row.outcome, row.reason)
        for result in results
        for row in result.fields
        if row.outcome != APPLIED
    ]
