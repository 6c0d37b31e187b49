"""The request of a container to topology-aware: exclusive CPUs, a share of others, reserved ones, and memory.

One job: :func:`request_of`, from the container's requests, its annotations and the options. Pure. Next: `pools`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from nri.config import parse_duration
from nri.errors import ConfigError
from nri.placement.choices import Choices
from nri.placement.containers import Container, shown
from nri.placement.expressions import matches
from nri.placement.machine import Priority
from nri.placement.topology_aware.options import Options
from nri.placement.zones import DRAM, PMEM, MemoryZones

__all__ = ["CpuKind", "Request", "cold_start_s", "request_of"]

_LONGEST_S = 3600.0


class CpuKind(Enum):
    """Which CPUs: those for all, those for the system, or those that the container has already."""

    NORMAL = "normal"
    RESERVED = "reserved"
    PRESERVE = "preserve"


@dataclass(slots=True)
class Request:
    """One container's request.

    Attributes:
        exclusive: whole CPUs of its own; `shared_m` thousandths of shared ones.
        limit_m: what a Burstable container may use at most; None for no limit.
        isolated: whether exclusive ones are best isolated by the kernel, `only_isolated` whether nothing else will do.
        memory_kinds: None if its memory is left alone.
        cold: whether it gets DRAM only later, which is not among the kinds then.
    """

    container: Container
    exclusive: int
    shared_m: int
    kind: CpuKind = CpuKind.NORMAL
    limit_m: int | None = None
    isolated: bool = False
    only_isolated: bool = False
    priority: Priority = Priority.NONE
    memory_kinds: int | None = 0
    cold: bool = False

    @property
    def memory_bytes(self) -> int:
        """The memory to set aside: what is requested, else the limit."""
        return self.container.requests.memory_bytes or self.container.requests.memory_limit_bytes


def request_of(container: Container, options: Options, choices: Choices, zones: MemoryZones) -> Request:
    """The request of a container. NoPlace for annotations that cannot be meant."""
    request = _cpu_request(container, options, choices)
    kinds = request.memory_kinds = _memory_kinds(container, zones)
    if kinds is not None and not zones.nodes_of_kinds(PMEM) & ~zones.normal and cold_start_s(container):
        request.cold = bool(kinds & DRAM) and (bool(kinds & PMEM) or not choices.cold_starts_need_slow_memory)
        request.memory_kinds = kinds & ~DRAM if request.cold else kinds
    return request


def _cpu_request(container: Container, options: Options, choices: Choices) -> Request:
    cpu_m, default = container.requests.cpu_m, Priority.named(options.defaultCPUPriority)
    limit_m = container.requests.cpu_limit_m or None
    reserved, said = _flag(container, "prefer-reserved-cpus", False)
    whole = Request(container, 0, cpu_m, limit_m=limit_m, priority=default)
    if container.preserves("cpu"):
        whole.kind = CpuKind.PRESERVE
    elif reserved or (_in_reserved_namespace(container, options) and not said):
        whole.kind = CpuKind.RESERVED
    elif container.qos == "BestEffort":
        whole.shared_m = 0
    elif container.qos == "Guaranteed":
        return _guaranteed(container, options, choices, default)
    return whole


def _guaranteed(container: Container, options: Options, choices: Choices, default: Priority) -> Request:
    cpu_m = container.requests.cpu_m
    cores, rest_m = divmod(cpu_m, 1000)
    isolated, isolated_said, only = _isolation(container, options, choices)
    shared, shared_said = _flag(container, "prefer-shared-cpus", options.preferSharedCPUs)
    if cores >= 2 and rest_m:
        shared = shared or not shared_said  # parts beside whole CPUs are hard to use: only for pods that say so
    elif cores >= 2:
        isolated = isolated and isolated_said  # the scheduler does not spread processes over isolated CPUs
    request = Request(container, cores, rest_m, limit_m=cpu_m, priority=_priority(container, default))
    if cores == 0 or shared:
        request.exclusive, request.shared_m = 0, cpu_m
    else:
        request.isolated, request.only_isolated = isolated, only
    return request


def _flag(container: Container, key: str, default: bool) -> tuple[bool, bool]:
    """A preference, and whether the pod says it."""
    found = container.asks_flag(key)
    return (default, False) if found is None else (found[1], True)


def _in_reserved_namespace(container: Container, options: Options) -> bool:
    namespace = container.pod.namespace
    return namespace == "kube-system" or matches(namespace, options.reservedPoolNamespaces)


def _isolation(container: Container, options: Options, choices: Choices) -> tuple[bool, bool, bool]:
    """Whether isolated CPUs are preferred, whether the pod says so, and whether it wants no others.

    Of a requirement and a preference the one with the nearer scope counts, of two with the same the requirement.
    """
    required, preferred = container.asks("require-isolated-cpus"), container.asks("prefer-isolated-cpus")
    if required is None and preferred is None:
        return options.preferIsolatedCPUs, False, False
    only = required is not None and (preferred is None or required[0] <= preferred[0])
    if not only and not choices.unscoped_isolation_counts and required is None and preferred and preferred[0] == 2:
        return options.preferIsolatedCPUs, False, False
    found = container.asks_flag("require-isolated-cpus" if only else "prefer-isolated-cpus")
    return (options.preferIsolatedCPUs, False, only) if found is None else (found[1], True, only)


def _priority(container: Container, default: Priority) -> Priority:
    found = container.asks("prefer-cpu-priority")
    if found is None or found[1] == "default":
        return default
    if found[1] not in ("high", "normal", "low", "none"):
        container.doubt("prefer-cpu-priority", f"{shown(found[1])} is none of high, normal, low, none and default")
        return default
    return Priority.named(found[1])


def cold_start_s(container: Container) -> float:
    """For how many seconds a container is to begin without DRAM, 0 if it does not say. NoPlace for what is no time."""
    try:
        words = container.table("cold-start", "duration").get("duration", "0s")
        if not isinstance(words, str):
            raise ValueError(f"duration: {json.dumps(words)} is no text such as 60s")  # noqa: TRY004 - as all others
        seconds = parse_duration(words)
        if not 0 <= seconds <= _LONGEST_S:
            raise ValueError(f"duration: {words} is not from 0s to 1h")
    except (ConfigError, ValueError) as error:
        raise container.refusal("cold-start", error) from error
    return seconds


def _memory_kinds(container: Container, zones: MemoryZones) -> int | None:
    if container.preserves("memory"):
        return None
    kinds = (container.asks_memory() or DRAM | PMEM) & zones.kinds
    if kinds == PMEM and zones.nodes_of_kinds(PMEM) & ~zones.normal:
        kinds |= DRAM  # else nothing of it could hold what cannot be moved
    return kinds
