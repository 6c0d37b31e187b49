"""Classes and priorities of pods, and whether pods may be evicted.

| predicate | true for |
|---|---|
| `labelled_be` | batch pods, which have the label BE |
| `kubernetes_best_effort` | pods of the Kubernetes QoS class BestEffort, regardless of their labels |
| `offline` | pods of either kind, which yield CPU to all other pods |

If the pod's source does not know a value, the value is unknown; no default replaces it if that could harm a pod. The
default priority of a class is only used to sort pods that may be evicted anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from nri.agent.cgroup_paths import BEST_EFFORT, GUARANTEED
from nri.agent.koordinator.names import BE, LABEL_QOS, LS, LSE, LSR, qos_class
from nri.agent.model import PodManifest
from nri.agent.pods.manifest import kube_class
from nri.config.syntax import parse_json
from nri.kube.pod_resources import Part, concurrent_containers, container_amounts, pod_total
from nri.kube.quantity import ceil

LABEL_PRIORITY_CLASS: Final = "koordinator.sh/priority-class"
LABEL_PRIORITY: Final = "koordinator.sh/priority"
LABEL_EVICTABLE: Final = "koordinator.sh/eviction-enabled"
ANNOTATION_EVICTION_PRIORITY: Final = "koordinator.sh/eviction-priority"
ANNOTATION_EVICTION_POLICY: Final = "koordinator.sh/eviction-policy"
_ANNOTATION_SOURCE: Final = "kubernetes.io/config.source"
_ANNOTATION_MIRROR: Final = "kubernetes.io/config.mirror"

PROD, MID, BATCH, FREE = "koord-prod", "koord-mid", "koord-batch", "koord-free"
#: The range of priorities of each class.
_RANGES: Final = {PROD: (9000, 9999), MID: (7000, 7999), BATCH: (5000, 5999), FREE: (3000, 3999)}
_DEFAULTS: Final = {PROD: 9500, MID: 7500, BATCH: 5500, FREE: 3500}
_RESOURCES: Final = {
    (BATCH, "cpu"): "kubernetes.io/batch-cpu",
    (BATCH, "memory"): "kubernetes.io/batch-memory",
    (MID, "cpu"): "kubernetes.io/mid-cpu",
    (MID, "memory"): "kubernetes.io/mid-memory",
}
INT32: Final = 1 << 31
INT64: Final = 1 << 63
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
#: The lowest priority of system-cluster-critical and system-node-critical pods.
_CRITICAL: Final = 2_000_000_000
_CRITICAL_NAMES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_SYSTEM_NAMESPACE: Final = "kube-system"


def labelled_be(labels: Mapping[str, str]) -> bool:
    """Return whether a pod's label is BE."""
    return labels.get(LABEL_QOS) == BE


def kubernetes_best_effort(pod: PodManifest) -> bool:
    """Return whether the Kubernetes QoS class of a pod is BestEffort."""
    return kube_class(pod) == BEST_EFFORT


def offline(pod: PodManifest) -> bool:
    """Return whether a pod yields CPU to others, because of its label or its Kubernetes QoS class."""
    return labelled_be(_labels(pod)) or kubernetes_best_effort(pod)


def cpu_burstable(pod: PodManifest) -> bool:
    """Return whether a pod shares its CPUs, and may borrow CPU: all classes except LSE, LSR and BE."""
    return qos_class(_labels(pod)) not in (LSE, LSR, BE)


def default_qos(pod: PodManifest) -> str:
    """Return a pod's QoS class from its label, or else the default of its Kubernetes class."""
    return qos_class(_labels(pod)) or {BEST_EFFORT: BE, GUARANTEED: LSR}.get(kube_class(pod), LS)


def priority_class(pod: PodManifest) -> str:
    """Return a pod's priority class from its label, or else from its priority, or else from its QoS class."""
    label = _labels(pod).get(LABEL_PRIORITY_CLASS)
    if label is not None:
        if label in _RANGES:
            return label
    else:
        number = spec_priority(pod)
        for name, (lowest, highest) in _RANGES.items():
            if number is not None and lowest <= number <= highest:
                return name
    return BATCH if default_qos(pod) == BE else PROD


def priority(pod: PodManifest) -> int:
    """Return a pod's priority. If it is absent or 0, return the default of the pod's priority class."""
    return spec_priority(pod) or _DEFAULTS[priority_class(pod)]


def label_priority(pod: PodManifest) -> int:
    """Return the priority in the pod's label, or `priority` if there is no label."""
    number = whole_number(_labels(pod).get(LABEL_PRIORITY), INT64)
    return priority(pod) if number is None else number


def eviction_priority(pod: PodManifest) -> int:
    """Return the eviction priority in the pod's annotation, or 0 if there is none."""
    return whole_number(_annotations(pod).get(ANNOTATION_EVICTION_PRIORITY), INT32) or 0


def evictable_label(pod: PodManifest) -> bool:
    """Return whether a pod's label allows evictions, which some features require."""
    return _labels(pod).get(LABEL_EVICTABLE) == "true"


def policy_allows(pod: PodManifest, feature: str) -> bool:
    """Return whether a pod's annotation allows a feature to evict the pod. True without the annotation."""
    text = _annotations(pod).get(ANNOTATION_EVICTION_POLICY)
    if text is None:
        return True
    try:
        listed = parse_json(text)
    except ValueError:
        return False
    return (
        isinstance(listed, list)
        and all(entry is None or isinstance(entry, str) for entry in listed)
        and feature in listed
    )


def never_evicted(pod: PodManifest) -> str:
    """Return why no feature may evict a pod, or "" if the pod may be evicted."""
    meta, spec, annotations = pod.get("metadata") or {}, pod.get("spec") or {}, _annotations(pod)
    number = spec_priority(pod)
    if _ANNOTATION_MIRROR in annotations or annotations.get(_ANNOTATION_SOURCE, "api") != "api":
        return "the pod is static"
    if meta.get("namespace") == _SYSTEM_NAMESPACE:
        return f"the pod is in namespace {_SYSTEM_NAMESPACE}"
    if spec.get("priorityClassName") in _CRITICAL_NAMES or (number or 0) >= _CRITICAL:
        return "the pod is critical to the system"
    if number is None and _labels(pod).get(LABEL_PRIORITY_CLASS) not in _RANGES:
        return f"the priority is unknown: spec.priority and label {LABEL_PRIORITY_CLASS} are missing"
    return ""


def resource_name(pod: PodManifest, kind: str) -> str:
    """Return the name of the CPU or memory resource that pods of this priority class request."""
    return _RESOURCES.get((priority_class(pod), kind), kind)


def request(pod: PodManifest, name: str) -> int:
    """Return a pod's request of a resource, or 0: thousandths for `cpu`, otherwise whole units.

    For CPU and memory this is the request that the scheduler counts. For batch and mid resources it is the sum of
    containers that run at the same time, as Koordinator counts: without ending init containers, and without overhead.
    """
    spec = pod.get("spec") or {}
    if name in ("cpu", "memory"):
        amount = pod_total(spec, "requests").get(name, Fraction(0))
        return max(ceil(amount * 1000 if name == "cpu" else amount), 0)
    return sum(max(amount, 0) for amount in _concurrent(spec, "requests", name))


def limit(pod: PodManifest, name: str) -> int:
    """Return the limit of a pod in whole units of a resource, computed as in `request`, or 0 if there is no limit.

    For batch and mid resources, a pod has no limit if a container has no limit.
    """
    spec = pod.get("spec") or {}
    if name in ("cpu", "memory"):
        return max(ceil(pod_total(spec, "limits").get(name, Fraction(0))), 0)
    limits = [max(amount, 0) for amount in _concurrent(spec, "limits", name)]
    return sum(limits) if all(limits) else 0


def _concurrent(spec: Mapping[str, Any], part: Part, name: str) -> Iterator[int]:
    for container in concurrent_containers(spec):
        yield ceil(container_amounts(container, part).get(name, Fraction(0)))


def _labels(pod: PodManifest) -> Mapping[str, str]:
    return _texts(pod, "labels")


def _annotations(pod: PodManifest) -> Mapping[str, str]:
    return _texts(pod, "annotations")


def _texts(pod: PodManifest, part: str) -> Mapping[str, str]:
    entries = (pod.get("metadata") or {}).get(part)
    return {key: text for key, text in entries.items() if isinstance(text, str)} if isinstance(entries, dict) else {}


def spec_priority(pod: PodManifest) -> int | None:
    """Return the priority in a pod's spec, or None if it is unknown."""
    number = (pod.get("spec") or {}).get("priority")
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def whole_number(text: str | None, bound: int) -> int | None:
    """Parse an integer within a bound as Go does, or return None."""
    if text is None or _WHOLE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -bound <= number < bound else None
