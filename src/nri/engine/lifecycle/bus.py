"""Publish steps in the life cycle of pods and containers: as log lines, and as events of the CRI."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Self

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry, container_status, pod_status
from nri.engine.support.errors import NotFound

_log = logging.getLogger(__name__)

#: The maximum number and total size of a listener's pending events. Each event has the statuses of a whole pod.
MAX_EVENTS, MAX_EVENT_BYTES = 1000, 32 << 20
#: The word in the log for each event.
_WORDS = {
    pb.CONTAINER_CREATED_EVENT: "created",
    pb.CONTAINER_STARTED_EVENT: "started",
    pb.CONTAINER_STOPPED_EVENT: "ended",
    pb.CONTAINER_DELETED_EVENT: "removed",
}


class Subscription:
    """The events of one listener since it subscribed. A slow listener loses the oldest events.

    Use it as a context manager. `lost` counts the lost events.
    """

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._pending: deque[tuple[int, pb.ContainerEventResponse | None]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self.lost = 0

    def get(self, timeout_s: float | None = None) -> pb.ContainerEventResponse | None:
        """Wait for the next event. Returns None after the timeout, or if the subscription was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending, timeout_s)
            return self._take_event() if self._pending else None

    def put(self, event: pb.ContainerEventResponse | None, size: int = 0) -> None:
        """Add an event of `size` bytes. If there are too many events, the oldest are dropped."""
        with self._changed:
            self._pending.append((size, event))
            self._bytes += size
            while len(self._pending) > 1 and (len(self._pending) > MAX_EVENTS or self._bytes > MAX_EVENT_BYTES):
                self._take_event()
                self.lost += 1
            self._changed.notify()

    def _take_event(self) -> pb.ContainerEventResponse | None:
        size, event = self._pending.popleft()
        self._bytes -= size
        return event

    def close(self) -> None:
        """Receive no more events."""
        self._bus.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventBus:
    """Publishes events, each with the statuses of a pod and its containers."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._lock = threading.Lock()
        self._listeners: list[Subscription] = []

    def subscribe(self) -> Subscription:
        """Receive all events from now on."""
        subscription = Subscription(self)
        with self._lock:
            self._listeners.append(subscription)
        return subscription

    def unsubscribe(self, listener: Subscription) -> None:
        """Send no more events to a listener, and end its wait."""
        with self._lock:
            self._listeners = [other for other in self._listeners if other is not listener]
        listener.put(None)

    def publish(self, entry: PodEntry | ContainerEntry, kind: pb.ContainerEventType.ValueType) -> None:
        """Log a step of a container or pod, and send its event to all listeners."""
        _log.info("%s %s%s", entry, _WORDS[kind], _exit_text(entry) if kind == pb.CONTAINER_STOPPED_EVENT else "")
        with self._lock:
            listeners = [*self._listeners]
        if not listeners:
            return
        event = pb.ContainerEventResponse(container_id=entry.id, container_event_type=kind, created_at=time.time_ns())
        self._describe(event, entry)
        size = event.ByteSize()
        for listener in listeners:
            listener.put(event, size)

    def _describe(self, event: pb.ContainerEventResponse, entry: PodEntry | ContainerEntry) -> None:
        """Add the statuses of a pod and its containers to an event.

        The event of a pod's removal has the pod's last status, because a kubelet ignores events without a status.
        """
        try:
            pod = entry if isinstance(entry, PodEntry) else self._inventory.pod(entry.record.pod_id)
        except NotFound:
            return  # the pod's record was lost
        event.pod_sandbox_status.CopyFrom(pod_status(pod))
        event.containers_statuses.extend(map(container_status, self._inventory.containers(pod.id)))

    def close(self) -> None:
        """End all subscriptions."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.put(None)


def _exit_text(entry: PodEntry | ContainerEntry) -> str:
    """Return the exit code and reason of a container for the log, or "" for a pod."""
    if isinstance(entry, PodEntry):
        return ""
    record = entry.record
    reason = f", {record.reason}" if record.reason and record.reason != "Completed" else ""
    return f": code {record.exit_code}{reason}"
