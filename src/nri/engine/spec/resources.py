"""Resources of a container: from the CRI into a spec, and its OOM score and cgroup.

What a creation and an update share. 0 and an empty text say "not set". A memory limit without a word on
swap is one for both together, so that a container does not swap by default. Limits that this machine's cgroups lack
are left out with a note, as in the field: the kubelet sends page sizes and unified keys without asking.
"""

from __future__ import annotations

import re
from typing import Any

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec.inputs import Machine
from nri.engine.spec.limits import check_path
from nri.errors import RequestError

_FIELD = "linux.resources"
_LEAST_SHARES = 2
#: Numbers of five digits at most: runtimes make a set of them all.
_CPUSET = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_CPUSET_LENGTH = 4096
_PAGE_SIZE = re.compile(r"[0-9]{1,10}[KMGT]B")
#: The name of a file of cgroup v2: a controller and what it has.
_UNIFIED = re.compile(r"[a-z][a-z0-9_]{0,63}(\.[A-Za-z0-9_]{1,64}){1,4}")
_MOST_SHARES = 262_144
_PERIODS = (1_000, 1_000_000)  # microseconds, as the kernel has it
#: Of the CRI's message, and of the spec's ``cpu``.
_CPU = (("cpu_shares", "shares"), ("cpu_quota", "quota"), ("cpu_period", "period"))


def container_resources(
    asked: pb.LinuxContainerResources, machine: Machine, notes: list[str], *, field: str = _FIELD
) -> dict[str, Any]:
    """The ``linux.resources`` of a request, without devices and processes. The OOM score is not among them.

    Raises:
        RequestError: a value that no cgroup can have.
    """
    made: dict[str, Any] = {}
    if cpu := _cpu(asked, field):
        made["cpu"] = cpu
    if memory := _memory(asked, machine, notes, field):
        made["memory"] = memory
    if limits := _hugepages(asked, machine, notes, field):
        made["hugepageLimits"] = limits
    if asked.unified:
        for key, value in asked.unified.items():
            if not _UNIFIED.fullmatch(key) or "\0" in value:
                raise RequestError(f"{field}.unified[{key}]", value, "is not a file of cgroup v2")
        if machine.cgroup_v2:
            made["unified"] = dict(asked.unified)
        else:
            keys = ", ".join(sorted(asked.unified))
            notes.append(f"{field}.unified: {keys} is left out: this machine has cgroup v1")
    return made


def _cpu(asked: pb.LinuxContainerResources, field: str) -> dict[str, Any]:
    made: dict[str, Any] = {key: value for name, key in _CPU if (value := getattr(asked, name))}
    for name, key in (_CPU[0], _CPU[2]):
        if made.get(key, 0) < 0:
            raise RequestError(f"{field}.{name}", made[key], "is negative")
    if "shares" in made:
        made["shares"] = min(max(made["shares"], _LEAST_SHARES), _MOST_SHARES)
    if made.get("quota", 0) < -1:
        raise RequestError(f"{field}.cpu_quota", made["quota"], "is negative, and not -1 for no limit")
    if "period" in made and not _PERIODS[0] <= made["period"] <= _PERIODS[1]:
        reason = f"is not between {_PERIODS[0]} and {_PERIODS[1]} microseconds"
        raise RequestError(f"{field}.cpu_period", made["period"], reason)
    for name, key in (("cpuset_cpus", "cpus"), ("cpuset_mems", "mems")):
        text = getattr(asked, name)
        if text and (len(text) > _CPUSET_LENGTH or not _CPUSET.fullmatch(text)):
            raise RequestError(f"{field}.{name}", text, "is not a list like 0-3,8")
        if text:
            made[key] = text
    return made


def _memory(asked: pb.LinuxContainerResources, machine: Machine, notes: list[str], field: str) -> dict[str, Any]:
    limit, swap = asked.memory_limit_in_bytes, asked.memory_swap_limit_in_bytes
    if limit < -1:
        raise RequestError(f"{field}.memory_limit_in_bytes", limit, "is negative")
    if swap < -1:
        raise RequestError(f"{field}.memory_swap_limit_in_bytes", swap, "is negative")
    if limit > 0 and 0 < swap < limit:
        reason = f"is memory and swap together, so no less than the memory limit {limit}"
        raise RequestError(f"{field}.memory_swap_limit_in_bytes", swap, reason)
    made = {"limit": limit} if limit else {}
    if swap and not machine.swap_limit:
        notes.append(f"{field}.memory_swap_limit_in_bytes: {swap} is left out: this machine cannot limit swap")
    elif machine.swap_limit and (swap or limit):
        made["swap"] = swap or limit
    return made


def _hugepages(
    asked: pb.LinuxContainerResources, machine: Machine, notes: list[str], field: str
) -> list[dict[str, Any]]:
    made = []
    for index, limit in enumerate(asked.hugepage_limits):
        if not _PAGE_SIZE.fullmatch(limit.page_size):
            reason = "is no page size like 2MB"
            raise RequestError(f"{field}.hugepage_limits[{index}].page_size", limit.page_size, reason)
        if machine.hugetlb:
            made.append({"pageSize": limit.page_size, "limit": limit.limit})
        elif limit.limit:
            what = f"{limit.limit} bytes of {limit.page_size}"
            notes.append(f"{field}.hugepage_limits: {what} is left out: this machine cannot limit huge pages")
    return made


def oom_score(wanted: int, machine: Machine, notes: list[str], *, field: str = f"{_FIELD}.oom_score_adj") -> int:
    """The ``process.oomScoreAdj``: never left to the engine's own, and raised to what the engine may set.

    Raises:
        RequestError: it is not between -1000 and 1000.
    """
    if not -1000 <= wanted <= 1000:
        raise RequestError(field, wanted, "is not between -1000 and 1000")
    if wanted >= machine.oom_score_floor:
        return wanted
    floor = machine.oom_score_floor
    notes.append(f"{field}: {wanted} becomes {floor}: the engine has not CAP_SYS_RESOURCE, and is at {floor} itself")
    return floor


def cgroups_path(parent: str, container_id: str, *, systemd: bool) -> str:
    """The ``linux.cgroupsPath``: below the pod's cgroup, or the slice and scope that systemd is asked for.

    Raises:
        RequestError: the parent leads out of the hierarchy, or is no slice.
    """
    field = "linux.cgroup_parent"
    if ".." in parent.split("/"):
        raise RequestError(field, parent, "leads out of the hierarchy")
    check_path(field, f"{parent}/{container_id}")
    if not systemd:
        return f"/{parent.strip('/')}/{container_id}".replace("//", "/")
    last = parent.rstrip("/").rpartition("/")[2]
    if parent and not last.endswith(".slice"):
        raise RequestError(field, parent, "is no slice, and cgroups are systemd's here")
    return f"{last}:nri:{container_id}"
