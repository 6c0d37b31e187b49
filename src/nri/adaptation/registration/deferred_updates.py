"""Hand over deferred updates: updates that waited until their container was created.

Events overlap: while container A is being created, a plugin that makes room for container B may also shrink A. A cannot
be updated yet, so the update is deferred (`nri.adaptation.containers.inventory`), and given to the runtime's update
callback as soon as A exists:

- when the runtime calls `commit()` of A's reply: in that call. If a runtime has ever called `commit()`, or declared
that it will, a container counts as being created until that call, however long it takes;
- otherwise with the next event of A (PostCreateContainer in most runtimes), in a separate thread, because the caller of
an event may hold locks that the callback needs;
- otherwise after `SETTLE_S`, in the same thread; after `FORGOTTEN_S` if the runtime calls `commit()`.

Each field keeps the number of its answer, so a later answer wins in whichever order the threads run. If A's creation is
refused or aborted, its updates are dropped. If the runtime calls `commit()`, updates of A by the creation of B are
deferred only in the commit of B, so that an aborted creation changes nothing in A.
"""

from __future__ import annotations

import heapq
import logging
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.containers.answer_order import SequenceNumbers
from nri.adaptation.containers.inventory import DeferredUpdate, Presence
from nri.adaptation.merge.side_updates import NO_CONTAINER, UNKNOWN_CONTAINER, Eviction, IgnoredRequest
from nri.api import messages as m
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.merge.side_updates import SideUpdates

    Evict = Callable[[list[m.ContainerEviction]], object]

log = logging.getLogger("nri.adaptation")

#: A created container may be without `commit()` and without an event for this long, in seconds.
SETTLE_S = 0.25
#: The same limit for a runtime that calls `commit()`. It is longer than any image pull, so the call was forgotten.
FORGOTTEN_S = 1800.0
#: How long the thread waits for work before it ends, in seconds.
IDLE_S = 5.0


class DeferredUpdates:
    """Hands over the deferred updates of created containers, in a thread if necessary. Thread-safe.

    Args:
        trail: has the inventory with deferred updates, and gives updates to the runtime.
        evict: the runtime's callback.
        commits: whether the runtime calls `commit()` of every reply.

    Attributes:
        waiting: ids of created containers with deferred updates, and the latest time of their handover in monotonic
            seconds. Usually empty, so events can check it.
        runtime_commits: whether the runtime calls `commit()`. If so, a container is not known before the call.
    """

    def __init__(self, trail: AuditTrail, evict: Evict | None, *, commits: bool = False) -> None:
        self._trail = trail
        self._evict = evict
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self.worker: threading.Thread | None = None  # the name `_thread` would be a keyword of C when this is compiled
        self._stopped = False
        self.waiting: dict[str, float] = {}
        self._due: list[
            tuple[float, str]
        ] = []  # a heap of the same entries by time, which may contain finished entries
        self.runtime_commits = commits

    def defer_for_event(
        self, side: SideUpdates, event: str, numbers: Mapping[str, int], reporting: Reporting
    ) -> list[m.ContainerUpdate]:
        """Defer an event's updates of containers that are being created, and report ignored updates.

        Returns the updates of containers that have been created in the meantime. Call it once for an event.

        Args:
            side: the event's updates.
            event: the RPC name.
            numbers: the sequence number of each plugin's answer.
            reporting: gets the ignored updates.
        """
        created = []
        for plugin, update in side.deferred:
            presence = self.defer_update(plugin, update, event, numbers[plugin])
            if presence is Presence.KNOWN:
                created.append(update)
            elif presence is Presence.GONE:
                side.ignored.append(IgnoredRequest(plugin, update.container_id, "", UNKNOWN_CONTAINER))
        for plugin, eviction in side.deferred_evictions:
            presence = self.defer_eviction(plugin, eviction)
            if presence is Presence.KNOWN:
                side.evictions.append(Eviction(plugin, eviction.container_id, eviction.reason))
            elif presence is Presence.GONE:
                side.ignored.append(IgnoredRequest(plugin, eviction.container_id, "evict", UNKNOWN_CONTAINER))
        report_left_out(side, event, reporting)
        return created

    def defer_for_creation(self, container_id: str, side: SideUpdates, event: str, numbers: Mapping[str, int]) -> None:
        """Defer a successful creation's updates of other containers that are being created.

        Containers that exist by now are updated, or evicted, in this call.
        """
        existing = [
            (plugin, DeferredUpdate(update, event, SequenceNumbers(numbers[plugin])))
            for plugin, update in side.deferred
            if self.defer_update(plugin, update, event, numbers[plugin]) is Presence.KNOWN
        ]
        evictions = [
            eviction
            for plugin, eviction in side.deferred_evictions
            if self.defer_eviction(plugin, eviction) is Presence.KNOWN
        ]
        self._hand_over_all(container_id, existing, evictions)

    def defer_update(self, plugin: str, update: m.ContainerUpdate, event: str, number: int) -> Presence:
        """Defer an update if its container is being created, and schedule its handover.

        See `Inventory.defer_update`.
        """
        presence = self._trail.inventory.defer_update(plugin, update, event, number)
        if presence is Presence.CREATED:
            self.add(update.container_id)
        return presence

    def defer_eviction(self, plugin: str, eviction: m.ContainerEviction) -> Presence:
        """Defer an eviction if its container is being created, and schedule its handover."""
        presence = self._trail.inventory.defer_eviction(plugin, eviction)
        if presence is Presence.CREATED:
            self.add(eviction.container_id)
        return presence

    def add(self, container_id: str) -> None:
        """Schedule the handover of a created container's updates."""
        if container_id not in self.waiting:
            self._schedule(container_id, monotonic() + (FORGOTTEN_S if self.runtime_commits else SETTLE_S))

    def hand_over_soon(self, container_id: str) -> None:
        """Hand over a container's updates at once, in the thread: an event shows that the container exists."""
        if container_id in self.waiting:
            self._schedule(container_id, monotonic())

    def hand_over(self, container_id: str) -> None:
        """Hand over a container's updates in this thread, unless another thread does it."""
        self.waiting.pop(container_id, None)
        continued = False
        while (creation := self._trail.inventory.take_deferred(container_id, continued=continued)) is not None:
            continued = True
            reasons = creation.evictions.values()
            evictions = [m.ContainerEviction(container_id=container_id, reason=why) for why in reasons]
            self._hand_over_all(container_id, creation.updates.items(), evictions)

    def _hand_over_all(
        self, container_id: str, updates: Iterable[tuple[str, DeferredUpdate]], evictions: list[m.ContainerEviction]
    ) -> None:
        """Give the runtime all deferred updates and evictions of a container, whatever its callbacks raise."""
        works: list[Callable[[], object]] = [partial(self._apply, plugin, deferred) for plugin, deferred in updates]
        if evictions and self._evict is not None:
            works.append(partial(self._evict, evictions))
        for work in works:
            try:
                work()
            except Exception:  # the requests of other plugins must still be handed over
                log.exception("the runtime failed to apply deferred updates of container %s", container_id)

    def _apply(self, plugin: str, deferred: DeferredUpdate) -> None:
        encoded = m.UpdateContainersRequest(update=[deferred.update]).SerializeToString()
        for failed in self._trail.apply("UpdateContainers", plugin, encoded, [deferred.update], deferred.numbers):
            log.warning(
                "plugin %s: deferred update of container %s failed; it was requested in %s during the creation",
                plugin, plain(failed.container_id, 128), deferred.event,
            )  # fmt: skip

    def stop(self) -> None:
        """End the thread and drop deferred updates."""
        with self._lock:
            self._stopped = True
            self.waiting.clear()
            self._due.clear()
            self._work.notify_all()

    def _schedule(self, container_id: str, when: float) -> None:
        with self._lock:
            if self._stopped:
                return
            self.waiting[container_id] = when
            heapq.heappush(self._due, (when, container_id))
            if self.worker is None:
                worker = threading.Thread(target=self._run, name="nri-deferred-updates", daemon=True)
                try:
                    worker.start()
                except RuntimeError:
                    return  # no thread could be started: the container's next event tries again
                self.worker = worker
            self._work.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                due = self._next_due_container()
                if due is None:
                    self.worker = None
                    return
            try:
                self.hand_over(due)
            except Exception:  # the thread must survive for other containers
                log.exception("failed to hand over deferred updates of container %s", due)

    def _next_due_container(self) -> str | None:
        """The next container that is due. Returns None if there was nothing to do for a while. Needs the lock."""
        due = self._due
        while not self._stopped:
            while due and self.waiting.get(due[0][1]) != due[0][0]:
                heapq.heappop(due)  # already handed over, or due at an earlier time
            if not due:
                if not self._work.wait(IDLE_S) and not due:
                    return None
                continue
            remaining_s = due[0][0] - monotonic()
            if remaining_s <= 0:
                return heapq.heappop(due)[1]
            self._work.wait(remaining_s)
        return None


def report_left_out(side: SideUpdates, event: str, reporting: Reporting) -> None:
    """Report the ignored updates and evictions of an event that name unknown containers."""
    for entry in side.ignored:
        if entry.reason in (NO_CONTAINER, UNKNOWN_CONTAINER):
            reporting.left_out(entry.plugin, event, entry.container_id)
