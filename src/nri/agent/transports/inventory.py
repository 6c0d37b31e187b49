"""The pods and containers that a plugin knows: their contexts, and what was last decided for each.

Rules: a container enters when it is being created, and leaves when it has stopped, is removed, or its pod is: some
runtimes tell nothing of a creation that failed. The kubelet's request is kept beside the result, because the runtime
reports the latter, and a quota must not be scaled twice. Any thread may call it. Next: `nri.agent.transports.reapply`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from nri.agent.model import NO_CHANGES, Changes, Container, Pod, Resources, Setting

__all__ = ["InventoryEntry", "RuntimeInventory"]


@dataclass(slots=True)
class InventoryEntry:
    """One container.

    Attributes:
        pod_id: the id of its pod's sandbox.
        context: with what the kubelet has asked for as its resources, as far as that is known.
        changes: what was last handed over for it; None if that has to be done again, whatever it is.
        generation: the rules by which that was decided; older than those of now: they have changed since.
        answered: the rules by which the kubelet's last request was answered.
        created: whether the runtime knows it, so that it can be updated.
        asked: how often the kubelet has asked for other resources.
        asked_for: the resources that it has asked for, by knob.
        said: the runtime's view of the resources, as far as it is known.
        decided: the values that came by updates of our own: of strategies, and to make room for others.
    """

    pod_id: str
    context: Container
    changes: Changes | None = NO_CHANGES
    generation: int = 0
    answered: int = 0
    created: bool = False
    asked: int = 0
    asked_for: dict[str, Setting] = field(default_factory=dict)
    said: dict[str, Setting] = field(default_factory=dict)
    decided: dict[str, Setting] = field(default_factory=dict)

    def hand_over(self, changes: Changes) -> None:
        """Note what hooks have decided, whose values are no update's of our own any more."""
        self.changes = changes
        for name in changes.knobs:
            self.decided.pop(name, None)


class RuntimeInventory:
    """All pods and containers of one runtime.

    Args:
        transport: the word before what is counted.

    Attributes:
        synced: whether the runtime has told at least once all that runs.
        problem: why what is held is not what runs; "" if it is.
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
        """Have a function called after what is held has changed, by the thread that has changed it."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    def note_problem(self, problem: str) -> None:
        """Note with "" that the runtime has told all that runs, else why what is held may be old."""
        self.problem, self.synced = problem, self.synced or not problem
        self._changed()

    def pods(self) -> list[tuple[str, Pod]]:
        """Return the pods by the ids of their sandboxes."""
        with self._lock:
            return list(self._pods.items())

    def containers(self) -> list[tuple[str, InventoryEntry]]:
        """Return the containers by their ids."""
        with self._lock:
            return list(self._containers.items())

    def counts(self) -> dict[str, float]:
        """Count what is held, for the gauge: one transport's beside another's."""
        return {f"{self._transport} pods": len(self._pods), f"{self._transport} containers": len(self._containers)}

    def pod(self, pod_id: str) -> Pod | None:
        """Return the pod of a sandbox."""
        return self._pods.get(pod_id)

    def container(self, container_id: str) -> InventoryEntry | None:
        """Return a container."""
        return self._containers.get(container_id)

    def started_ns(self, pod_id: str) -> int:
        """Return when a pod has started, in nanoseconds since 1970: its first container, or when it was first seen."""
        return self._started_ns.get(pod_id, 0)

    def put_pod(self, pod_id: str, context: Pod, made_ns: Iterable[int] = ()) -> None:
        """Take in a pod; `made_ns` is when its containers were made, 0 for one of which that is not known."""
        seen_ns = self._started_ns.get(pod_id) or time.time_ns()
        with self._lock:
            self._pods[pod_id] = context
            self._started_ns[pod_id] = min([seen_ns, *filter(None, made_ns)])
        self._changed()

    def put(self, container_id: str, container: InventoryEntry) -> None:
        """Take in a container."""
        container.context = replace(container.context, env={})  # no decision for what runs needs it
        with self._lock:
            self._containers[container_id] = container
        self._changed()

    def mark_created(self, container: InventoryEntry, context: Container) -> None:
        """Note that the runtime has created a container, and its context as it is now."""
        container.created, container.context = True, context
        self._changed()

    def known(self, container_id: str, new: InventoryEntry) -> InventoryEntry:
        """Return a container; a new one is taken in if it is not known."""
        found = self.container(container_id)
        if found is None:
            self.put(container_id, new)
        return found or new

    def ask(self, container: InventoryEntry, context: Container) -> None:
        """Note what the kubelet asks for now, in a newer context: what it does not mention stays as it asked before."""
        before = container.context.resources or Resources()
        asked = context.resources or Resources()
        named = {
            name: value
            for name in ("cpu_shares", "cfs_quota", "cfs_period", "cpuset", "memory_limit")
            if (value := getattr(asked, name)) is not None
        }
        with self._lock:
            container.context = replace(context, resources=replace(before, **named), env={})
            container.asked += 1
        self._changed()

    def drop(self, container_id: str) -> InventoryEntry | None:
        """Forget a container; return what was known of it."""
        with self._lock:
            found = self._containers.pop(container_id, None)
        self._changed()
        return found

    def drop_pod(self, pod_id: str) -> list[InventoryEntry]:
        """Forget a pod and all its containers, which are returned."""
        with self._lock:
            self._pods.pop(pod_id, None)
            self._started_ns.pop(pod_id, None)
            numbers = [number for number, each in self._containers.items() if each.pod_id == pod_id]
            gone = [self._containers.pop(number) for number in numbers]
        self._changed()
        return gone

    def keep_only(self, pods: set[str], containers: set[str]) -> list[Pod]:
        """Forget what the runtime does not have any more; return the pods of that."""
        with self._lock:
            gone = [self._pods.pop(number) for number in list(self._pods) if number not in pods]
            self._started_ns = {number: at for number, at in self._started_ns.items() if number in pods}
            self._containers = {number: each for number, each in self._containers.items() if number in containers}
            return gone
