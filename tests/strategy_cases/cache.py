"""Stages of caches and memory bandwidth by class. Next: `tests.strategy_cases.slo`."""

from __future__ import annotations

from typing import Any

from nri.policies import paths
from nri.policies.koordinator import pod_class
from nri.policies.koordinator.loops import resctrl
from nri.policies.koordinator.names import ANNOTATION_RESCTRL
from nri.policies.manifest import active

__all__ = ["STAGES"]

Json = dict[str, Any]


def _bandwidth(given: Json) -> Json:
    return {"mb": resctrl.bandwidth(given["args"]["percent"], (given.get("cpu_basic") or {}).get("vendorID", ""))}


def _mask(given: Json) -> Json:
    args = given["args"]
    try:
        found = resctrl.mask(int(args["cbm"], 16), args["start_percent"], args["end_percent"])
    except ValueError:
        return {"error": True}
    return {"error": False, "mask": f"{found:x}"}


def _reconcile(given: Json) -> Json:
    files = dict(given.get("files") or {})
    outcomes = [{"writes": _round({**given, **step}, files)} for step in given.get("steps") or [{}]]
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _round(given: Json, files: dict[str, str]) -> list[Json]:
    strategy = ((given.get("node_slo") or {}).get("spec") or {}).get("resourceQOSStrategy") or {}
    basic, writes = given.get("cpu_basic") or {}, []
    try:
        ways = int(basic.get("catL3CbmMask") or "", 16)
    except ValueError:
        ways = 0  # it is not known, so schemata stay as they are; threads are moved all the same
    domains = sorted({each["l3"] for each in given.get("cpus") or ()})
    for group, key in resctrl.GROUPS.items() if ways and domains else ():
        config = (strategy.get(key) or {}).get("resctrlQOS")
        path = f"/fs/resctrl/{group}/schemata"
        if config is None or path not in files:
            continue
        lines = resctrl.schemata(config, ways, basic.get("vendorID", ""), domains)
        writes += [{"path": path, "value": line} for line in lines if _changed(files, path, line)]
    for group, key in resctrl.GROUPS.items():
        if not ((strategy.get(key) or {}).get("resctrlQOS") or {}).get("enable"):
            continue
        new = sorted(set(_wanted(given, files, group)) - set(_ids(files.get(f"/fs/resctrl/{group}/tasks", ""))))
        if new:
            writes.append({"path": f"/fs/resctrl/{group}/tasks", "value": "\n".join(map(str, new))})
            _move(files, group, new)
    return writes


def _wanted(given: Json, files: dict[str, str], group: str) -> list[int]:
    """The threads of the containers of a class."""
    found: list[int] = []
    for each in given.get("pods") or ():
        pod = each["pod"]
        if not active(pod) or resctrl.group_of(pod_class.default_qos(pod)) != group:
            continue
        if ANNOTATION_RESCTRL in (pod["metadata"].get("annotations") or {}):
            continue
        names = {one["name"] for one in pod["spec"].get("containers") or ()}
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            if status["name"] not in names:
                continue
            folder = paths.container_path(each["cgroup_dir"], status.get("containerID", ""))
            name = f"/{folder}/cgroup.threads" if given.get("cgroup_v2") else f"/cpu/{folder}/tasks"
            found += _ids(files.get(name, ""))
    return found


def _ids(text: str) -> list[int]:
    return [int(each) for each in text.split()]


def _changed(files: dict[str, str], path: str, line: str) -> bool:
    """Put a line among those of other resources, as the kernel does; return whether that changed any."""
    name, _, values = line.strip().partition(":")
    values = values.rstrip(";")
    lines = [each.strip() for each in files[path].splitlines()]
    if f"{name}:{values}" in lines:
        return False
    files[path] = "\n".join([each for each in lines if not each.startswith(f"{name}:")] + [f"{name}:{values}"])
    return True


def _move(files: dict[str, str], group: str, new: list[int]) -> None:
    """A thread is in one group only."""
    for other in ("", *(f"/{name}" for name in resctrl.GROUPS)):
        path = f"/fs/resctrl{other}/tasks"
        left = [each for each in _ids(files.get(path, "")) if each not in new]
        files[path] = "\n".join(map(str, [*left, *(new if other == f"/{group}" else ())]))


STAGES = {"reconcile": _reconcile, "mba": _bandwidth, "l3_mask": _mask}
