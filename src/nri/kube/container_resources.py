"""Kubernetes's request, worked out from a runtime's description of a container: its requests and limits.

The kubelet's own arithmetic turned round, so that a request of CPU is right to a thousandth. Pure. Next:
`nri.kube.document`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nri.kube.quantity import CPU_PERIOD_US
from nri.kube.requests import memory_of_oom_score, millicpu_of_shares

if TYPE_CHECKING:
    from nri.api import messages as m

__all__ = ["DecodedResources", "memory_request", "requested_resources", "resources_from_cgroup"]

#: The kubelet's upper bound of a burstable OOM score, which tells only of little.
_MAX_OOM_SCORE: Final = 999


class DecodedResources(NamedTuple):
    """Requests and limits: thousandths of CPUs and bytes; 0 for none, None for not known."""

    cpu_request: int
    cpu_limit: int
    memory_request: int | None
    memory_limit: int


def requested_resources(linux: m.LinuxContainer, kube_class: str, capacity: int = 0) -> DecodedResources:
    """Return what a container requested_resources for.

    Args:
        linux: as NRI reports the container.
        kube_class: its pod's Kubernetes QoS class.
        capacity: the node's memory in bytes, without which no burstable container's request is known.
    """
    cpu, memory = linux.resources.cpu, linux.resources.memory.limit.value
    score = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
    return resources_from_cgroup(
        kube_class, cpu.shares.value, (cpu.quota.value, cpu.period.value), memory, score, capacity
    )


def resources_from_cgroup(
    kube_class: str, shares: int, quota: tuple[int, int], memory: int, score: int | None = None, capacity: int = 0
) -> DecodedResources:
    """Return what a container requested_resources for.

    Args:
        kube_class: its pod's Kubernetes QoS class.
        shares: of CPU, 0 for none.
        quota: of CPU and its period in microseconds, 0 for none and for the usual one.
        memory: its limit in bytes, 0 or less for none.
        score: its OOM score, None if it is not known.
        capacity: as of `requested_resources`.
    """
    limit = max(quota[0], 0) * 1000 // (quota[1] or CPU_PERIOD_US)
    memory = max(memory, 0)
    if kube_class == "Guaranteed":
        return DecodedResources(limit, limit, memory, memory)
    if kube_class == "BestEffort":
        return DecodedResources(0, limit, 0, memory)
    return DecodedResources(millicpu_of_shares(shares), limit, memory_request(score, capacity), memory)


def memory_request(score: int | None, capacity: int) -> int | None:
    """Return the bytes that a burstable container of an OOM score asks for, to a thousandth of the node; None unknown.

    At either end of the scale the kubelet cuts: a score there tells only of much or little.
    """
    if score == _MAX_OOM_SCORE and capacity > 0:
        return 0
    return memory_of_oom_score(score, capacity) or None if score is not None and capacity > 0 else None
