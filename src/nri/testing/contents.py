"""The pods and containers that a test's runtime keeps, and what plugins have asked for.

One job: the three callbacks of an adaptation (snapshot, update, evict) over plain dictionaries, and the pod and
container of an event that a test leaves out. No container engine, no adaptation. Next: `nri.testing.runtime`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update
from nri.testing.builders import make_container, make_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.api import messages as m

__all__ = ["Contents"]


class Contents:
    """A runtime's pods and containers.

    Attributes:
        pods, containers: what there is now, by id.
        updates: what plugins asked for by themselves, in order.
        evictions: likewise.
        refuse_updates: ids of containers whose updates fail.
    """

    def __init__(self, pods: Iterable[m.PodSandbox] = (), containers: Iterable[m.Container] = ()) -> None:
        self.pods = {pod.id: pod for pod in pods}
        self.containers = {container.id: container for container in containers}
        self.updates: list[Update] = []
        self.evictions: list[Eviction] = []
        self.refuse_updates: set[str] = set()
        self._lock = threading.Lock()

    def _pod(self, pod: m.PodSandbox | None) -> m.PodSandbox:
        """The pod of an event: the one given, else the last one, else a new one."""
        with self._lock:
            if pod is None:
                pod = next(reversed(self.pods.values()), None) or make_pod()
            return self.pods.setdefault(pod.id, pod)

    def _container(self, pod: m.PodSandbox, container: m.Container | None) -> m.Container:
        """The container of an event: the one given, else the last one of the pod, else a new one."""
        with self._lock:
            if container is None:
                inside = [each for each in self.containers.values() if each.pod_sandbox_id == pod.id]
                container = inside[-1] if inside else make_container(pod=pod)
            return self.containers.setdefault(container.id, container)

    # -- what the adaptation asks for ---------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        with self._lock:
            return list(self.pods.values()), list(self.containers.values())

    def _update(self, updates: list[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        failed = []
        with self._lock:
            for update in updates:
                container = self.containers.get(update.container_id)
                if container is None or update.container_id in self.refuse_updates:
                    failed.append(update)
                    continue
                container.linux.resources.MergeFrom(update.linux.resources)
                self.updates.append(Update.of(update))
        return failed

    def _evict(self, evictions: list[m.ContainerEviction]) -> None:
        with self._lock:
            self.evictions.extend(Eviction.of(eviction) for eviction in evictions)
