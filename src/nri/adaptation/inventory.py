"""Which containers there are, in which namespace, with which resources: from events, and from the runtime's state.

The adaptation needs to know three things without asking the runtime in the middle of an event (which may hold its
locks): whether an update names a container that exists, in which namespace that is, and what to go back to when a
creation fails after side updates were applied. Resources are kept as bytes: a message would keep the whole container
alive.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.api import messages as m

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Inventory", "Known"]


class _Entry:
    __slots__ = ("namespace", "pod_id", "resources")

    def __init__(self, pod_id: str, namespace: str, resources: bytes) -> None:
        self.pod_id, self.namespace, self.resources = pod_id, namespace, resources


class Inventory:
    """All containers by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        # What events told since `begin`; None for containers that went. Only kept while a state is on its way.
        self._begun: dict[str, _Entry | None] | None = None
        self._known = Known(self)

    def begin(self) -> None:
        """The runtime's state is being asked for; what events tell from now on is newer than that."""
        with self._lock:
            self._begun = {}

    def seed(self, pods: Iterable[m.PodSandbox], containers: Iterable[m.Container]) -> None:
        """Take over the state that was asked for at `begin`."""
        namespaces = {pod.id: pod.namespace for pod in pods}
        fresh: dict[str, _Entry | None] = {}
        for container in containers:
            pod_id = container.pod_sandbox_id
            resources = container.linux.resources.SerializeToString()
            fresh[container.id] = _Entry(pod_id, namespaces.get(pod_id, ""), resources)
        with self._lock:
            fresh.update(self._begun or {})
            self._begun = None
            self._entries = {key: entry for key, entry in fresh.items() if entry is not None}

    def _put(self, container_id: str, entry: _Entry | None) -> None:
        if self._begun is not None:
            self._begun[container_id] = entry
        if entry is None:
            self._entries.pop(container_id, None)
        else:
            self._entries[container_id] = entry

    def created(self, pod: m.PodSandbox, container: m.Container, adjust: m.ContainerAdjustment) -> None:
        """A container is being created with this adjustment."""
        resources = container.linux.resources.SerializeToString() + adjust.linux.resources.SerializeToString()
        with self._lock:
            self._put(container.id, _Entry(pod.id, pod.namespace, resources))

    def updated(self, container_id: str, resources: m.LinuxResources) -> None:
        """A container is being updated."""
        with self._lock:
            entry = self._entries.get(container_id)
            if entry is not None:
                merged = m.LinuxResources.FromString(entry.resources)
                merged.MergeFrom(resources)
                self._put(container_id, _Entry(entry.pod_id, entry.namespace, merged.SerializeToString()))

    def removed(self, container_id: str) -> None:
        """A container is gone."""
        with self._lock:
            self._put(container_id, None)

    def restored(self, container_id: str, resources: m.LinuxResources) -> None:
        """A container is given back what it had."""
        with self._lock:
            entry = self._entries.get(container_id)
            if entry is not None:
                self._put(container_id, _Entry(entry.pod_id, entry.namespace, resources.SerializeToString()))

    def pod_removed(self, pod_id: str) -> list[str]:
        """A pod is gone with all that was in it; returns the ids of its containers."""
        with self._lock:
            inside = [key for key, entry in self._entries.items() if entry.pod_id == pod_id]
            for container_id in inside:
                self._put(container_id, None)
            return inside

    def resources_of(self, container_id: str) -> m.LinuxResources | None:
        """What a container was given, as far as it is known."""
        entry = self._entries.get(container_id)
        return None if entry is None else m.LinuxResources.FromString(entry.resources)

    def known(self) -> Known:
        """Which containers there are; always up to date."""
        return self._known


class Known:
    """The ids of all containers, for `in`, and their namespaces."""

    __slots__ = ("_inventory",)

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._inventory._entries

    def namespace_of(self, container_id: str) -> str | None:
        """The namespace of a container's pod; None for a container that nobody knows."""
        entry = self._inventory._entries.get(container_id)
        return None if entry is None else entry.namespace
