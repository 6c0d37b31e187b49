"""The requests and limits of a container, estimated from cgroup values, or exact from nri-plugins' resource-annotator.

The kubelet rounds a CPU request down to shares, so that 200m is estimated as 199m. It rounds a memory request to
thousandths of the node's memory. The estimates are the same as in nri-plugins, for the same placements;
`nri.kube.container_resources` has closer estimates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nri.config.syntax import parse_json
from nri.kube import quantity

#: Requests and limits of a pod's containers as JSON.
ANNOTATION = "noderesource.dev/resources"
_SHARES_PER_CPU, _MIN_SHARES = 1024, 2
#: The OOM scores of Burstable containers, which depend on the memory request.
_MIN_OOM_SCORE, _MAX_OOM_SCORE = 3, 999


class Requests(NamedTuple):
    """Requests and limits in thousandths of a CPU and in bytes. 0 means no request or limit."""

    cpu_m: int = 0
    cpu_limit_m: int = 0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0


def _rounded_quotient(numerator: int, denominator: int) -> int:
    """The rounded quotient of two positive numbers."""
    return (2 * numerator + denominator) // (2 * denominator)


def millicpu_of_shares(shares: int) -> int:
    """The CPU request with these shares. Returns 0 for the minimum, which a container without a request has."""
    return 0 if shares <= _MIN_SHARES else _rounded_quotient(shares * 1000, _SHARES_PER_CPU)


def millicpu_of_quota(quota_us: int, period_us: int) -> int:
    """The CPU limit with this quota. Returns 0 without a limit."""
    return _rounded_quotient(quota_us * 1000, period_us) if quota_us > 0 and period_us > 0 else 0


def memory_of_oom_score(score: int, node_bytes: int) -> int:
    """The smallest memory request of a Burstable container with this score on a node. Returns 0 if unknown."""
    if not _MIN_OOM_SCORE <= score <= _MAX_OOM_SCORE:
        return 0
    return -(-(1000 - score) * node_bytes // 1000)


def qos_of_cgroup_parent(path: str) -> str:
    """The QoS class of a pod, from the path of its cgroup."""
    folder = path.lower()
    return "BestEffort" if "besteffort" in folder else "Burstable" if "burstable" in folder else "Guaranteed"


def estimated(
    qos: str, shares: int, quota_us: int, period_us: int, memory_limit_bytes: int, oom_score: int, node_bytes: int
) -> Requests:
    """Estimate the requests of a container from its pod's class and its cgroup values."""
    cpu, limit = millicpu_of_shares(shares), max(memory_limit_bytes, 0)
    if qos == "Guaranteed":
        return Requests(cpu, cpu, limit, limit)
    memory = memory_of_oom_score(oom_score, node_bytes) if qos == "Burstable" else 0
    if limit and memory >= limit:
        memory = 0
    return Requests(cpu, millicpu_of_quota(quota_us, period_us), memory, limit)


def annotated(annotations: Mapping[str, str], container_name: str) -> Requests | None:
    """The exact values of a container in the annotation, or None. Raises ValueError if the annotation is invalid."""
    if ANNOTATION not in annotations:
        return None
    try:
        document = parse_json(annotations[ANNOTATION])
        container = _container(document, container_name)
        if container is None:
            return None
        requests, limits = (container.get(key) or {} for key in ("requests", "limits"))
        return Requests(
            _amount(requests, "cpu", 1000),
            _amount(limits, "cpu", 1000),
            _amount(requests, "memory", 1),
            _amount(limits, "memory", 1),
        )
    except (AttributeError, TypeError):
        raise ValueError('expected {"containers": {NAME: {"requests": {}, "limits": {}}}}') from None


def _container(document: Any, name: str) -> Any:
    for key in ("containers", "initContainers"):
        container = (document.get(key) or {}).get(name)
        if container is not None:
            return container
    return None


def _amount(amounts: Mapping[str, object], key: str, scale: int) -> int:
    return quantity.ceil(quantity.bounded(amounts.get(key, 0), quantity.MOST // scale) * scale)
