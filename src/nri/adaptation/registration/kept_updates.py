"""Hand over the updates that waited until their container was created.

Events overlap: while container A is being created, a plugin that makes room for container B may shrink A's share, too.
A is not there to be updated, and must not be missed either. So its update is kept (`nri.adaptation.audit.inventory`),
and given to the runtime's update callback as soon as A is there:

- when the runtime calls `commit()` of A's reply: in that call. A runtime that has ever done so, or said that it will,
  is taken at its word: a container is being created until that call, however long that takes, so no reply names one
  that the runtime has not made;
- else with the next event of A (PostCreateContainer in most runtimes), in a thread of its own, because the caller of an
  event may hold locks that the callback wants;
- else after `SETTLE_S`, likewise; after `FORGOTTEN_S` where a commit was to come.

What is asked for A until then waits as well, so updates never overtake each other. If A's creation is refused or
aborted, they are dropped. Next: `nri.adaptation.registration.plugin_updates`, which applies updates.
"""

from __future__ import annotations

import heapq
import logging
import threading
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.adaptation.audit.inventory import Inventory
    from nri.adaptation.registration.plugin_updates import PluginUpdates

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

    Attributes:
        waiting: ids of these containers, with the time at which it is done anyway, in monotonic seconds. Empty nearly
            always, so that an event may look.
    """

    def __init__(self, inventory: Inventory, updates: PluginUpdates) -> None:
        self._inventory = inventory
        self._updates = updates
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._worker: threading.Thread | None = None  # not `_thread`, which is a keyword of C when this is compiled
        self._stopped = False
        self.waiting: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []  # the same by time, and some that have been seen to: a heap
        #: Whether the runtime calls `commit()`. Then a container is not known before that.
        self.runtime_commits = False
        inventory.on_kept = self.add

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
        while (creation := self._inventory.take_kept(container_id, again=again)) is not None:
            again = True
            try:
                self._updates.hand_over(container_id, creation)
            except Exception:
                log.exception("the runtime failed to apply the updates that waited for container %s", container_id)

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
            if self._worker is None:
                self._worker = threading.Thread(target=self._run, name="nri-kept-updates", daemon=True)
                self._worker.start()
            self._work.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                due = self._next()
                if due is None:
                    self._worker = None
                    return
            self.hand_over(due)

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
