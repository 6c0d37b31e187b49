"""Pods from NRI alone: the reports of a runtime to the agent's plugin, assembled as API objects.

A pod's class follows from its cgroup parent. Requests and limits are decoded from the resources that the kubelet passed
to the runtime. Annotations are those of the pod's creation, because NRI does not report changes. Init containers cannot
be distinguished from other containers, and ended containers are left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from nri.agent import cgroup_paths as paths
from nri.agent.model import Container, Pod, PodManifest, Resources
from nri.agent.pods.source import notify, start_time
from nri.agent.worker import TIMER, Worker
from nri.errors import NriError
from nri.host import Root
from nri.host.usage import memory
from nri.kube.container_resources import resources_from_cgroup
from nri.text import plain

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings

_CHANGED: Final = "changed"
#: The time in seconds after an event in which further events are gathered into one notification.
_GATHER_S: Final = 0.05
#: The interval of the worker in seconds. It works on request; a timed run has no effect.
_TIMER_INTERVAL_S: Final = 3600.0


#: Requests the eviction of a container, given its id and a reason. Raises NriError if the request fails.
Evict = Callable[[str, str], object]


class SeenContainer(Protocol):
    """A container that a plugin has seen."""

    @property
    def pod_id(self) -> str:
        """The id of the sandbox of the container's pod."""
        ...

    @property
    def context(self) -> Container:
        """The container, with the resources that the kubelet requested."""
        ...

    @property
    def created(self) -> bool:
        """Whether the runtime has created the container."""
        ...


class SeenObjects(Protocol):
    """The pods and containers that a plugin has seen.

    Attributes:
        synced: whether all running pods and containers were reported at least once.
        problem: the reason why the list may be old; "" if it is current.
    """

    synced: bool
    problem: str

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after each change."""
        ...

    def pods(self) -> list[tuple[str, Pod]]:
        """Return the pods by the ids of their sandboxes."""
        ...

    def started_ns(self, pod_id: str) -> int:
        """Return when a pod started, in nanoseconds since 1970."""
        ...

    def containers(self) -> Sequence[tuple[str, SeenContainer]]:
        """Return the containers by their ids."""
        ...


class NriPods:
    """The source of pods that follows the agent's plugins.

    Args:
        settings: `root` is read, to find the node's memory.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self._inventories: list[SeenObjects] = []
        self._evict: dict[int, Evict] = {}
        self._listeners: list[Callable[[], None]] = []
        self._worker = Worker("pods from NRI", self._notify_listeners, _TIMER_INTERVAL_S)
        #: The pods at the last rebuild; `_current` is False if they have changed since.
        self._listed: list[PodManifest] = []
        self._current = False
        self._lock = threading.Lock()
        #: For each pod: the contexts that its object was built from, and the object.
        self._parts_and_pods: dict[str, tuple[tuple[object, ...], PodManifest]] = {}
        try:
            self._capacity = memory(Root(settings.root)).get("MemTotal", 0)
        except (OSError, ValueError):
            self._capacity = 0

    def follow(self, inventory: SeenObjects, evict: Evict) -> None:
        """Follow the inventory of a plugin; `evict` asks its runtime for an eviction. Call this before `start`."""
        self._inventories.append(inventory)
        self._evict[id(inventory)] = evict
        inventory.subscribe(self._mark_changed)

    def _mark_changed(self) -> None:
        self._current = False
        self._worker.request_run(_CHANGED)

    def pods(self) -> list[PodManifest]:
        """Return the pods of the runtimes; unchanged pods are the same objects as before."""
        with self._lock:  # concurrent callers wait for one rebuild
            if not self._current:
                self._current = True  # set before reading: a change during the rebuild causes another rebuild
                self._parts_and_pods = self._assembled_pods()
                self._listed = [pod for _, pod in self._parts_and_pods.values()]
            return self._listed

    def _assembled_pods(self) -> dict[str, tuple[tuple[object, ...], PodManifest]]:
        entry_by_pod: dict[str, tuple[tuple[object, ...], PodManifest]] = {}
        for inventory in self._inventories:
            containers_by_pod: dict[str, list[Container]] = {}
            for _, entry in inventory.containers():
                if entry.created:
                    containers_by_pod.setdefault(entry.pod_id, []).append(entry.context)
            for pod_id, context in inventory.pods():
                containers = containers_by_pod.get(pod_id, [])
                parts = (context, *containers)
                listed = self._parts_and_pods.get(pod_id)
                if listed is None or not _are_identical(listed[0], parts):
                    listed = parts, api_pod(context, containers, inventory.started_ns(pod_id), self._capacity)
                entry_by_pod[pod_id] = listed
        return entry_by_pod

    def evict(self, container: str, reason: str) -> None:
        """Ask a container's runtime to evict the container.

        Raises NriError if no runtime has it, or the runtime refuses.
        """
        for inventory in self._inventories:
            if any(number == container for number, _ in inventory.containers()):
                self._evict[id(inventory)](container, reason)
                return
        raise NriError(f"no runtime has container {plain(container, 80)}")

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after pods changed."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Start to report changes, in a separate thread."""
        self._worker.start()

    def stop(self) -> None:
        """Stop reporting; known pods are kept."""
        self._worker.stop()

    @property
    def synced(self) -> bool:
        """Whether every runtime has reported all running pods and containers."""
        return bool(self._inventories) and all(inventory.synced for inventory in self._inventories)

    @property
    def problem(self) -> str:
        """The reason why the list of pods may be out of date; "" if they are current."""
        return "; ".join(inventory.problem for inventory in self._inventories if inventory.problem)

    def _notify_listeners(self, reasons: frozenset[str]) -> None:
        if reasons != {TIMER}:
            time.sleep(_GATHER_S)  # the start of one pod causes several events
            notify(self._listeners)


def api_pod(pod: Pod, containers: Sequence[Container], started_ns: int = 0, capacity: int = 0) -> PodManifest:
    """Return a pod as an API object with the fields that NRI reports.

    Args:
        pod: the pod.
        containers: the containers of the pod; of several containers with one name, the last is used.
        started_ns: when the pod started, in nanoseconds since 1970.
        capacity: the node's memory in bytes; if it is 0, memory requests are unknown.
    """
    kube_class = paths.kube_class_of(pod.folder)
    container_by_name = {container.name: container for container in containers}
    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "labels": dict(pod.labels),
            "annotations": dict(pod.annotations),
        },
        "spec": {
            "hostNetwork": pod.host_network,
            "containers": [
                {"name": name, "resources": _resources(named_container.resources, kube_class, capacity)}
                for name, named_container in container_by_name.items()
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": start_time(started_ns),
            "qosClass": kube_class,
            "containerStatuses": [
                {"name": name, "containerID": named_container.id, "state": {"running": {}}}
                for name, named_container in container_by_name.items()
            ],
        },
        "cgroups": {
            name: named_container.folder
            for name, named_container in container_by_name.items()
            if named_container.folder
        },
        **({"cgroupParent": pod.folder} if pod.folder else {}),
    }


def _resources(resources: Resources | None, kube_class: str, capacity: int) -> dict[str, dict[str, Any]]:
    """Return requests and limits in the form of the API."""
    has = resources or Resources()
    quota = (has.cfs_quota or 0, has.cfs_period or 0)
    amounts = resources_from_cgroup(
        kube_class, has.cpu_shares or 0, quota, has.memory_limit or 0, has.oom_score_adj, capacity
    )
    requests = {
        "cpu": f"{amounts.cpu_request}m" if amounts.cpu_request else "",
        "memory": str(amounts.memory_request or ""),
    }
    limits = {"cpu": f"{amounts.cpu_limit}m" if amounts.cpu_limit else "", "memory": str(amounts.memory_limit or "")}
    return {
        part: {name: text for name, text in texts.items() if text}
        for part, texts in (("requests", requests), ("limits", limits))
    }


def _are_identical(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(one is two for one, two in zip(before, now, strict=True))
