"""The audit trail: which containers there are, and who changed what in them, as events tell it.

One object between the events and the records, so that an event stays free of them and a runtime that wants none pays
for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.adaptation.audit.record import TAKEN_BACK
from nri.adaptation.containers.answer_order import Numbers, OrderedUpdates
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

__all__ = ["AuditTrail"]


class AuditTrail:
    """Keeps records of events. Thread-safe.

    Args:
        update: the runtime's update callback, for undoing side updates.
        provenance: who changed what; None to keep no record of that.
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
        self, what: str, plugin: str, encoded: bytes, updates: Sequence[m.ContainerUpdate], numbers: Numbers
    ) -> list[m.ContainerUpdate]:
        """Hand updates that a plugin asked for outside of an event to the runtime, and record them; returns the failed.

        Args:
            what: UpdateContainers or Synchronize.
            plugin: who asked.
            encoded: the message with them.
            updates: what is asked for.
            numbers: their place in the order of answers.
        """
        # Noted before the runtime has them: what is taken back meanwhile gives way to them.
        by = object()
        for update in updates:
            self.inventory.updated(update.container_id, update.linux.resources, numbers, by)
        try:
            failed, results = results_of(updates, self.update(OrderedUpdates(updates, numbers)))
        except BaseException:
            for update in updates:
                self.inventory.take_back(update.container_id, by)
            raise
        self._settle(updates, by, results)
        if self.provenance is not None:
            touched = dict.fromkeys(each.update.container_id for each in results if self._is_history(each))
            self.provenance.record(
                what, "", b"", [(plugin, encoded)], tuple(touched), outcomes=_rows(results), numbers={plugin: numbers}
            )
        return failed

    def committed(
        self, event: str, updates: Sequence[m.ContainerUpdate], by: object, results: Sequence[UpdateResult]
    ) -> None:
        """Note that the updates of an event hold, and what became of them, as the runtime says.

        Raises:
            TypeError: a result is something else; nothing is noted.
        """
        for each in results:
            if not isinstance(each, UpdateResult):
                raise TypeError(f"commit() takes UpdateResults, of updates in `updates`, not {type(each).__name__}")
        self._settle(updates, by, results)
        rows = _rows(results)
        if self.provenance is not None and rows:
            self.provenance.record(event, "", b"", (), {row[0] for row in rows}, outcomes=rows)

    def _is_history(self, result: UpdateResult) -> bool:
        """Whether the result of an update is part of its container's history: something was done, or it is there."""
        done = any(row.outcome in (APPLIED, CLAMPED) for row in result.fields)
        return done or result.update.container_id in self.inventory.known

    def _settle(self, updates: Sequence[m.ContainerUpdate], by: object, results: Sequence[UpdateResult]) -> None:
        failed: dict[str, list[str]] = {}
        for result in results:
            fields = [row.field for row in result.fields if row.outcome in (UNSUPPORTED, REFUSED)]
            failed.setdefault(result.update.container_id, []).extend(fields)
        for container_id in {update.container_id for update in updates}:
            self.inventory.settle(container_id, by, failed.get(container_id, ()))

    def refused(
        self, what: str, plugin: str, encoded: bytes, updates: Sequence[m.ContainerUpdate], reason: str
    ) -> None:
        """Record that a plugin asked for updates outside of an event and that none was applied."""
        if self.provenance is not None:
            touched = {update.container_id for update in updates}
            self.provenance.record(what, "", b"", [(plugin, encoded)], touched, reason)

    def pod_removed(self, pod: m.PodSandbox) -> None:
        """Forget a pod that is gone, and its containers."""
        for container_id in self.inventory.pod_removed(pod.id):
            self._forget(container_id)

    def not_created(self, container_id: str, reason: str = "") -> None:
        """Forget a container that the runtime could not create, but for its history if there is a reason to tell."""
        self.inventory.removed(container_id)
        if reason and self.provenance is not None:
            self.provenance.not_created(container_id, reason)
        else:
            self._forget(container_id)

    def container_removed(self, container: m.Container) -> None:
        """Forget a container that is gone."""
        self.inventory.removed(container.id)
        self._forget(container.id)

    def _forget(self, container_id: str) -> None:
        if self.provenance is not None:
            self.provenance.forget(container_id)

    def updated(self, updates: OrderedUpdates, by: object) -> None:
        """Note that containers are being updated by an event, which `committed` or `undo` ends."""
        for update in updates:
            self.inventory.updated(update.container_id, update.linux.resources, updates.numbers(update), by)

    def undo(
        self,
        event: str,
        updates: Sequence[m.ContainerUpdate],
        by: object,
        restore: Callable[[list[Restoration]], object] | None = None,
    ) -> list[m.ContainerUpdate]:
        """Have the updates of an event taken back, by `restore` or the update callback; returns what failed there.

        Where another answer is newer than what was before, that is what a container gets.
        """
        failed: list[m.ContainerUpdate] = []
        containers = dict.fromkeys(update.container_id for update in updates)
        back = [found for each in containers if (found := self.inventory.take_back(each, by)) is not None]
        self._taken_back(event, back)
        back = [each for each in back if each.restored or each.unset]
        while back:
            if restore is not None:
                restore(back)
            else:
                wanted = as_updates(back)
                failed += results_of(wanted, self.update(wanted))[0]
            back = [late for each in back if (late := self.inventory.come_late(each)) is not None]
        return failed

    def dropped(self, event: str, updates: Iterable[tuple[str, m.ContainerUpdate]], numbers: Mapping[str, int]) -> None:
        """Record that updates by plugins, which waited until the event's request has gone well, never come.

        Args:
            event: RPC name.
            updates: what waited, with the plugin.
            numbers: of the plugins' answers.
        """
        if self.provenance is not None:
            for plugin, update in updates:
                over = dict.fromkeys(field_names(update.linux.resources), numbers[plugin])
                taken = {TAKEN_BACK: Numbers(0, over=over)}
                self.provenance.record(event, "", b"", (), (update.container_id,), numbers=taken)

    def _taken_back(self, event: str, back: list[Restoration]) -> None:
        """Record that what an event gave containers is taken back."""
        if self.provenance is not None:
            for each in back:
                self.provenance.record(event, "", b"", (), (each.container_id,), numbers={TAKEN_BACK: each.numbers})


def _rows(results: Sequence[UpdateResult]) -> list[tuple[str, str, str, str]]:
    """Container, field, outcome and reason of every field that is not as it was asked for."""
    return [
        (result.update.container_id, row.field, row.outcome, row.reason)
        for result in results
        for row in result.fields
        if row.outcome != APPLIED
    ]
