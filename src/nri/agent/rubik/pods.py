"""Properties of pods for rubik's services: offline or online, requests, limits, and protection from evictions.

A pod is offline if its annotation or its label `volcano.sh/preemptable` is exactly `true`. An annotation that is
exactly `false` overrides the label. Every other pod is online.
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
    """Return whether a pod is offline."""
    annotation = pod.annotations.get(PREEMPTIBLE)
    return annotation == "true" or (annotation != "false" and pod.labels.get(PREEMPTIBLE) == "true")


def class_of(pod: Pod) -> str:
    """Return the class of a pod: `offline` or `online`."""
    return OFFLINE if offline(pod) else ONLINE


def protected(pod: Pod, *, from_apiserver: bool) -> bool:
    """Return whether a pod must not be evicted: it is in kube-system, static, or the mirror of a static pod.

    Args:
        pod: the pod.
        from_apiserver: whether the apiserver lists the pod. If so, the author of the pod wrote the source annotation;
            otherwise the kubelet did.
    """
    source = "api" if from_apiserver else pod.annotations.get(_SOURCE, "api")
    return pod.namespace == "kube-system" or source != "api" or _MIRROR in pod.annotations


def request_of(pod: Pod, name: str) -> int:
    """Return a pod's request of a resource, rounded up to whole units, or 0 if it requests none."""
    return ceil(pod_total(pod.manifest.get("spec") or {}, "requests").get(name, Fraction(0)))


def limit_of(pod: Pod) -> float:
    """Return the limit in CPUs that a kubelet sets for a pod's cgroup, or 0 if there is no limit."""
    return ceil(pod_limit(pod.manifest.get("spec") or {}, "cpu") * 1000) / 1000
