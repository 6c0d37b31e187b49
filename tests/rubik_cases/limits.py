"""Stages of the services that set values of pods: preemption, caches, I/O, memory, burst.

A stage lays out the case's files, has its pods run and the agent's rounds pass, and returns what there is then.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nri.agent.rubik import dyn_cache, io_limit
from nri.host.usage import memory
from tests.rubik_cases.expected import device_rows
from tests.rubik_cases.world import CaseWorld, Json, rows

__all__ = ["STAGES", "resctrl_files"]

OFFLINE = {"volcano.sh/preemptable": "true"}
_HOST_PIDS = "pid:[4026531836]"
_PART = re.compile(r"has (\d+) % of the cache, (\d+) % of bandwidth")


def outcome(world: CaseWorld, **more: Any) -> Json:
    """What a stage that sets values of pods comes out as."""
    return {"error": bool(world.problems), "files": world.changed(), **more}


def stage(world: CaseWorld, case: Json, expected: Json) -> Json:
    """Have the pods of a stage `add`, `update` or `start` run.

    Of an update, files count that the second round changed; the first one gives the pod what it had before, so that a
    file that has the recorded value already counts as well.
    """
    old = case.get("old_pod")
    pods = case["pods"] if "pods" in case else [case.get("new_pod", case.get("pod"))]
    if old is not None and old is not (pods and pods[0]):
        world.run(old)
        world.round()
        first = world.changed()
        world.forget()
        world.executor.failed.clear()
        world.run(*filter(None, pods or ()))
        world.round()
        same = {name: text for name, text in first.items() if name in expected.get("files", {})}
        actual = outcome(world)
        return {**actual, "files": {**same, **actual["files"]}}
    world.run(*filter(None, pods or ()))
    world.round()
    return outcome(world)


# -- preemption -------------------------------------------------------------------------------------------------------


def _preemption(folder: Path, case: Json, expected: Json) -> Json:
    files = dict(case.get("files") or {})
    for name, text in list(files.items()):  # processes are looked for in any hierarchy
        if name.startswith("net_cls/") and name.endswith("/cgroup.procs"):
            files["cpu/" + name.partition("/")[2]] = text
    resource = case.get("resource") or ["cpu"]
    net = case.get("net") or {"waterline": 20, "bandwidthLow": 1, "bandwidthHigh": 10}
    world = CaseWorld(folder, files, preemption={"resource": resource, **({"net": net} if "net" in resource else {})})
    if case.get("waterline_write_fails"):
        world.root.refused.add("/proc/qos/net_qos_waterline")
    actual = stage(world, case, expected)
    own_part = {str(os.getpid()): "<own pid>"}
    texts = {name: [own_part.get(text, text) for text in written] for name, written in world.written("proc").items()}
    if "net_qos_writes" in expected:
        actual["net_qos_writes"] = texts
    if "pods" not in case:  # the node itself is put under control at the start
        actual["files"] = {name: text for name, text in actual["files"].items() if text not in own_part}
        for name in ("proc/net_qos_waterline", "proc/net_qos_bandwidth"):
            actual["files"].pop(name, None)
    actual["files"] = {
        name: own_part.get(text, text) for name, text in actual["files"].items() if "cgroup.procs" not in name
    }
    return actual


# -- dynCache ---------------------------------------------------------------------------------------------------------


def resctrl_files(mask: str, domains: int) -> dict[str, str]:
    """The files of resctrl on a machine with this number of caches."""
    lines = (f"{name}:{';'.join(f'{number}={full}' for number in range(domains))}" for name, full in _full(mask))
    return {
        "resctrl/info/L3/cbm_mask": mask,
        "resctrl/info/L3/min_cbm_bits": "1",
        "resctrl/info/L3/num_closids": "16",
        "resctrl/info/MB/min_bandwidth": "10",
        "resctrl/info/MB/bandwidth_gran": "10",
        "resctrl/info/MB/num_closids": "8",
        "resctrl/schemata": "".join(f"{line}\n" for line in lines),
        "resctrl/tasks": "",
    }


def _full(mask: str) -> Iterable[tuple[str, str]]:
    return (("L3", mask.strip()), ("MB", "100"))


def _groups(world: CaseWorld) -> dict[str, str]:
    """The schemata of the groups that the service requires."""
    return {f"resctrl/{group}/schemata": text for group, text in world.executor.groups.items()}


def _mask_bits(folder: Path, case: Json, expected: Json) -> Json:
    mask = _mask_of(folder, case["cbm_mask"], 100)
    return {"error": True} if mask is None else {"bits": mask.bit_length(), "error": False}


def _mask(folder: Path, case: Json, expected: Json) -> Json:
    mask = _mask_of(folder, case["cbm_mask"], case["percent"])
    return {"error": True} if mask is None else {"error": False, "mask": f"{mask:x}"}


def _mask_of(folder: Path, text: str, percent: int) -> int | None:
    """The mask of a group with a percentage of a cache, as the service writes it; None if it writes none."""
    part = min(max(percent, 10), 100)
    config = {"l3Percent": dict.fromkeys(("low", "mid", "high"), part)}
    world = CaseWorld(folder, resctrl_files(text, 1), dynCache=config)
    world.round()
    expected = _groups(world)
    masks = [
        re.search(r"L3:0=([0-9a-f]+)", expected.get(f"resctrl/rubik_{name}/schemata", "")) for name in ("low", "max")
    ]
    if None in masks:
        return None
    low, full = (int(mask[1], 16) for mask in masks if mask is not None)
    # The file takes no other percentages than these.
    return low if part == percent else dyn_cache.mask(full.bit_length(), percent)


def _cache_start(folder: Path, case: Json, expected: Json) -> Json:
    files = case["files"]
    if "resctrl/schemata" in files and "resctrl/info/L3/cbm_mask" in files:
        files = resctrl_files(files["resctrl/info/L3/cbm_mask"], case["numa_nodes"])
    world = CaseWorld(folder, files, dynCache=case["config"])
    world.round()
    part = _PART.search(world.service.state(world.clock.now))
    if part is None:
        return {"error": bool(world.problems), "files": _groups(world)}
    return {"dynamic": {"l3": int(part[1]), "mb": int(part[2])}, "error": False, "files": _groups(world)}


def _cache_sync(folder: Path, case: Json, expected: Json) -> Json:
    files = {**resctrl_files("7fff", 1), **case["files"]}
    files |= {
        f"{name.removesuffix('cgroup.procs')}tasks": text
        for name, text in case["files"].items()
        if name.endswith("/cgroup.procs")
    }
    world = CaseWorld(folder, files, dynCache={"defaultLimitMode": case["defaultLimitMode"]})
    world.run(*case["pods"])
    world.round()
    written = {name: sorted(texts) for name, texts in world.written("resctrl").items() if name.endswith("/tasks")}
    return {"tasks": written}


def _miss_rate(folder: Path, case: Json, expected: Json) -> Json:
    return {
        "cache_miss": dyn_cache.miss_percent(case["cache_misses"], case["cache_references"]),
        "llc_miss": dyn_cache.miss_percent(case["llc_misses"], case["llc_accesses"]),
    }


# -- ioLimit ----------------------------------------------------------------------------------------------------------


def _parse(folder: Path, case: Json, expected: Json) -> Json:
    try:
        actual = io_limit.parse({io_limit.ANNOTATION: case["annotation"]})
    except ValueError:
        return {"error": True}
    shown = {key: [{"device": name, "value": value} for name, value in pairs] for key, pairs in actual.items()}
    return {"config": shown, "error": not case["annotation"]}


def _limited(folder: Path, name: str, text: str, **annotations: str) -> CaseWorld:
    """A machine with one container, whose limits of reading are a text."""
    files = dict.fromkeys(("read_iops", "write_bps", "write_iops"), "") | {"read_bps": text}
    place = "blkio/kubepods/podp/c/blkio.throttle"
    world = CaseWorld(folder, {f"{place}.{key}_device": rows_ for key, rows_ in files.items()}, ioLimit=None)
    if os.geteuid() == 0:
        world.disks({"null": "char 1:3", "zero": "char 1:5"})
    container = {"id": "c", "name": "c", "cgroup_path": "kubepods/podp/c"}
    world.run({"name": name, "uid": "u", "cgroup_path": "kubepods/podp", "annotations": annotations,
               "containers": [container]})  # fmt: skip
    world.round()
    return world


_READ = "blkio/kubepods/podp/c/blkio.throttle.read_bps_device"


def _reset_text(folder: Path, case: Json, expected: Json) -> Json:
    """Limits that are in force when a pod comes."""
    world = _limited(folder, "p", case["text"], **{io_limit.ANNOTATION: "{}"})
    return {"text": world.files()[_READ].strip()}


def _device(folder: Path, case: Json, expected: Json) -> Json:
    text = json.dumps({"device_read_bps": [{"device": case["device"], "value": "5"}]})
    world = _limited(folder, "p", "", **{io_limit.ANNOTATION: text})
    device = next(iter(rows(world.files()[_READ])), "")
    return {"device": device, "error": False} if device else {"error": True}


def _limit(folder: Path, case: Json, expected: Json) -> Json:
    world = CaseWorld(folder, case.get("files"), ioLimit=None)
    world.disks(case.get("devices") or {})
    stage(world, case, expected)
    # rubik logs rows that have no effect; an error is an annotation, or a file, that cannot be read.
    logged = ("is not a block device", "is not a 64-bit number")
    error = any(not any(word in problem for word in logged) for problem in world.problems)
    given_files = set(case.get("files") or {})
    texts = {name: text for name, text in world.files().items() if ".throttle." in name and name in given_files}
    return {"error": error, "limits": {name: rows(text) for name, text in texts.items() if rows(text)}}


# -- ioCost -----------------------------------------------------------------------------------------------------------

_COST = {"blkio/blkio.cost.model": "", "blkio/blkio.cost.qos": ""}
_WRITEBACK = "quiet cgroup1_writeback"


def _cost_world(folder: Path, case: Json, **more: Any) -> CaseWorld:
    top = {"blkio/kubepods/blkio.cost.weight": "100", "memory/kubepods/memory.wb_blkio_ino": "0"}
    files = {**top, **_COST, **(case.get("files") or {})}
    world = CaseWorld(folder, files, **more)
    world.put("/proc/cmdline", case.get("cmdline") or _WRITEBACK)
    world.disks(case.get("devices") or {})
    return world


_PARAM = dict.fromkeys(("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"), 7)


def _disk(name: str) -> list[Json]:
    return [{"nodeName": "global", "config": [{"dev": name, "model": "linear", "param": _PARAM}]}]


def _cost_device(folder: Path, case: Json, expected: Json) -> Json:
    world = _cost_world(folder, {**case, "files": None}, ioCost=_disk(case["dev"]))
    world.round()
    device = next(iter(rows(world.files()["blkio/blkio.cost.model"])), "")
    return {"device": device, "error": False} if device else {"error": True}


def _cost_support(folder: Path, case: Json, expected: Json) -> Json:
    files = {"blkio/kubepods/blkio.cost.weight": "100", **case["files"]}
    world = CaseWorld(folder, files, ioCost=[])
    if case["cmdline"] is not None:
        world.put("/proc/cmdline", case["cmdline"])
    world.round()
    return {"supported": not world.problems}


def _cost_config(folder: Path, case: Json, expected: Json) -> Json:
    try:
        block = json.loads(case["block"]) if case["block"] is not None else None
        world = _cost_world(folder, case, node_name=case.get("node_name") or "", ioCost=block)
    except (AssertionError, ValueError):
        files = {name: device_rows(text, []) for name, text in case["files"].items() if name in _COST}
        return {"error": True, "rows": {name: actual for name, actual in files.items() if actual}}  # it is refused
    missing = {name for name in _COST if name not in case["files"]}
    for name in missing:
        world.path(name).unlink()
    world.round()
    return {"error": bool(world.problems), "rows": _cost_rows(world)}


def _cost_stop(folder: Path, case: Json, expected: Json) -> Json:
    world = _cost_world(folder, case, ioCost=_disk("sda"))
    world.configure()
    world.round()
    return {"error": bool(world.problems), "rows": _cost_rows(world)}


def _cost_rows(world: CaseWorld) -> Json:
    texts = {name: device_rows(text, []) for name, text in world.files().items() if name in _COST}
    return {name: actual for name, actual in texts.items() if actual}


def _cost_pods(folder: Path, case: Json, expected: Json) -> Json:
    world = _cost_world(folder, case, ioCost=[])
    pods = [pod for pod in (case.get("pod"), case.get("new_pod"), *(case.get("pods") or ())) if pod]
    for path in (world.path(f"blkio/{pod['cgroup_path'].strip('/')}") for pod in pods):
        if path.exists():
            world.aliases[str(path.stat().st_ino)] = "<inode of the pod's blkio directory>"
    return stage(world, case, expected)


# -- dynMemory --------------------------------------------------------------------------------------------------------

_BATCH = {"name": "b", "cgroup_path": "kubepods/podb", "annotations": OFFLINE, "containers": []}
_HIGH = "memory/kubepods/podb/memory.high"
_QUIET = re.compile(r"; (\d+) readings with free memory")


def _memory_world(folder: Path, files: Json | None, meminfo: str) -> CaseWorld:
    files = files if files is not None else {_HIGH: "max", f"{_HIGH}_async_ratio": "0"}
    world = CaseWorld(folder, files, dynMemory={"policy": "fssr"})
    world.put("/proc/meminfo", meminfo)
    return world


def _init(folder: Path, case: Json, expected: Json) -> Json:
    world = _memory_world(folder, None, case["meminfo"])
    world.run(_BATCH)
    world.round()
    high = world.files()[_HIGH]
    if high == "max":
        return {"error": bool(world.problems)}
    total = memory(world.root)["MemTotal"]
    return {"error": False, "total": total, "high": int(high), "reserved": total // 10}


def _config_meminfo(folder: Path, case: Json, expected: Json) -> Json:
    shown = dict.fromkeys(("config_error", "config_panic", "start_error", "start_panic"), False)
    return {**shown, "start_error": _init(folder, case, expected)["error"]}


def _memory_pods(folder: Path, case: Json, expected: Json) -> Json:
    total = case.get("mem_total_kb") or 1000000
    # As much is free as moves nothing.
    world = _memory_world(folder, case.get("files") or {}, f"MemTotal: {total} kB\nMemFree: {total * 3 // 20} kB\n")
    return stage(world, case, expected)


def _walk(folder: Path, case: Json, expected: Json) -> Json:
    world = _memory_world(folder, None, "")
    world.run(_BATCH)
    start = case["mem_total_kb"] * 1024 * 8 // 10
    shown: dict[str, list[Any]] = {"high": [start], "quiet_ticks": [], "written": []}
    for free in case["mem_free_kb"]:
        world.put("/proc/meminfo", f"MemTotal: {case['mem_total_kb']} kB\nMemFree: {free} kB\n")
        world.round()
        world.clock.now += 5
        high = int(world.files()[_HIGH])
        quiet = _QUIET.search(world.service.state(world.clock.now))
        shown["written"].append("" if high == shown["high"][-1] else str(high))
        shown["high"].append(high)
        shown["quiet_ticks"].append(int(quiet[1]) if quiet else None)
    return shown


# -- quotaBurst -------------------------------------------------------------------------------------------------------


def _burst(folder: Path, case: Json, expected: Json) -> Json:
    world = CaseWorld(folder, case.get("files"), cpus=case.get("ncpu") or 4, quotaBurst=None)
    actual = stage(world, case, expected)
    # rubik logs a burst that is refused; an error is an annotation that cannot be read.
    actual["error"] = any(": no burst: " not in problem for problem in world.problems)
    return {"files": actual["files"]} if "pods" in case else actual  # at the start rubik logs all that is wrong


STAGES = {
    "preemption": {"add": _preemption, "update": _preemption, "start": _preemption},
    "dynCache": {
        "mask_bits": _mask_bits,
        "mask": _mask,
        "start": _cache_start,
        "sync": _cache_sync,
        "miss_rate": _miss_rate,
    },
    "ioLimit": {
        "parse": _parse,
        "reset_text": _reset_text,
        "device": _device,
        "add": _limit,
        "update": _limit,
        "start": _limit,
    },
    "ioCost": {
        "device": _cost_device,
        "support": _cost_support,
        "config": _cost_config,
        "stop": _cost_stop,
        "add": _cost_pods,
        "update": _cost_pods,
        "start": _cost_pods,
    },
    "dynMemory": {
        "init": _init,
        "config_meminfo": _config_meminfo,
        "start": _memory_pods,
        "add": _memory_pods,
        "update": _memory_pods,
        "walk": _walk,
    },
    "quotaBurst": {"add": _burst, "update": _burst, "start": _burst},
}
