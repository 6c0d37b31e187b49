"""The pods and containers that a plugin knows, with the last decision for each. Thread-safe.

A container enters the inventory during its creation. It leaves when the container or its pod has stopped or is removed;
some runtimes do not report a failed creation. The kubelet's request is stored next to the result, because the runtime
reports only the result, and a quota must not be scaled twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from nri.agent.model import NO_CHANGES, Changes, Container, Pod, Resources, Setting


@dataclass(slots=True)
class InventoryEntry:
    """A container, with its last decision and the runtime's view.

    Attributes:
        pod_id: the id of the sandbox of the container's pod.
        context: the container, with the resources that the kubelet requested, if they are known.
        changes: the changes that the runtime got last; None if it must get changes again in any case.
        generation: the generation of the rules that led to `changes`.
        answered: the generation of the rules at the kubelet's last request.
        created: whether the runtime has created the container, so that it can be updated.
        request_count: the number of requests of the kubelet for other resources.
        requested: the resources that the kubelet requested, by knob.
        reported: the resources that the runtime reported, by knob.
        decided: the values of unsolicited updates, from strategies or to make room for other containers.
    """

    pod_id: str
    context: Container
    changes: Changes | None = NO_CHANGES
    generation: int = 0
    answered: int = 0
    created: bool = False
    request_count: int = 0
    requested: dict[str, Setting] = field(default_factory=dict)
    reported: dict[str, Setting] = field(default_factory=dict)
    decided: dict[str, Setting] = field(default_factory=dict)

    def hand_over(self, changes: Changes) -> None:
        """Record changes that the runtime gets. Their values replace values of unsolicited updates."""
        self.changes = changes
        for name in changes.knobs:
            self.decided.pop(name, None)


class RuntimeInventory:
    """The pods and containers of one runtime.

    Args:
        transport: the prefix of the labels in `counts`.

    Attributes:
        synced: whether the runtime has reported all running pods and containers at least once.
        problem: the reason why the inventory may be old; "" if it is current.
    """

    def __init__(self, transport: str = "nri") -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}
        self._containers: dict[str, InventoryEntry] = {}
        self._started_ns: dict[str, int] = {}
        self.synced = False
        self.problem = f"waiting for the runtime, mode {transport}"
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call a function after each change, in the thread that made the change."""
        self._listeners.append(listener)

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener()

    def note_problem(self, problem: str) -> None:
        """Record why the inventory may be old; "" after the runtime reported all running pods and containers."""
        self.problem, self.synced = problem, self.synced or not problem
        self._notify_listeners()

    def pods(self) -> list[tuple[str, Pod]]:
        """Return the pods by the ids of their sandboxes."""
        with self._lock:
            return list(self._pods.items())

    def containers(self) -> list[tuple[str, InventoryEntry]]:
        """Return the containers by their ids."""
        with self._lock:
            return list(self._containers.items())

    def counts(self) -> dict[str, float]:
        """Return the numbers of pods and containers, for the gauge `held`."""
        return {f"{self._transport} pods": len(self._pods), f"{self._transport} containers": len(self._containers)}

    def pod(self, pod_id: str) -> Pod | None:
        """Return the pod of a sandbox."""
        return self._pods.get(pod_id)

    def container(self, container_id: str) -> InventoryEntry | None:
        """Return a container."""
        return self._containers.get(container_id)

    def started_ns(self, pod_id: str) -> int:
        """Return when a pod's first container was created, or the pod was first seen, in nanoseconds since 1970."""
        return self._started_ns.get(pod_id, 0)

    def put_pod(self, pod_id: str, context: Pod, made_ns: Iterable[int] = ()) -> None:
        """Add a pod. `made_ns` are the creation times of its containers; 0 means unknown."""
        seen_ns = self._started_ns.get(pod_id) or time.time_ns()
        with self._lock:
            self._pods[pod_id] = context
            self._started_ns[pod_id] = min([seen_ns, *filter(None, made_ns)])
        self._notify_listeners()

    def put(self, container_id: str, container: InventoryEntry) -> None:
        """Add a container."""
        container.context = replace(container.context, env={})  # no decision on a running container needs it
        with self._lock:
            self._containers[container_id] = container
        self._notify_listeners()

    def mark_created(self, container: InventoryEntry, context: Container) -> None:
        """Record that the runtime has created a container, and its current context."""
        container.created, container.context = True, context
        self._notify_listeners()

    def get_or_add(self, container_id: str, new: InventoryEntry) -> InventoryEntry:
        """Return a container; add `new` if the container is unknown."""
        entry = self.container(container_id)
        if entry is None:
            self.put(container_id, new)
        return entry or new

    def ask(self, container: InventoryEntry, context: Container) -> None:
        """Record a new request of the kubelet. Values that are not in the request keep the earlier request's value."""
        before = container.context.resources or Resources()
        requested = context.resources or Resources()
        named = {
            name: value
            for name in ("cpu_shares", "cfs_quota", "cfs_period", "cpuset", "memory_limit")
            if (value := getattr(requested, name)) is not None
        }
        with self._lock:
            container.context = replace(context, resources=replace(before, **named), env={})
            container.request_count += 1
        self._notify_listeners()

    def drop(self, container_id: str) -> InventoryEntry | None:
        """Forget a container, and return its entry."""
        with self._lock:
            entry = self._containers.pop(container_id, None)
        self._notify_listeners()
        return entry

    def drop_pod(self, pod_id: str) -> list[InventoryEntry]:
        """Forget a pod and its containers, and return the containers."""
        with self._lock:
            self._pods.pop(pod_id, None)
            self._started_ns.pop(pod_id, None)
            numbers = [number for number, container in self._containers.items() if container.pod_id == pod_id]
            entries = [self._containers.pop(number) for number in numbers]
        self._notify_listeners()
        return entries

    def keep_only(self, pods: set[str], containers: set[str]) -> list[Pod]:
        """Forget all other pods and containers, and return the forgotten pods."""
        with self._lock:
            dropped = [self._pods.pop(number) for number in list(self._pods) if number not in pods]
            self._started_ns = {number: at for number, at in self._started_ns.items() if number in pods}
            self._containers = {
                number: container for number, container in self._containers.items() if number in containers
            }
            return dropped
