"""Pods as rubik's services see them: their cgroups, their CPU limits, and which of them are offline.

A pod is offline if its annotation or its label `volcano.sh/preemptable` is exactly `true`, unless the annotation is
exactly `false`, which spares it. Every other pod is online.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final
from weakref import WeakKeyDictionary

from nri.agent.loops.round import StrategyPod
from nri.agent.model import PodContext
from nri.kube import cgroup_limits as formulas
from nri.kube.pod_resources import container_amounts, pod_limit, pod_total
from nri.kube.quantity import ceil

__all__ = [
    "OFFLINE",
    "ONLINE",
    "PREEMPTIBLE",
    "Container",
    "Pod",
    "class_of",
    "limit_of",
    "offline",
    "pod_of",
    "protected",
    "request_of",
]

#: The annotation or label of offline pods.
PREEMPTIBLE: Final = "volcano.sh/preemptable"
OFFLINE, ONLINE = "offline", "online"
_SOURCE, _MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"


@dataclass(frozen=True, slots=True)
class Container:
    """A container with its cgroup; `cpu_limit` is in CPUs: 0 for no limit, None if it is unknown."""

    id: str
    name: str = ""
    folder: str = ""
    cpu_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with its cgroup; `started` is in seconds since 1970, None if it is unknown."""

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
        return (self.folder, *(container.folder for container in self.containers))


def offline(pod: Pod) -> bool:
    """Whether a pod yields to the others."""
    annotation = pod.annotations.get(PREEMPTIBLE)
    return annotation == "true" or (annotation != "false" and pod.labels.get(PREEMPTIBLE) == "true")


def class_of(pod: PodContext) -> str:
    """Return the class of a pod: `offline` or `online`."""
    return OFFLINE if offline(Pod("", annotations=pod.annotations, labels=pod.labels)) else ONLINE


def protected(pod: Pod, *, from_apiserver: bool) -> bool:
    """Whether a pod may never be evicted: a pod of kube-system, a static pod, or the mirror of a static pod.

    Args:
        pod: the pod.
        from_apiserver: whether the API server lists it. There the source annotation is what the pod's author wrote;
            a kubelet overwrites it in what itself, and the runtime, report.
    """
    source = "api" if from_apiserver else pod.annotations.get(_SOURCE, "api")
    return pod.namespace == "kube-system" or source != "api" or _MIRROR in pod.annotations


#: The pods of the rounds' objects, as long as these objects live.
_POD_BY_ROUND_POD: Final[WeakKeyDictionary[StrategyPod, Pod]] = WeakKeyDictionary()


def pod_of(pod: StrategyPod) -> Pod:
    """Return a pod of a round as a service sees it; rounds share one object while the pod does not change."""
    known = _POD_BY_ROUND_POD.get(pod)
    if known is None:
        known = _POD_BY_ROUND_POD[pod] = _converted(pod)
    return known


def _converted(pod: StrategyPod) -> Pod:
    limits = {spec.get("name", ""): _cpu_limit(spec) for spec in pod.specs}
    namespace, _, name = pod.key.partition("/")
    return Pod(
        uid=pod.uid,
        name=name,
        namespace=namespace,
        folder=pod.folder,
        annotations=pod.annotations,
        labels=pod.labels,
        started=pod.started,
        host_network=bool((pod.manifest.get("spec") or {}).get("hostNetwork")),
        containers=tuple(Container(c.id, c.name, c.cgroup_parent, limits.get(c.name)) for c in pod.containers),
    )


def _cpu_limit(container: Mapping[str, Any]) -> float:
    """Return the limit of a container in CPUs, from its spec; 0 for no limit."""
    return max(formulas.milli(container_amounts(container, "limits"), "cpu"), 0) / 1000


def request_of(pod: StrategyPod, name: str) -> int:
    """Return what a pod requests of a resource, rounded up to whole units; 0 for nothing."""
    return ceil(pod_total(pod.manifest.get("spec") or {}, "requests").get(name, Fraction(0)))


def limit_of(pod: StrategyPod) -> float:
    """Return the limit in CPUs that a kubelet gives a pod's own cgroup; 0 for no limit."""
    return ceil(pod_limit(pod.manifest.get("spec") or {}, "cpu") * 1000) / 1000
