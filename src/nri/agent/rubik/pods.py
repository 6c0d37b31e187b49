"""Pods as rubik's services see them: their cgroups, their CPU limits, and which of them are offline.

A pod is offline if its annotation or its label `volcano.sh/preemptable` is exactly `true`, unless the annotation is
exactly `false`, which spares it. Every other pod is online.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from nri.agent.model import Pod
from nri.kube.pod_resources import pod_limit, pod_total
from nri.kube.quantity import ceil

#: The annotation or label of offline pods.
PREEMPTIBLE: Final = "volcano.sh/preemptable"
OFFLINE, ONLINE = "offline", "online"
_SOURCE, _MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"


def offline(pod: Pod) -> bool:
    """Whether a pod yields to the others."""
    annotation = pod.annotations.get(PREEMPTIBLE)
    return annotation == "true" or (annotation != "false" and pod.labels.get(PREEMPTIBLE) == "true")


def class_of(pod: Pod) -> str:
    """Return the class of a pod: `offline` or `online`."""
    return OFFLINE if offline(pod) else ONLINE


def protected(pod: Pod, *, from_apiserver: bool) -> bool:
    """Whether a pod may never be evicted: a pod of kube-system, a static pod, or the mirror of a static pod.

    Args:
        pod: the pod.
        from_apiserver: whether the API server lists it. There the source annotation is what the pod's author wrote;
            a kubelet overwrites it in what itself, and the runtime, report.
    """
    source = "api" if from_apiserver else pod.annotations.get(_SOURCE, "api")
    return pod.namespace == "kube-system" or source != "api" or _MIRROR in pod.annotations


def request_of(pod: Pod, name: str) -> int:
    """Return what a pod requests of a resource, rounded up to whole units; 0 for nothing."""
    return ceil(pod_total(pod.manifest.get("spec") or {}, "requests").get(name, Fraction(0)))


def limit_of(pod: Pod) -> float:
    """Return the limit in CPUs that a kubelet gives a pod's own cgroup; 0 for no limit."""
    return ceil(pod_limit(pod.manifest.get("spec") or {}, "cpu") * 1000) / 1000
