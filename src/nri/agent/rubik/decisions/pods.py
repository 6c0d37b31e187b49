"""Pods and containers as rubik's services see them, and who is offline.

A pod is offline if its annotation or its label is exactly `true`, unless the annotation is exactly `false`, which
spares it. Every other pod is online. Next: `preemption`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["PREEMPTIBLE", "Container", "Pod", "offline", "protected"]

#: The annotation or label of offline pods.
PREEMPTIBLE: Final = "volcano.sh/preemptable"
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
    annotation = pod.annotations.get(PREEMPTIBLE)
    return annotation == "true" or (annotation != "false" and pod.labels.get(PREEMPTIBLE) == "true")


def protected(pod: Pod, *, from_apiserver: bool) -> bool:
    """Whether a pod may never be evicted: a pod of kube-system, a static pod, or the mirror of a static pod.

    Args:
        pod: the pod.
        from_apiserver: whether the API server lists it. There the source annotation is what the pod's author wrote;
            a kubelet overwrites it in what itself, and the runtime, report.
    """
    source = "api" if from_apiserver else pod.annotations.get(_SOURCE, "api")
    return pod.namespace == "kube-system" or source != "api" or _MIRROR in pod.annotations
