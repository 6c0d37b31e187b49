"""Publish the finished steps of pods and containers: a line of the log each, and the CRI's event for all listeners.

A slow listener loses the oldest events, and holds up no other.
"""

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

#: How many events wait for one listener, and bytes of them: each has all of its pod's statuses.
KEPT, KEPT_BYTES = 1000, 32 << 20
_DONE = {
    pb.CONTAINER_CREATED_EVENT: "made",
    pb.CONTAINER_STARTED_EVENT: "started",
    pb.CONTAINER_STOPPED_EVENT: "ended",
    pb.CONTAINER_DELETED_EVENT: "removed",
}


class Subscription:
    """The events since it was made. A context manager; :meth:`get` waits for the next one."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self._waiting: deque[tuple[int, pb.ContainerEventResponse | None]] = deque()
        self._bytes = 0
        self._come = threading.Condition()
        self.lost = 0

    def get(self, timeout_s: float | None = None) -> pb.ContainerEventResponse | None:
        """The next event; None if none came in time, or if the engine has stopped."""
        with self._come:
            self._come.wait_for(lambda: self._waiting, timeout_s)
            return self._take() if self._waiting else None

    def put(self, event: pb.ContainerEventResponse | None, size: int = 0) -> None:
        """Take an event of so many bytes in; the oldest ones go if none is read."""
        with self._come:
            self._waiting.append((size, event))
            self._bytes += size
            while len(self._waiting) > 1 and (len(self._waiting) > KEPT or self._bytes > KEPT_BYTES):
                self._take()
                self.lost += 1
            self._come.notify()

    def _take(self) -> pb.ContainerEventResponse | None:
        size, event = self._waiting.popleft()
        self._bytes -= size
        return event

    def close(self) -> None:
        """Get no more events."""
        self._bus.leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventBus:
    """Passes events on, each with the statuses of its pod and of that one's containers."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._lock = threading.Lock()
        self._listeners: list[Subscription] = []

    def subscribe(self) -> Subscription:
        """Listen from now on."""
        made = Subscription(self)
        with self._lock:
            self._listeners.append(made)
        return made

    def leave(self, listener: Subscription) -> None:
        """Send nothing more to a listener."""
        with self._lock:
            self._listeners = [each for each in self._listeners if each is not listener]
        listener.put(None)

    def publish(self, entry: PodEntry | ContainerEntry, kind: pb.ContainerEventType.ValueType) -> None:
        """Tell the log and all listeners what has happened to a container or pod."""
        _log.info("%s %s%s", entry, _DONE[kind], _how(entry) if kind == pb.CONTAINER_STOPPED_EVENT else "")
        with self._lock:
            listeners = [*self._listeners]
        if not listeners:
            return
        event = pb.ContainerEventResponse(container_id=entry.id, container_event_type=kind, created_at=time.time_ns())
        self._describe(event, entry.id if isinstance(entry, PodEntry) else entry.record.pod_id)
        size = event.ByteSize()
        for each in listeners:
            each.put(event, size)

    def _describe(self, event: pb.ContainerEventResponse, pod_id: str) -> None:
        """Add the statuses of a pod and its containers to an event."""
        try:
            event.pod_sandbox_status.CopyFrom(pod_status(self._inventory.pod(pod_id)))
        except NotFound:
            return  # it is removed
        event.containers_statuses.extend(map(container_status, self._inventory.containers(pod_id)))

    def close(self) -> None:
        """Let all listeners end."""
        with self._lock:
            listeners, self._listeners = self._listeners, []
        for each in listeners:
            each.put(None)


def _how(entry: PodEntry | ContainerEntry) -> str:
    """Say for the log how a container ended."""
    if isinstance(entry, PodEntry):
        return ""
    record = entry.record
    reason = f", {record.reason}" if record.reason and record.reason != "Completed" else ""
    return f": code {record.exit_code}{reason}"
