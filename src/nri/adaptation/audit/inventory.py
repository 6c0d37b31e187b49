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

__all__ = ["ContainerRecord", "Inventory", "Known"]


class ContainerRecord:
    """One container; `unseen` if the last state of the runtime did not have it."""

    __slots__ = ("namespace", "pod_id", "resources", "unseen")

    def __init__(self, pod_id: str, namespace: str, resources: bytes) -> None:
        self.pod_id, self.namespace, self.resources = pod_id, namespace, resources
        self.unseen = False


#: What events told while a state was on its way; None for containers that went.
News = dict[str, "ContainerRecord | None"]


class Inventory:
    """All containers by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, ContainerRecord] = {}
        self._news: list[News] = []
        #: The ids of all containers, always up to date.
        self.known = Known(self)

    def begin(self) -> News:
        """The runtime's state is being asked for; what events tell from now on is newer than that. For `seed`."""
        news: News = {}
        with self._lock:
            self._news.append(news)
        return news

    def cancel(self, news: News) -> None:
        """The state did not come."""
        with self._lock:
            self._news = [each for each in self._news if each is not news]

    def seed(self, news: News, pods: Iterable[m.PodSandbox], containers: Iterable[m.Container]) -> None:
        """Take over the state that was asked for at `begin`.

        A container that it does not have is kept once: it may be just in the making.
        """
        namespaces = {pod.id: pod.namespace for pod in pods}
        fresh: dict[str, ContainerRecord] = {}
        for container in containers:
            pod_id = container.pod_sandbox_id
            resources = container.linux.resources.SerializeToString()
            fresh[container.id] = ContainerRecord(pod_id, namespaces.get(pod_id, ""), resources)
        with self._lock:
            self._news = [each for each in self._news if each is not news]
            for key, record in self._records.items():
                if key not in fresh and not record.unseen:
                    record.unseen = True
                    fresh[key] = record
            for key, told in news.items():
                if told is not None:
                    fresh[key] = told
                else:
                    fresh.pop(key, None)
            self._records = fresh

    def _put(self, container_id: str, record: ContainerRecord | None) -> None:
        for news in self._news:
            news[container_id] = record
        if record is None:
            self._records.pop(container_id, None)
        else:
            self._records[container_id] = record

    def created(self, container_id: str, pod: m.PodSandbox, resources: bytes) -> None:
        """Note a container that is being created with these resources, encoded."""
        record = ContainerRecord(pod.id, pod.namespace, resources)
        with self._lock:
            self._put(container_id, record)

    def updated(self, container_id: str, resources: m.LinuxResources) -> None:
        """A container is being updated."""
        with self._lock:
            record = self._records.get(container_id)
            if record is not None:
                merged = m.LinuxResources.FromString(record.resources)
                merged.MergeFrom(resources)
                self._put(container_id, ContainerRecord(record.pod_id, record.namespace, merged.SerializeToString()))

    def removed(self, container_id: str) -> None:
        """A container is gone."""
        with self._lock:
            self._put(container_id, None)

    def restored(self, container_id: str, resources: m.LinuxResources) -> None:
        """A container is given back what it had."""
        with self._lock:
            record = self._records.get(container_id)
            if record is not None:
                self._put(container_id, ContainerRecord(record.pod_id, record.namespace, resources.SerializeToString()))

    def pod_removed(self, pod_id: str) -> list[str]:
        """A pod is gone with all that was in it; returns the ids of its containers."""
        with self._lock:
            inside = [key for key, record in self._records.items() if record.pod_id == pod_id]
            for container_id in inside:
                self._put(container_id, None)
            return inside

    def resources_of(self, container_id: str) -> m.LinuxResources | None:
        """What a container was given, as far as it is known."""
        record = self._records.get(container_id)
        return None if record is None else m.LinuxResources.FromString(record.resources)


class Known:
    """The ids of all containers, for `in`, and their namespaces."""

    __slots__ = ("_inventory",)

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def __contains__(self, container_id: object) -> bool:
        return container_id in self._inventory._records

    def namespace_of(self, container_id: str) -> str | None:
        """The namespace of a container's pod; None for a container that nobody knows."""
        record = self._inventory._records.get(container_id)
        return None if record is None else record.namespace
