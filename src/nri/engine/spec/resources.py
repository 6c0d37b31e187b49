"""Convert a container's resources from the CRI to a spec, and compute its OOM score and cgroup path.

0 and an empty string mean "not set". Limits that this machine's cgroups do not support are left out with a note,
because the kubelet sends page sizes and unified keys without checking them.
"""

from __future__ import annotations

import re
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Machine
from nri.engine.spec.limits import check_path
from nri.errors import RequestError

_FIELD = "linux.resources"
_MIN_SHARES = 2
#: CPU numbers have at most five digits, because runtimes expand the ranges to a set.
_CPUSET = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_CPUSET_LENGTH = 4096
_PAGE_SIZE = re.compile(r"[0-9]{1,10}[KMGT]B")
#: The name of a file of cgroup v2: the controller and the setting.
_UNIFIED = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[A-Za-z0-9_]{1,64}){1,4}")
_MAX_SHARES = 262_144
_PERIODS = (1_000, 1_000_000)  # microseconds, the kernel's range
#: Field of the CRI's message, key of the spec's ``cpu``.
_CPU = (("cpu_shares", "shares"), ("cpu_quota", "quota"), ("cpu_period", "period"))


def container_resources(
    requested: pb.LinuxContainerResources, machine: Machine, notes: list[str], *, field: str = _FIELD
) -> dict[str, Any]:
    """Return the ``linux.resources`` of a request, without devices and limits of processes.

    Raises:
        RequestError: a value is invalid on every machine.
    """
    resources: dict[str, Any] = {}
    if cpu := _cpu(requested, field):
        resources["cpu"] = cpu
    if memory := _memory(requested, machine, notes, field):
        resources["memory"] = memory
    if limits := _hugepages(requested, machine, notes, field):
        resources["hugepageLimits"] = limits
    if requested.unified:
        for key, value in requested.unified.items():
            if not _UNIFIED.fullmatch(key) or "\0" in value:
                raise RequestError(f"{field}.unified[{key}]", value, "is not a setting of cgroup v2")
        if machine.cgroup_v2:
            resources["unified"] = dict(requested.unified)
        else:
            keys = ", ".join(sorted(requested.unified))
            notes.append(f"{field}.unified: {keys} is ignored: this machine has cgroup v1")
    return resources


def _cpu(requested: pb.LinuxContainerResources, field: str) -> dict[str, Any]:
    cpu: dict[str, Any] = {key: value for name, key in _CPU if (value := getattr(requested, name))}
    for name, key in (_CPU[0], _CPU[2]):
        if cpu.get(key, 0) < 0:
            raise RequestError(f"{field}.{name}", cpu[key], "must not be negative")
    if "shares" in cpu:
        cpu["shares"] = min(max(cpu["shares"], _MIN_SHARES), _MAX_SHARES)
    if cpu.get("quota", 0) < -1:
        raise RequestError(f"{field}.cpu_quota", cpu["quota"], "must not be negative, except for -1 (no limit)")
    if "period" in cpu and not _PERIODS[0] <= cpu["period"] <= _PERIODS[1]:
        reason = f"must be between {_PERIODS[0]} and {_PERIODS[1]} microseconds"
        raise RequestError(f"{field}.cpu_period", cpu["period"], reason)
    for name, key in (("cpuset_cpus", "cpus"), ("cpuset_mems", "mems")):
        text = getattr(requested, name)
        if text and (len(text) > _CPUSET_LENGTH or not _CPUSET.fullmatch(text)):
            raise RequestError(f"{field}.{name}", text, "must be a list like 0-3,8")
        if text:
            cpu[key] = text
    return cpu


def _memory(requested: pb.LinuxContainerResources, machine: Machine, notes: list[str], field: str) -> dict[str, Any]:
    limit, swap = requested.memory_limit_in_bytes, requested.memory_swap_limit_in_bytes
    if limit < -1:
        raise RequestError(f"{field}.memory_limit_in_bytes", limit, "must not be negative, except for -1 (no limit)")
    if swap < -1:
        raise RequestError(
            f"{field}.memory_swap_limit_in_bytes", swap, "must not be negative, except for -1 (no limit)"
        )
    if limit > 0 and 0 < swap < limit:
        reason = f"must include the memory limit of {limit}"
        raise RequestError(f"{field}.memory_swap_limit_in_bytes", swap, reason)
    # A memory limit without a limit of swap limits both together, so that a container does not swap by default.
    memory = {"limit": limit} if limit else {}
    if swap and not machine.swap_limit:
        notes.append(f"{field}.memory_swap_limit_in_bytes: {swap} is ignored: this machine cannot limit swap")
    elif machine.swap_limit and (swap or limit):
        memory["swap"] = swap or limit
    return memory


def _hugepages(
    requested: pb.LinuxContainerResources, machine: Machine, notes: list[str], field: str
) -> list[dict[str, Any]]:
    limits = []
    for index, limit in enumerate(requested.hugepage_limits):
        if not _PAGE_SIZE.fullmatch(limit.page_size):
            reason = "must be a page size like 2MB"
            raise RequestError(f"{field}.hugepage_limits[{index}].page_size", limit.page_size, reason)
        if machine.hugetlb:
            limits.append({"pageSize": limit.page_size, "limit": limit.limit})
        elif limit.limit:
            value = f"{limit.limit} bytes of {limit.page_size}"
            notes.append(f"{field}.hugepage_limits: {value} is ignored: this machine cannot limit huge pages")
    return limits


def oom_score(score: int, machine: Machine, notes: list[str], *, field: str = f"{_FIELD}.oom_score_adj") -> int:
    """Return ``process.oomScoreAdj``, raised to the lowest value that the engine may set.

    Raises:
        RequestError: the value is not between -1000 and 1000.
    """
    if not -1000 <= score <= 1000:
        raise RequestError(field, score, "must be between -1000 and 1000")
    if score >= machine.oom_score_floor:
        return score
    floor = machine.oom_score_floor
    notes.append(
        f"{field}: {score} is raised to {floor}, the engine's own score, because the engine lacks CAP_SYS_RESOURCE"
    )
    return floor


def cgroups_path(parent: str, container_id: str, *, systemd: bool) -> str:
    """Return ``linux.cgroupsPath``: a path below the pod's cgroup, or the slice and scope for systemd.

    Raises:
        RequestError: the parent leads out of the hierarchy, or is not a slice.
    """
    field = "linux.cgroup_parent"
    if ".." in parent.split("/"):
        raise RequestError(field, parent, "must not contain '..'")
    check_path(field, f"{parent}/{container_id}")
    if not systemd:
        return f"/{parent.strip('/')}/{container_id}".replace("//", "/")
    last = parent.rstrip("/").rpartition("/")[2]
    if parent and not last.endswith(".slice"):
        raise RequestError(field, parent, "must be a slice, because the engine uses systemd's cgroups")
    return f"{last}:nri:{container_id}"
