"""Compute a container's requests and limits from its cgroup values, by inverting the kubelet's arithmetic.

Requests of CPU are exact to a thousandth of a CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from nri.kube.quantity import CPU_PERIOD_US
from nri.kube.requests import memory_of_oom_score, millicpu_of_shares

if TYPE_CHECKING:
    from nri.api import messages as m

#: The kubelet's upper bound of a burstable OOM score, for any small request.
_MAX_OOM_SCORE: Final = 999


class DecodedResources(NamedTuple):
    """Requests and limits in thousandths of CPUs and in bytes: 0 without a request or limit, None if unknown."""

    cpu_request: int
    cpu_limit: int
    memory_request: int | None
    memory_limit: int


def decoded_resources(linux: m.LinuxContainer, kube_class: str, capacity: int = 0) -> DecodedResources:
    """Return the requests and limits of a container, computed from its NRI message.

    Args:
        linux: NRI's message of the container.
        kube_class: its pod's Kubernetes QoS class.
        capacity: the node's memory in bytes; 0 leaves memory requests of burstable containers unknown.
    """
    cpu, memory = linux.resources.cpu, linux.resources.memory.limit.value
    score = linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None
    return resources_from_cgroup(
        kube_class, cpu.shares.value, (cpu.quota.value, cpu.period.value), memory, score, capacity
    )


def resources_from_cgroup(
    kube_class: str, shares: int, quota: tuple[int, int], memory: int, score: int | None = None, capacity: int = 0
) -> DecodedResources:
    """Return the requests and limits of a container, computed from its cgroup values.

    Args:
        kube_class: its pod's Kubernetes QoS class.
        shares: the CPU shares, or 0 without shares.
        quota: the CPU quota and period in microseconds; 0 means no quota and the default period.
        memory: the memory limit in bytes; 0 or less means no limit.
        score: the OOM score, or None if unknown.
        capacity: as in `decoded_resources`.
    """
    limit = max(quota[0], 0) * 1000 // (quota[1] or CPU_PERIOD_US)
    memory = max(memory, 0)
    if kube_class == "Guaranteed":
        return DecodedResources(limit, limit, memory, memory)
    if kube_class == "BestEffort":
        return DecodedResources(0, limit, 0, memory)
    return DecodedResources(millicpu_of_shares(shares), limit, memory_request(score, capacity), memory)


def memory_request(score: int | None, capacity: int) -> int | None:
    """Return the memory request of a burstable container, computed from its OOM score.

    The request is exact to a thousandth of the node's memory. Returns None if it is unknown: the kubelet limits the
    range of scores, so the lowest and the highest score each stand for many requests.
    """
    if score == _MAX_OOM_SCORE and capacity > 0:
        return 0
    return memory_of_oom_score(score, capacity) or None if score is not None and capacity > 0 else None
