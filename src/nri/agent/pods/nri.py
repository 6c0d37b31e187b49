"""Pods from NRI alone: what a runtime tells the agent's own plugin, put together as API objects.

Rules: no apiserver, kubelet or CRI is asked. A pod's class is that of its cgroup parent; requests and limits are those
that the kubelet gave to the runtime, decoded. Events that come within a moment of one another are one word to those
who want to hear of changes. Annotations are those of the pod's creation: no event of NRI reports later ones. It cannot
say which containers initialize a pod, and what has ended is left out. Next: `nri.agent.pods.apiserver`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from nri.agent.pods.source import Pod, notify, start_time
from nri.agent.worker import TIMER, Worker
from nri.errors import NriError
from nri.host import Root
from nri.host.usage import memory
from nri.kube.container_resources import resources_from_cgroup
from nri.policies import paths
from nri.policies.contexts import ContainerContext, PodContext, Resources
from nri.text import plain

if TYPE_CHECKING:
    from nri.agent.settings import AgentSettings

__all__ = ["Followed", "NriPods", "api_pod"]

_CHANGED: Final = "changed"
#: Events within this time of one another are one word, in seconds.
_GATHER_S: Final = 0.05
_SELDOM_S: Final = 3600.0


#: Asks for the eviction of a container, given by its id, for a reason. Raises NriError.
Evict = Callable[[str, str], object]


class Created(Protocol):
    """A container as a plugin keeps it."""

    @property
    def pod_id(self) -> str:
        """The id of its pod's sandbox."""
        ...

    @property
    def context(self) -> ContainerContext:
        """Its context, with what the kubelet has asked for as its resources."""
        ...

    @property
    def created(self) -> bool:
        """Whether the runtime has it."""
        ...


class Followed(Protocol):
    """The pods and containers that a plugin has seen.

    Attributes:
        synced: whether it has had all that runs at least once.
        problem: why it is not what runs; "" if it is.
    """

    synced: bool
    problem: str

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a function called after a change."""
        ...

    def pods(self) -> list[tuple[str, PodContext]]:
        """Return the pods by the ids of their sandboxes."""
        ...

    def started_ns(self, pod_id: str) -> int:
        """Return when a pod has started, as far as that is known."""
        ...

    def containers(self) -> Sequence[tuple[str, Created]]:
        """Return the containers by their ids."""
        ...


class NriPods:
    """The source of pods that follows the agent's plugins.

    Args:
        settings: `root` is read, for the node's memory.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self._followed: list[Followed] = []
        self._evict: dict[int, Evict] = {}
        self._listeners: list[Callable[[], None]] = []
        self._worker = Worker("pods of NRI", self._tell, _SELDOM_S)
        #: The pods, and whether nothing has changed since they were put together.
        self._listed: list[Pod] = []
        self._current = False
        self._lock = threading.Lock()
        #: By pod: the contexts that it was made of, and the object.
        self._made: dict[str, tuple[tuple[object, ...], Pod]] = {}
        try:
            self._capacity = memory(Root(settings.root)).get("MemTotal", 0)
        except (OSError, ValueError):
            self._capacity = 0

    def follow(self, held: Followed, evict: Evict) -> None:
        """Follow what a plugin keeps, which asks its runtime for evictions by `evict`; before the start."""
        self._followed.append(held)
        self._evict[id(held)] = evict
        held.subscribe(self._changed)

    def _changed(self) -> None:
        self._current = False
        self._worker.poke(_CHANGED)

    def pods(self) -> list[Pod]:
        """Return the pods that a runtime has; those that have not changed are the same objects as before."""
        with self._lock:  # whoever comes while it is put together waits for it
            if not self._current:
                self._current = True  # before looking: what changes meanwhile is looked at again
                self._made = self._put_together()
                self._listed = [pod for _, pod in self._made.values()]
            return self._listed

    def _put_together(self) -> dict[str, tuple[tuple[object, ...], Pod]]:
        made: dict[str, tuple[tuple[object, ...], Pod]] = {}
        for held in self._followed:
            own: dict[str, list[ContainerContext]] = {}
            for _, each in held.containers():
                if each.created:
                    own.setdefault(each.pod_id, []).append(each.context)
            for pod_id, context in held.pods():
                containers = own.get(pod_id, [])
                parts = (context, *containers)
                known = self._made.get(pod_id)
                if known is None or not _same(known[0], parts):
                    known = parts, api_pod(context, containers, held.started_ns(pod_id), self._capacity)
                made[pod_id] = known
        return made

    def evict(self, container: str, reason: str) -> None:
        """Ask the runtime that has a container to evict it. Raises NriError if none has, or it refuses."""
        for held in self._followed:
            if any(number == container for number, _ in held.containers()):
                self._evict[id(held)](container, reason)
                return
        raise NriError(f"no runtime has container {plain(container, 80)}")

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Have a function called after pods have changed."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin to report changes, in a thread of its own."""
        self._worker.start()

    def stop(self) -> None:
        """Tell no longer; what is known stays known."""
        self._worker.stop()

    @property
    def synced(self) -> bool:
        """Whether each runtime has told once all that runs."""
        return bool(self._followed) and all(held.synced for held in self._followed)

    @property
    def problem(self) -> str:
        """The reason why what is known may be old; "" if it is not."""
        return "; ".join(held.problem for held in self._followed if held.problem)

    def _tell(self, reasons: frozenset[str]) -> None:
        if reasons != {TIMER}:
            time.sleep(_GATHER_S)  # one pod that starts is several events
            notify(self._listeners)


def api_pod(pod: PodContext, containers: Sequence[ContainerContext], started_ns: int = 0, capacity: int = 0) -> Pod:
    """Return a pod as the API would have it, as far as NRI tells.

    Args:
        pod: its context.
        containers: those that the runtime has; of one name the last.
        started_ns: when it has started.
        capacity: the node's memory in bytes, without which requests of memory are not known.
    """
    kube_class = paths.kube_class_of(pod.cgroup_parent)
    named = {each.name: each for each in containers}
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
                {"name": name, "resources": _resources(each.resources, kube_class, capacity)}
                for name, each in named.items()
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": start_time(started_ns),
            "qosClass": kube_class,
            "containerStatuses": [
                {"name": name, "containerID": each.id, "state": {"running": {}}} for name, each in named.items()
            ],
        },
        "cgroups": {name: each.cgroup_parent for name, each in named.items() if each.cgroup_parent},
        **({"cgroupParent": pod.cgroup_parent} if pod.cgroup_parent else {}),
    }


def _resources(given: Resources | None, kube_class: str, capacity: int) -> dict[str, dict[str, Any]]:
    """Requests and limits in the words of the API."""
    has = given or Resources()
    quota = (has.cfs_quota or 0, has.cfs_period or 0)
    asked = resources_from_cgroup(
        kube_class, has.cpu_shares or 0, quota, has.memory_limit or 0, has.oom_score_adj, capacity
    )
    requests = {"cpu": f"{asked.cpu_request}m" if asked.cpu_request else "", "memory": str(asked.memory_request or "")}
    limits = {"cpu": f"{asked.cpu_limit}m" if asked.cpu_limit else "", "memory": str(asked.memory_limit or "")}
    return {
        part: {name: text for name, text in found.items() if text}
        for part, found in (("requests", requests), ("limits", limits))
    }


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return len(before) == len(now) and all(one is two for one, two in zip(before, now, strict=True))
