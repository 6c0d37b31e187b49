"""Hand over the updates that waited until their container was created.

Events overlap: while container A is being created, a plugin that makes room for container B may shrink A's share, too.
A is not there to be updated, and must not be missed either. So its update is kept
(`nri.adaptation.containers.inventory`), and given to the runtime's update callback as soon as A is there:

- when the runtime calls `commit()` of A's reply: in that call. A runtime that has ever done so, or said that it will,
  is taken at its word: a container is being created until that call, however long that takes, so no reply names one
  that the runtime has not made;
- else with the next event of A (PostCreateContainer in most runtimes), in a thread of its own, because the caller of an
  event may hold locks that the callback wants;
- else after `SETTLE_S`, likewise; after `FORGOTTEN_S` where a commit was to come.

Updates of A wait until then as well. Each field keeps the number of the answer that it is from, so that a later
answer counts whichever thread is first. If A's creation is refused or aborted, they are dropped; and where the runtime
calls `commit()`, what the creation of B wants of A is kept only by that call for B, so that nothing of a creation that
is aborted gets to A. Next:
`nri.adaptation.audit.trail`, which applies updates.
"""

from __future__ import annotations

import heapq
import logging
import threading
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.containers.answer_order import Numbers
from nri.adaptation.containers.inventory import KeptUpdate, Presence
from nri.adaptation.merge.side_updates import NO_CONTAINER, UNKNOWN_CONTAINER, Eviction, Ignored
from nri.api import messages as m
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.merge.side_updates import SideUpdates

    Evict = Callable[[list[m.ContainerEviction]], object]

__all__ = ["KeptUpdates"]

log = logging.getLogger("nri.adaptation")

#: How long a created container may go without `commit()` and without an event, in seconds.
SETTLE_S = 0.25
#: The same for a runtime that calls `commit()`, which may be pulling an image: it must have forgotten this one.
FORGOTTEN_S = 1800.0
#: How long the thread waits for more to do before it ends, in seconds.
IDLE_S = 5.0


class KeptUpdates:
    """The containers whose kept updates are to be handed over, and the thread that does it. Thread-safe.

    Args:
        trail: has the inventory that keeps them, and hands updates to the runtime.
        evict: the runtime's callback.
        commits: the runtime calls `commit()` of every reply.

    Attributes:
        waiting: ids of these containers, with the time at which it is done anyway, in monotonic seconds. Empty nearly
            always, so that an event may look.
        runtime_commits: the runtime calls `commit()`, as it has said or done. Then a container is not known before.
    """

    def __init__(self, trail: AuditTrail, evict: Evict | None, *, commits: bool = False) -> None:
        self._trail = trail
        self._evict = evict
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self.worker: threading.Thread | None = None  # not `_thread`, which is a keyword of C when this is compiled
        self._stopped = False
        self.waiting: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []  # the same by time, and some that have been seen to: a heap
        self.runtime_commits = commits

    def of_event(
        self, side: SideUpdates, event: str, numbers: Mapping[str, int], reporting: Reporting
    ) -> list[m.ContainerUpdate]:
        """Keep what answers want of containers that are only being created, and report what is left out.

        Returns the updates of those that have been created in the meantime. To be called once for an event.

        Args:
            side: the event's updates.
            event: RPC name.
            numbers: of each plugin's answer, for the order in which updates are kept.
            reporting: gets what is left out.
        """
        created = []
        for plugin, update in side.kept:
            presence = self.keep_update(plugin, update, event, numbers[plugin])
            if presence is Presence.KNOWN:
                created.append(update)
            elif presence is Presence.GONE:
                side.ignored.append(Ignored(plugin, update.container_id, "", UNKNOWN_CONTAINER))
        for plugin, eviction in side.kept_evictions:
            presence = self.keep_eviction(plugin, eviction)
            if presence is Presence.KNOWN:
                side.evictions.append(Eviction(plugin, eviction.container_id, eviction.reason))
            elif presence is Presence.GONE:
                side.ignored.append(Ignored(plugin, eviction.container_id, "evict", UNKNOWN_CONTAINER))
        report_left_out(side, event, reporting)
        return created

    def of_creation(self, container_id: str, side: SideUpdates, event: str, numbers: Mapping[str, int]) -> None:
        """Keep what answers to a creation want of others that were being created as well, now that it has succeeded.

        Containers that are there by now are updated, or evicted, in this call.
        """
        there = [
            (plugin, KeptUpdate(update, event, Numbers(numbers[plugin])))
            for plugin, update in side.kept
            if self.keep_update(plugin, update, event, numbers[plugin]) is Presence.KNOWN
        ]
        evictions = [each for plugin, each in side.kept_evictions if self.keep_eviction(plugin, each) is Presence.KNOWN]
        self._give(container_id, there, evictions)

    def keep_update(self, plugin: str, update: m.ContainerUpdate, event: str, number: int) -> Presence:
        """Keep an update if its container is being created, and see that it is handed over; `Inventory.keep_update`."""
        presence = self._trail.inventory.keep_update(plugin, update, event, number)
        if presence is Presence.CREATED:
            self.add(update.container_id)
        return presence

    def keep_eviction(self, plugin: str, eviction: m.ContainerEviction) -> Presence:
        """Likewise, an eviction."""
        presence = self._trail.inventory.keep_eviction(plugin, eviction)
        if presence is Presence.CREATED:
            self.add(eviction.container_id)
        return presence

    def add(self, container_id: str) -> None:
        """Updates wait for a container whose creation has succeeded: hand them over soon."""
        if container_id not in self.waiting:
            self._schedule(container_id, monotonic() + (FORGOTTEN_S if self.runtime_commits else SETTLE_S))

    def hasten(self, container_id: str) -> None:
        """The runtime goes on with a container, so it is there: hand over what waits for it now, in the thread."""
        if container_id in self.waiting:
            self._schedule(container_id, monotonic())

    def hand_over(self, container_id: str) -> None:
        """Hand over what waits for a container, in this thread; another one may be at it already."""
        self.waiting.pop(container_id, None)
        again = False
        while (creation := self._trail.inventory.take_kept(container_id, again=again)) is not None:
            again = True
            reasons = creation.evictions.values()
            evictions = [m.ContainerEviction(container_id=container_id, reason=why) for why in reasons]
            self._give(container_id, creation.updates.items(), evictions)

    def _give(
        self, container_id: str, updates: Iterable[tuple[str, KeptUpdate]], evictions: list[m.ContainerEviction]
    ) -> None:
        """Give the runtime what waited for a container, all of it whatever its callbacks raise."""
        works: list[Callable[[], object]] = [partial(self._apply, plugin, kept) for plugin, kept in updates]
        if evictions and self._evict is not None:
            works.append(partial(self._evict, evictions))
        for work in works:
            try:
                work()
            except Exception:  # what other plugins have asked for is handed over all the same
                log.exception("the runtime failed to apply the updates that waited for container %s", container_id)

    def _apply(self, plugin: str, kept: KeptUpdate) -> None:
        encoded = m.UpdateContainersRequest(update=[kept.update]).SerializeToString()
        for failed in self._trail.apply("UpdateContainers", plugin, encoded, [kept.update], kept.numbers):
            log.warning(
                "plugin %s: its update of container %s, asked for in %s while that was being created, failed",
                plugin, plain(failed.container_id, 128), kept.event,
            )  # fmt: skip

    def stop(self) -> None:
        """End the thread; what waits is dropped."""
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
                worker = threading.Thread(target=self._run, name="nri-kept-updates", daemon=True)
                try:
                    worker.start()
                except RuntimeError:
                    return  # no threads are left for now: the container's next event tries again
                self.worker = worker
            self._work.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                due = self._next()
                if due is None:
                    self.worker = None
                    return
            try:
                self.hand_over(due)
            except Exception:  # other containers' updates come through this thread
                log.exception("the updates that waited for container %s were not handed over", due)

    def _next(self) -> str | None:
        """The next container whose time has come; None: there was nothing to do for a while. Holds the lock."""
        due = self._due
        while not self._stopped:
            while due and self.waiting.get(due[0][1]) != due[0][0]:
                heapq.heappop(due)  # handed over, or wanted earlier
            if not due:
                if not self._work.wait(IDLE_S) and not due:
                    return None
                continue
            left_s = due[0][0] - monotonic()
            if left_s <= 0:
                return heapq.heappop(due)[1]
            self._work.wait(left_s)
        return None


def report_left_out(side: SideUpdates, event: str, reporting: Reporting) -> None:
    """Report the updates and evictions of an event that are left out because there is no such container."""
    for each in side.ignored:
        if each.reason in (NO_CONTAINER, UNKNOWN_CONTAINER):
            reporting.left_out(each.plugin, event, each.container_id)
