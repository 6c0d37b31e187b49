"""Pods and containers as rubik's services see them, who is offline, and the pods of a node kept from events.

Offline is a pod whose annotation or whose label says exactly `true`; every other one is online. Next: `preemption`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nri.kube import quantity
from nri.policies import paths

__all__ = ["PREEMPTIBLE", "Container", "Mirror", "Pod", "from_manifest", "offline", "protected"]

#: The annotation or label of offline pods.
PREEMPTIBLE: Final = "volcano.sh/preemptable"
#: The first part of a container's cgroup, by its runtime.
_SCOPES: Final = {"containerd": "cri-containerd-", "docker": "docker-", "iSulad": "isulad-", "cri-o": "crio-"}
_CONFIG_HASH: Final = "kubernetes.io/config.hash"
_SOURCE, _MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class Container:
    """A container with its cgroup; `cpu_limit` is in CPUs: 0 for no limit, None for not known."""

    id: str
    name: str = ""
    folder: str = ""
    cpu_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with its cgroup; `started` is in seconds since 1970, None if not known."""

    uid: str
    name: str = ""
    namespace: str = ""
    folder: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    started: float | None = None
    containers: tuple[Container, ...] = ()

    def folders(self) -> tuple[str, ...]:
        """The cgroups of the pod and of its containers."""
        return (self.folder, *(each.folder for each in self.containers))


def offline(pod: Pod) -> bool:
    """Whether a pod yields to the others."""
    return "true" in (pod.annotations.get(PREEMPTIBLE), pod.labels.get(PREEMPTIBLE))


def protected(pod: Pod) -> bool:
    """Whether a pod may never be evicted: one of kube-system, a static one, or the mirror of one."""
    source = pod.annotations.get(_SOURCE, "api")
    return pod.namespace == "kube-system" or source != "api" or _MIRROR in pod.annotations


def from_manifest(pod: Mapping[str, Any], driver: str) -> Pod:
    """Return a pod as Kubernetes lists it, with the containers that have an id of a runtime that is known."""
    meta, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    annotations = meta.get("annotations") or {}
    kube = status.get("qosClass") or ""
    uid = annotations.get(_CONFIG_HASH) or meta.get("uid", "")
    folder = paths.pod_path(kube, uid, driver) if kube in paths.KUBE_CLASSES else ""
    asked = {each.get("name", ""): each.get("resources") or {} for each in spec.get("containers") or ()}
    containers = []
    for each in status.get("containerStatuses") or ():
        runtime, _, number = (each.get("containerID") or "").partition("://")
        if runtime not in _SCOPES or "/" in number or number in ("", ".", ".."):
            continue
        named = driver == paths.SYSTEMD or runtime == "cri-o"
        own = f"{_SCOPES[runtime]}{number}" if named else number
        name = f"{own}.scope" if driver == paths.SYSTEMD else own
        limit = (asked.get(each.get("name", "")) or {}).get("limits") or {}
        milli = quantity.ceil(quantity.capped(limit.get("cpu", 0)) * 1000)
        containers.append(Container(number, each.get("name", ""), paths.joined(folder, name), milli / 1000))
    return Pod(
        uid=uid,
        name=meta.get("name", ""),
        namespace=meta.get("namespace", ""),
        folder=folder,
        annotations=annotations,
        labels=meta.get("labels") or {},
        host_network=bool(spec.get("hostNetwork")),
        started=None,
        containers=tuple(containers),
    )


class Mirror:
    """The pods of a node, kept from events.

    Each method returns what the services are asked to look at: pairs of a word (add, update, delete) and the pod. A pod
    that a synchronization no longer names is deleted.
    """

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def synchronize(self, pods: Iterable[Pod]) -> list[tuple[str, Pod]]:
        """Take what there is; services look at it when they start."""
        before, self.pods = self.pods, {pod.uid: pod for pod in pods}
        return [("delete", pod) for uid, pod in before.items() if uid not in self.pods]

    def put(self, pod: Pod, *, running: bool = True, new: bool = False) -> list[tuple[str, Pod]]:
        """Take a pod as Kubernetes reports it; one that no longer runs is deleted, a `new` one may be known."""
        if not running:
            return self.remove(pod.uid)
        before = self.pods.get(pod.uid)
        if before is not None and new:
            return []
        self.pods[pod.uid] = pod
        return [("add" if before is None else "update", pod)]

    def sandbox(self, pod: Pod) -> None:
        """Take a pod that has no container yet, if it is not known."""
        self.pods.setdefault(pod.uid, pod)

    def start(self, uid: str, container: Container) -> list[tuple[str, Pod]]:
        """Take a container of a known pod."""
        pod = self.pods.get(uid)
        if pod is None:
            return []
        others = tuple(each for each in pod.containers if each.id != container.id)
        self.pods[uid] = replace(pod, containers=(*others, container))
        return [("add", self.pods[uid])]

    def stop(self, uid: str, container_id: str) -> None:
        """Forget a container: nothing is left to be set."""
        pod = self.pods.get(uid)
        if pod is not None:
            left = tuple(each for each in pod.containers if each.id != container_id)
            self.pods[uid] = replace(pod, containers=left)

    def remove(self, uid: str) -> list[tuple[str, Pod]]:
        """Forget a pod."""
        pod = self.pods.pop(uid, None)
        return [] if pod is None else [("delete", pod)]
