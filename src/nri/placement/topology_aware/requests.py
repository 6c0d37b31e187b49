"""The request of a container to topology-aware: exclusive, shared or reserved CPUs, and memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

from nri.config import parse_duration
from nri.errors import ConfigError
from nri.placement.choices import Choices
from nri.placement.containers import Container, quoted
from nri.placement.expressions import matches
from nri.placement.machine import Priority
from nri.placement.topology_aware.options import Options
from nri.placement.zones import DRAM, PMEM, MemoryZones

_MAX_COLD_START_S = 3600.0


class CpuKind(Enum):
    """The kind of a container's CPUs: general CPUs, the system's CPUs, or the CPUs that the container already has."""

    NORMAL = "normal"
    RESERVED = "reserved"
    PRESERVE = "preserve"


@dataclass(slots=True)
class Request:
    """A container's request.

    Attributes:
        exclusive: the number of exclusive CPUs.
        shared_m: thousandths of shared CPUs.
        limit_m: the CPU limit of a Burstable container, or None.
        isolated: whether exclusive CPUs should be isolated by the kernel.
        only_isolated: whether exclusive CPUs must be isolated.
        memory_kinds: the mask of memory kinds, or None if its memory nodes are not changed.
        cold: whether the container gets DRAM only later; `memory_kinds` is then without DRAM.
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
        """The memory to reserve: the request, else the limit."""
        return self.container.requests.memory_bytes or self.container.requests.memory_limit_bytes


def request_of(container: Container, options: Options, choices: Choices, zones: MemoryZones) -> Request:
    """The request of a container. Raises NoPlace if an annotation is invalid."""
    request = _cpu_request(container, options, choices)
    kinds = request.memory_kinds = _memory_kinds(container, zones)
    if kinds is not None and not zones.nodes_of_kinds(PMEM) & ~zones.normal and cold_start_s(container):
        request.cold = bool(kinds & DRAM) and (bool(kinds & PMEM) or not choices.cold_starts_need_slow_memory)
        request.memory_kinds = kinds & ~DRAM if request.cold else kinds
    return request


def _cpu_request(container: Container, options: Options, choices: Choices) -> Request:
    cpu_m, default = container.requests.cpu_m, Priority.named(options.defaultCPUPriority)
    limit_m = container.requests.cpu_limit_m or None
    reserved, is_annotated = _flag(container, "prefer-reserved-cpus", False)
    request = Request(container, 0, cpu_m, limit_m=limit_m, priority=default)
    if container.preserves("cpu"):
        request.kind = CpuKind.PRESERVE
    elif reserved or (_in_reserved_namespace(container, options) and not is_annotated):
        request.kind = CpuKind.RESERVED
    elif container.qos == "BestEffort":
        request.shared_m = 0
    elif container.qos == "Guaranteed":
        return _guaranteed(container, options, choices, default)
    return request


def _guaranteed(container: Container, options: Options, choices: Choices, default: Priority) -> Request:
    cpu_m = container.requests.cpu_m
    cores, fraction_m = divmod(cpu_m, 1000)
    isolated, isolated_annotated, only = _isolation(container, options, choices)
    shared, shared_annotated = _flag(container, "prefer-shared-cpus", options.preferSharedCPUs)
    if cores >= 2 and fraction_m:
        shared = shared or not shared_annotated  # exclusive CPUs plus a fraction only on request: it is hard to use
    elif cores >= 2:
        isolated = isolated and isolated_annotated  # the scheduler does not spread processes over isolated CPUs
    request = Request(container, cores, fraction_m, limit_m=cpu_m, priority=_priority(container, default))
    if cores == 0 or shared:
        request.exclusive, request.shared_m = 0, cpu_m
    else:
        request.isolated, request.only_isolated = isolated, only
    return request


def _flag(container: Container, key: str, default: bool) -> tuple[bool, bool]:
    """The value of a preference, and whether it comes from an annotation."""
    annotation = container.scoped_flag(key)
    return (default, False) if annotation is None else (annotation[1], True)


def _in_reserved_namespace(container: Container, options: Options) -> bool:
    namespace = container.pod.namespace
    return namespace == "kube-system" or matches(namespace, options.reservedPoolNamespaces)


def _isolation(container: Container, options: Options, choices: Choices) -> tuple[bool, bool, bool]:
    """Whether isolated CPUs are preferred, whether that comes from an annotation, and whether they are required.

    If both annotations exist, the narrower scope decides; with equal scopes the requirement decides.
    """
    required, preferred = (
        container.scoped_annotation("require-isolated-cpus"),
        container.scoped_annotation("prefer-isolated-cpus"),
    )
    if required is None and preferred is None:
        return options.preferIsolatedCPUs, False, False
    only = required is not None and (preferred is None or required[0] <= preferred[0])
    if not only and not choices.unscoped_isolation_counts and required is None and preferred and preferred[0] == 2:
        return options.preferIsolatedCPUs, False, False
    annotation = container.scoped_flag("require-isolated-cpus" if only else "prefer-isolated-cpus")
    return (options.preferIsolatedCPUs, False, only) if annotation is None else (annotation[1], True, only)


def _priority(container: Container, default: Priority) -> Priority:
    annotation = container.scoped_annotation("prefer-cpu-priority")
    if annotation is None or annotation[1] == "default":
        return default
    if annotation[1] not in ("high", "normal", "low", "none"):
        container.doubt(
            "prefer-cpu-priority", f"{quoted(annotation[1])} is not one of high, normal, low, none, default"
        )
        return default
    return Priority.named(annotation[1])


def cold_start_s(container: Container) -> float:
    """The duration of a container's cold start in seconds, or 0. Raises NoPlace if the annotation is invalid."""
    try:
        duration = container.table("cold-start", "duration").get("duration", "0s")
        if not isinstance(duration, str):
            raise ValueError(f"duration: {json.dumps(duration)} is not a string such as 60s")  # noqa: TRY004 - caught below
        seconds = parse_duration(duration)
        if not 0 <= seconds <= _MAX_COLD_START_S:
            raise ValueError(f"duration: {duration} must be from 0s to 1h")
    except (ConfigError, ValueError) as error:
        raise container.refusal("cold-start", error) from error
    return seconds


def _memory_kinds(container: Container, zones: MemoryZones) -> int | None:
    if container.preserves("memory"):
        return None
    kinds = (container.memory_mask() or DRAM | PMEM) & zones.kinds
    if kinds == PMEM and zones.nodes_of_kinds(PMEM) & ~zones.normal:
        kinds |= DRAM  # PMEM that is not normal memory cannot hold unmovable pages
    return kinds
