"""Stages of the services that set values of pods: preemption, caches, I/O, memory, burst.

Next: `tests.rubik_cases.turbo`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nri.errors import ConfigError
from nri.host.usage import parse_memory
from nri.policies.rubik import dyn_cache, dyn_memory, io_cost, io_limit, preemption, quota_burst, settings
from nri.policies.rubik.pods import Pod
from tests.rubik_cases.frame import block
from tests.rubik_cases.tree import Files, number, pod_of

__all__ = ["STAGES"]

Json = dict[str, Any]
_ERROR = {"error": True}
_HOST_PIDS = "pid:[4026531836]"


def _pids(files: Files, pod: Pod) -> list[int]:
    """The first process of each container that has one."""
    texts = (files.now.get(f"net_cls/{each.folder}/cgroup.procs", "") for each in pod.containers)
    first = (number(text.strip().split("\n")[0]) for text in texts)
    return [pid for pid in first if pid]


def _preempt(files: Files, pod: Pod, resources: list[str]) -> bool:
    pid = next(iter(_pids(files, pod)), 0)
    found = preemption.decide(pod, resources, pid, files.read)
    if found.enable:
        files.put("proc/net_qos_enable", str(found.enable))
    return files.apply(found.writes) and not found.problems


def _preemption_add(given: Json) -> Json:
    files = Files(given["files"])
    if given["pod"] is None:
        return {"error": True, "files": {}}
    good = _preempt(files, pod_of(given["pod"]), given["resource"])
    return {"error": not good, "files": files.changed()}


def _preemption_update(given: Json) -> Json:
    files = Files(given.get("files"))
    before, pod = (pod_of(each) if (each := given.get(key)) else Pod("") for key in ("old_pod", "new_pod"))
    pid = next(iter(_pids(files, pod)), 0)
    found = preemption.update(before, pod, given["resource"], pid, files.read)
    if found.enable:
        files.put("proc/net_qos_enable", str(found.enable))
    good = files.apply(found.writes) and not found.problems
    return {"error": not good, "files": files.changed()}


def _preemption_start(given: Json) -> Json:
    if given["pods"] is None:
        return {"error": True, "files": {}}
    files, good = Files(given["files"]), True
    if "net" in given["resource"]:
        files.put("proc/net_qos_enable", "<own pid>")
        for name, text in preemption.bandwidth(settings.Net(**(given.get("net") or {}))).items():
            if name == "net_qos_waterline" and given.get("waterline_write_fails"):
                files.put("proc/net_qos_disable", "<own pid>")
                return {"error": True, "files": files.changed(), "net_qos_writes": _sorted(files.writes)}
            files.put(f"proc/{name}", text)
    for each in given["pods"]:
        good = _preempt(files, pod_of(each), given["resource"]) and good
    shown = {name: texts for name, texts in files.writes.items() if name.startswith("proc/")}
    return {"error": False, "files": files.changed(), "net_qos_writes": shown}


def _sorted(writes: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: texts for name, texts in sorted(writes.items()) if name.startswith("proc/")}


def _bits(given: Json) -> Json:
    try:
        return {"bits": dyn_cache.bits(given["cbm_mask"]), "error": False}
    except ValueError:
        return _ERROR


def _mask(given: Json) -> Json:
    try:
        found = dyn_cache.mask(dyn_cache.bits(given["cbm_mask"]), given["percent"])
    except ValueError:
        return _ERROR
    return {"error": False, "mask": f"{found:x}"}


def _cache(given: Json) -> settings.DynCache:
    found: settings.DynCache = block("dynCache", json.dumps(given["config"]))
    return found


def _schemata(width: int, shares: dyn_cache.Shares, nodes: int) -> str:
    found = dyn_cache.schemata(width, shares, {"L3": range(nodes), "MB": range(nodes)})
    cache = ";".join(f"{domain}={ways:x}" for domain, ways in found["L3"].items())
    return f"L3:{cache}\nMB:{';'.join(f'{domain}={part}' for domain, part in found['MB'].items())}\n"


def _cache_start(given: Json) -> Json:
    files, config = Files(given["files"]), _cache(given)
    text = files.now.get("resctrl/info/L3/cbm_mask")
    if given["pid_ns"] != _HOST_PIDS or "resctrl/schemata" not in files.now or text is None:
        return {"error": True, "files": {}}
    try:
        width = dyn_cache.bits(text)
    except ValueError:
        return {"error": True, "files": {}}
    found = dyn_cache.group_shares(config)
    start = found[dyn_cache.DYNAMIC]
    made = {
        f"resctrl/{group}/schemata": _schemata(width, shares, given["numa_nodes"]) for group, shares in found.items()
    }
    return {"dynamic": {"l3": start.l3, "mb": start.mb}, "error": False, "files": made}


def _cache_sync(given: Json) -> Json:
    files = given["files"]
    processes = {
        path.removeprefix("cpu/").removesuffix("/cgroup.procs"): [int(word) for word in text.split()]
        for path, text in files.items()
        if path.endswith("/cgroup.procs")
    }
    found = dyn_cache.tasks(map(pod_of, given["pods"]), given["defaultLimitMode"], processes)
    return {"tasks": {f"resctrl/{group}/tasks": sorted(map(str, each)) for group, each in found.items()}}


def _miss_rate(given: Json) -> Json:
    return {
        "cache_miss": dyn_cache.miss_percent(given["cache_misses"], given["cache_references"]),
        "llc_miss": dyn_cache.miss_percent(given["llc_misses"], given["llc_accesses"]),
    }


def _dynamic(given: Json) -> Json:
    config, now, steps = _cache(given), dyn_cache.Shares(given["l3"], given["mb"]), []
    width = dyn_cache.bits(given["cbm_mask"])
    level = given["offline_cache_limit"]
    annotations = {"volcano.sh/preemptable": "true", dyn_cache.ANNOTATION: level}
    pods = [] if level == "none" else [Pod("o", annotations=annotations)]
    for measured in given["steps"]:
        found = [
            dyn_cache.Misses(*(each[key] for key in ("cache_miss", "llc_miss")) if each else ()) for each in measured
        ]
        files = {}
        if dyn_cache.uses(pods, config.defaultLimitMode):
            new = dyn_cache.step(now, found, config, given["max_miss"], given["min_miss"])
            if new != now:
                files = {"resctrl/rubik_dynamic/schemata": _schemata(width, new, given["numa_nodes"])}
            now = new
        steps.append({"l3": now.l3, "mb": now.mb, "files": files})
    return {"steps": steps}


def _parse(given: Json) -> Json:
    try:
        found = io_limit.parse(given["annotation"])
    except ValueError:
        return _ERROR
    shown = {key: [{"device": name, "value": value} for name, value in each] for key, each in found.items()}
    return {"config": shown, "error": False}


def _reset_text(given: Json) -> Json:
    return {"text": "\n".join(f"{device} 0" for device in io_limit.present(given["text"]))}


def _device(given: Json) -> Json:
    try:
        return {"device": io_limit.device_number(given["device"], lambda _: ""), "error": False}
    except ValueError:
        return _ERROR


def _limit_pod(files: Files, pod: Pod, devices: Json, before: Pod | None = None) -> bool:
    limits = io_limit.asked(before.annotations if before else {}, pod.annotations)
    if limits is None:
        return True
    for each in pod.containers:
        texts = {knob: files.read(each.folder, knob) for knob in io_limit.KNOBS}
        present = {knob: io_limit.present(found or "") for knob, found in texts.items()}
        changes = io_limit.change(limits, present, lambda name: devices.get(name, ""))
        for knob, change in changes.items():
            if texts[knob] is None:
                return False
            if texts[knob]:
                files.put(files.path(each.folder, knob), "\n".join(f"{device} 0" for device in change.clear))
        for knob, change in changes.items():
            if change.set:
                lines = "\n".join(" ".join(pair) for pair in change.set)
                files.put(files.path(each.folder, knob), lines)
    return True


def _limit(given: Json) -> Json:
    if given.get("pod") is None:
        return {"error": True, "files": {}}
    files = Files(given["files"])
    try:
        before = pod_of(given["old_pod"]) if given.get("old_pod") else None
        good = _limit_pod(files, pod_of(given["pod"]), given["devices"], before)
    except ValueError:
        good = False
    return {"error": not good, "files": files.changed(), "writes": files.writes}


def _limit_start(given: Json) -> Json:
    if given["pods"] is None:
        return {"error": True, "files": {}}
    files, good = Files(given["files"]), True
    for each in given["pods"]:
        try:
            good = _limit_pod(files, pod_of(each), given["devices"]) and good
        except ValueError:
            continue  # that pod is told
    return {"error": not good, "files": files.changed()}


def _number_of(devices: Json) -> Callable[[str], str]:
    def find(name: str) -> str:
        kind, _, numbers = devices.get(name, "").partition(" ")
        return numbers if kind == "block" else ""

    return find


def _cost_device(given: Json) -> Json:
    found = _number_of(given["devices"])(given["dev"])
    return {"device": found, "error": False} if found else _ERROR


def _cost_support(given: Json) -> Json:
    needed = ("blkio/blkio.cost.model", "blkio/blkio.cost.qos")
    there = given["cmdline"] is not None and all(name in given["files"] for name in needed)
    return {"supported": there and io_cost.supported(given["cmdline"])}


def _clear(files: Files) -> bool:
    text = files.read("", io_cost.QOS)
    lines = (line.split() for line in (text or "").splitlines())
    return text is not None and files.apply(io_cost.clear(words[0] for words in lines if words))


def _cost_config(given: Json) -> Json:
    files = Files(given["files"])
    try:
        nodes = block("ioCost", given["block"])
    except ConfigError:
        return {"error": True, "writes": {}}
    if not _clear(files):
        return {"error": True, "writes": files.writes}
    good = True
    try:
        for write in io_cost.writes(
            io_cost.devices_of(nodes, given.get("node_name") or ""), _number_of(given["devices"])
        ):
            if not files.apply([write]):
                raise ValueError(write.knob)
    except ValueError:
        good = False
        _clear(files)
    return {"error": not good, "writes": files.writes}


def _cost_stop(given: Json) -> Json:
    files = Files(given["files"])
    good = _clear(files)
    return {"error": not good, "writes": files.writes}


def _weigh(files: Files, pod: Pod) -> bool:
    return files.apply(io_cost.pod_writes(pod, "<inode of the pod's blkio directory>"), stop=True)


def _cost_pod(given: Json) -> Json:
    pod = given.get("new_pod", given.get("pod"))
    if pod is None:
        return {"error": True, "files": {}}
    files = Files(given["files"])
    good = _weigh(files, pod_of(pod))
    return {"error": not good, "files": files.changed()}


def _cost_start(given: Json) -> Json:
    if given["pods"] is None:
        return {"error": True, "files": {}}
    files = Files(given["files"])
    good = [_weigh(files, pod_of(each)) for each in given["pods"]]
    return {"error": not all(good), "files": files.changed()}


def _walk_of(meminfo: str) -> dyn_memory.MemoryHigh:
    return dyn_memory.MemoryHigh(parse_memory(meminfo).get("MemTotal"))


def _init(given: Json) -> Json:
    try:
        walk = _walk_of(given["meminfo"])
    except ValueError:
        return _ERROR
    total = parse_memory(given["meminfo"])["MemTotal"]
    return {"error": False, "total": total, "high": walk.high, "reserved": walk.reserved}


def _config_meminfo(given: Json) -> Json:
    shown = dict.fromkeys(("config_error", "config_panic", "start_error", "start_panic"), False)
    try:
        block("dynMemory", given["block"])
        _walk_of(given["meminfo"])
    except (ConfigError, ValueError):
        return {**shown, "config_error": True}
    return shown


def _memory_pods(given: Json, found: list[tuple[Json, Json]]) -> Json:
    files, walk = Files(given["files"]), dyn_memory.MemoryHigh(given["mem_total_kb"] * 1024)
    good = [files.apply(dyn_memory.writes(pod_of(before), pod_of(pod), walk.high), stop=True) for before, pod in found]
    return {"error": not all(good), "files": files.changed()}


def _memory_pod(given: Json) -> Json:
    if given["pod"] is None:
        return {"error": True, "files": {}}
    return _memory_pods(given, [(given.get("old_pod") or given["pod"], given["pod"])])


def _memory_start(given: Json) -> Json:
    return (
        {"error": True, "files": {}}
        if given["pods"] is None
        else _memory_pods(given, [(each, each) for each in given["pods"]])
    )


def _walk(given: Json) -> Json:
    walk = dyn_memory.MemoryHigh(given["mem_total_kb"] * 1024)
    shown: dict[str, list[Any]] = {"high": [walk.high], "quiet_ticks": [], "written": []}
    for free in given["mem_free_kb"]:
        changed = walk.read(free * 1024)
        shown["high"].append(walk.high)
        shown["quiet_ticks"].append(walk.quiet)
        shown["written"].append(str(walk.high) if changed else "")
    return shown


def _quota_of(files: Files) -> Callable[[str], quota_burst.Quota]:
    def read(folder: str) -> quota_burst.Quota:
        quota, period = (files.number(folder, name) for name in ("cpu.cfs_quota", "cpu.cfs_period"))
        return quota_burst.Quota(quota, period, None if files.read(folder, "cpu.cfs_burst") is None else 0)

    return read


def _burst_add(given: Json) -> Json:
    if given.get("pod") is None:
        return {"error": True, "files": {}}
    return _burst(given, given["pod"], given["pod"])


def _burst(given: Json, before: Json, pod: Json) -> Json:
    files = Files(given["files"])
    try:
        files.apply(quota_burst.update(pod_of(before), pod_of(pod), _quota_of(files), given["ncpu"]))
    except ValueError:
        return {"error": True, "files": {}}
    return {"error": False, "files": files.changed()}


def _burst_update(given: Json) -> Json:
    if given.get("new_pod") is None:
        return {"error": True, "files": {}}
    new, old = given["new_pod"], given.get("old_pod")
    if old is not None and _asked(old) == _asked(new):
        return {"error": False, "files": {}}
    return _burst(given, old or new, new)


def _asked(pod: Json) -> tuple[str, set[str]]:
    """Return what a pod asks for, and its containers: if both are as before there is nothing to do."""
    annotations = pod.get("annotations") or {}
    return annotations.get(quota_burst.ANNOTATION, ""), {each["id"] for each in pod.get("containers") or ()}


def _burst_start(given: Json) -> Json:
    if given["pods"] is None:
        return {"error": True, "files": {}}
    files = Files(given["files"])
    for each in given["pods"]:
        try:
            files.apply(quota_burst.update(pod_of(each), pod_of(each), _quota_of(files), given["ncpu"]))
        except ValueError:
            continue  # that pod is told
    return {"error": False, "files": files.changed()}


STAGES = {
    "preemption": {"add": _preemption_add, "update": _preemption_update, "start": _preemption_start},
    "dynCache": {
        "mask_bits": _bits,
        "mask": _mask,
        "start": _cache_start,
        "sync": _cache_sync,
        "miss_rate": _miss_rate,
        "dynamic": _dynamic,
    },
    "ioLimit": {
        "parse": _parse,
        "reset_text": _reset_text,
        "device": _device,
        "add": _limit,
        "update": _limit,
        "start": _limit_start,
        "config": lambda given: {"error": False},
    },
    "ioCost": {
        "device": _cost_device,
        "support": _cost_support,
        "config": _cost_config,
        "stop": _cost_stop,
        "add": _cost_pod,
        "update": _cost_pod,
        "start": _cost_start,
    },
    "dynMemory": {
        "init": _init,
        "config_meminfo": _config_meminfo,
        "start": _memory_start,
        "add": _memory_pod,
        "update": _memory_pod,
        "walk": _walk,
    },
    "quotaBurst": {"add": _burst_add, "update": _burst_update, "start": _burst_start},
}
