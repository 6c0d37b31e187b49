"""The stage of block I/O: limits and weights of the best-effort folder and of pods, latencies of the whole machine."""

from __future__ import annotations

import json
import re
from typing import Any

from nri.policies.koordinator.loops import block_io
from nri.policies.koordinator.loops.block_io import ROOT_OFF, DiskLimits
from nri.policies.koordinator.names import NONE, qos_class
from nri.policies.shapes import decode

__all__ = ["STAGES", "out_of_range"]

Json = dict[str, Any]
_FILES = {
    "io.read_iops": "throttle.read_iops_device",
    "io.write_iops": "throttle.write_iops_device",
    "io.read_bps": "throttle.read_bps_device",
    "io.write_bps": "throttle.write_bps_device",
    "io.device_weight": "cost.weight",
}
_DEVICE = re.compile("[0-9]+:[0-9]+")
_LIMITS = ("readIOPS", "writeIOPS", "readBPS", "writeBPS")
_ANNOTATION = "koordinator.sh/blkioQOS"
_MOUNT = "/var/lib/kubelet/pods/{}/volumes/kubernetes.io~csi/{}/mount"
_BEST_EFFORT = "kubepods.slice/kubepods-besteffort.slice"


def _reconcile(given: Json) -> Json:
    files = dict(given.get("files") or {})
    outcomes = [{"writes": _round({**given, **step}, files)} for step in given.get("steps") or [{}]]
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _round(given: Json, files: dict[str, str]) -> list[Json]:
    strategy = ((given.get("node_slo") or {}).get("spec") or {}).get("resourceQOSStrategy")
    if strategy is None or given.get("cgroup_v2") or given.get("storage") is None:
        return []
    writes: list[tuple[str, str]] = []
    be, root = ((strategy.get(key) or {}).get("blkioQOS") for key in ("beClass", "cgroupRoot"))
    if be is not None:
        writes += _limits(given, files, _BEST_EFFORT, be.get("blocks") if be.get("enable") else (), {})
    if root is not None:
        writes += _root(given, files, root)
    for each in given.get("pods") or ():
        meta = each["pod"]["metadata"]
        text = (meta.get("annotations") or {}).get(_ANNOTATION)
        running = (each["pod"].get("status") or {}).get("phase") == "Running"
        if text is None or not running or qos_class(meta.get("labels") or {}) == NONE:
            continue
        try:
            blocks = decode(text or "{}", block_io.SHAPE).get("blocks")
        except ValueError:
            continue
        writes += _limits(given, files, each["cgroup_dir"].strip("/"), blocks, each["pod"])
    order = sorted(writes, key=lambda one: (one[0], one[1].split()[0]))
    return [{"path": path, "value": value} for path, value in order]


def _limits(given: Json, files: dict[str, str], folder: str, blocks: Any, pod: Json) -> list[tuple[str, str]]:
    """Writes of one folder: the blocks one after the other, then what is in force of other disks."""
    paths = {knob: f"/blkio/{folder}/blkio.{name}" for knob, name in _FILES.items()}
    present = _present(files, list(paths.values()))
    found = [(_number(given, each, pod), each.get("ioCfg") or {}) for each in blocks or ()]
    if present is None or any(not number for number, _ in found):
        return []
    steps = [([(number, _disk(limits))], ()) for number, limits in found]
    rest = [each for each in present if each not in dict(found)]
    writes = []
    for disks, others in [*steps, ([], rest)]:
        for knob, by_device in block_io.wanted(disks, others).items():
            path, gone = paths[knob], "" if knob == "io.device_weight" else "0"
            for device, value in by_device.items():
                text = str(0 if value == -1 else value)
                allowed = value >= -1 and (knob != "io.device_weight" or 1 <= value <= 100)
                if allowed and _put(files, path, device, text, gone):
                    writes.append((path, f"{device} {text}"))
    return writes


def _disk(limits: Json) -> DiskLimits:
    """The limits of a disk as they are written; what is out of range is left out when they are."""
    names = {"read_iops": "readIOPS", "write_iops": "writeIOPS", "read_bps": "readBPS", "write_bps": "writeBPS"}
    found = {name: limits[key] for name, key in names.items() if limits.get(key) is not None}
    weight = limits.get("ioWeightPercent")
    below = {name: -2 for name, value in found.items() if value < 0}
    return DiskLimits("", "device", **{**found, **below, "weight": 100 if weight is None else weight or -2})


def out_of_range(given: Json) -> bool:
    """Whether a limit is written that this agent refuses together with the whole rule it stands in."""
    texts = json.dumps(given)
    limits = [int(number) for key in _LIMITS for number in re.findall(rf'"{key}\\*": *(-?[0-9]+)', texts)]
    weights = [int(number) for number in re.findall(r'"ioWeightPercent\\*": *(-?[0-9]+)', texts)]
    return any(each < 0 for each in limits) or any(not 1 <= each <= 100 for each in weights)


def _present(files: dict[str, str], paths: list[str]) -> list[str] | None:
    """The disks that have anything in force; None if that cannot be known."""
    found = []
    for path in paths:
        if path not in files:
            return None
        for line in files[path].removesuffix("\n").split("\n") if files[path] else ():
            words = line.split(" ")
            if len(words) < 2:
                return None
            if _DEVICE.match(words[0]):
                found.append(words[0])
    return list(dict.fromkeys(found))


def _root(given: Json, files: dict[str, str], config: Json) -> list[tuple[str, str]]:
    qos, model = "/blkio/blkio.cost.qos", "/blkio/blkio.cost.model"
    blocks = (config.get("blocks") or ()) if config.get("enable") else ()
    named, before = [_number(given, each, {}) for each in blocks], _present(files, [qos])
    if before is None or not all(named):
        return []
    writes = []
    for device, disk in zip(named, block_io.parse_root(config), strict=True):
        for path, words in ((qos, disk.qos), (model, disk.model)):
            if words and "=-" not in words and path in files and _put(files, path, device, words):
                writes.append((path, f"{device} {words}"))
    off = [each for each in before if each not in named and _put(files, qos, each, ROOT_OFF)]
    return [*writes, *((qos, f"{device} {ROOT_OFF}") for device in off)]


def _put(files: dict[str, str], path: str, device: str, text: str, gone: str = "") -> bool:
    """Put a device's line among those of others, as the kernel does; return whether that changed any."""
    lines = dict(line.split(maxsplit=1) for line in files[path].splitlines() if line.strip())
    if lines.get(device, gone) == text:
        return False
    lines[device] = text
    if text == gone:
        del lines[device]
    files[path] = "".join(f"{each} {value}\n" for each, value in lines.items())
    return True


def _number(given: Json, block: Json, pod: Json) -> str:
    """The numbers of the disk that a device, a volume group or a pod's volume is on; "" if it is not found."""
    storage, name, kind = given["storage"], block.get("name", ""), block.get("type")
    numbers = storage.get("disk_numbers") or {}
    if kind == "volumegroup":
        return str(numbers.get((storage.get("vg_disk") or {}).get(name, ""), ""))
    if kind == "podvolume":
        name = (storage.get("mount_device") or {}).get(_mount(given, name, pod), "")
    if kind in ("device", "podvolume") and name not in numbers:
        parts, groups = storage.get("partition_disk") or {}, storage.get("lv_vg") or {}
        group = groups.get(name, "") if kind == "podvolume" and name not in parts else ""
        name = (storage.get("vg_disk") or {}).get(group, "") if group else parts.get(name, "")
    return str(numbers.get(name, "")) if kind in ("device", "podvolume") else ""


def _mount(given: Json, name: str, pod: Json) -> str:
    meta = pod.get("metadata") or {}
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume["name"] != name:
            continue
        if "csi" in volume:
            return _MOUNT.format(meta.get("uid"), name)
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        found = (given.get("volumes") or {}).get(f"{meta.get('namespace')}/{claim}")
        return _MOUNT.format(meta.get("uid"), found) if found else ""
    return ""


STAGES = {"reconcile": _reconcile}
