"""The stage of block I/O: limits and weights of the best-effort folder and of pods, latencies of the whole machine."""

from __future__ import annotations

import json
from typing import Any

from nri.policies.koordinator.loops import block_io
from nri.policies.koordinator.loops.block_io import ROOT_OFF, DiskLimits
from nri.policies.koordinator.names import NONE, qos_class

__all__ = ["STAGES"]

Json = dict[str, Any]
_FILES = {
    "io.read_iops": "throttle.read_iops_device",
    "io.write_iops": "throttle.write_iops_device",
    "io.read_bps": "throttle.read_bps_device",
    "io.write_bps": "throttle.write_bps_device",
    "io.device_weight": "cost.weight",
}
_ANNOTATION = "koordinator.sh/blkioQOS"
_MOUNT = "/var/lib/kubelet/pods/{}/volumes/kubernetes.io~csi/{}/mount"
_BEST_EFFORT = "kubepods.slice/kubepods-besteffort.slice"


def _reconcile(given: Json) -> Json:
    files = dict(given.get("files") or {})
    outcomes = [{"writes": _round({**given, **step}, files)} for step in given.get("steps") or [{}]]
    return {"steps": outcomes} if "steps" in given else outcomes[0]


def _round(given: Json, files: dict[str, str]) -> list[Json]:
    strategy = ((given.get("node_slo") or {}).get("spec") or {}).get("resourceQOSStrategy")
    if strategy is None or given.get("cgroup_v2"):
        return []
    writes: list[tuple[str, str]] = []
    be, root = ((strategy.get(key) or {}).get("blkioQOS") for key in ("beClass", "cgroupRoot"))
    if be is not None:
        writes += _limits(given, files, _BEST_EFFORT, block_io.parse(be), {})
    if root is not None:
        writes += _root(given, files, root)
    for each in given.get("pods") or ():
        meta = each["pod"]["metadata"]
        text = (meta.get("annotations") or {}).get(_ANNOTATION)
        if text is None or qos_class(meta.get("labels") or {}) == NONE:
            continue
        try:
            disks = block_io.parse({**(json.loads(text) if text else {}), "enable": True})
        except ValueError:
            continue
        writes += _limits(given, files, each["cgroup_dir"].strip("/"), disks, each["pod"])
    order = sorted(writes, key=lambda one: (one[0], one[1].split()[0]))
    return [{"path": path, "value": value} for path, value in order]


def _limits(
    given: Json, files: dict[str, str], folder: str, disks: list[DiskLimits], pod: Json
) -> list[tuple[str, str]]:
    paths = {knob: f"/blkio/{folder}/blkio.{name}" for knob, name in _FILES.items()}
    found = [(_number(given, disk.kind, disk.name, pod), disk) for disk in disks]
    if any(not number for number, _ in found):
        return []
    texts = [line.split() for path in paths.values() for line in files.get(path, "").splitlines()]
    if any(len(words) == 1 for words in texts):  # what is in force cannot be known
        return []
    present = [line.split()[0] for path in paths.values() for line in files.get(path, "").splitlines() if line.strip()]
    writes = []
    for knob, by_device in block_io.wanted(found, present).items():
        for device, value in by_device.items():
            text = str(max(value, 0))
            path, gone = paths[knob], "" if knob == "io.device_weight" else "0"
            if path in files and _put(files, path, device, text, gone):
                writes.append((path, f"{device} {text}"))
    return writes


def _root(given: Json, files: dict[str, str], config: Json) -> list[tuple[str, str]]:
    qos, model = "/blkio/blkio.cost.qos", "/blkio/blkio.cost.model"
    writes, named = [], []
    for disk in block_io.parse_root(config):
        device = _number(given, disk.kind, disk.name, {})
        if not device:
            continue
        named.append(device)
        for path, words in ((qos, disk.qos), (model, disk.model)):
            if words and path in files and _put(files, path, device, words):
                writes.append((path, f"{device} {words}"))
    before = [line.split()[0] for line in files.get(qos, "").splitlines() if line.strip()]
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


def _number(given: Json, kind: str, name: str, pod: Json) -> str:
    """The numbers of the whole disk that a device, a volume group or a pod's volume is on; "" if it is not found."""
    storage = given["storage"]
    if kind == "podvolume":
        name = storage["mount_device"].get(_mount(given, name, pod), "")
    elif kind == "volumegroup":
        name = storage["vg_disk"].get(name, "")
    name = storage["vg_disk"].get(storage["lv_vg"].get(name, ""), name)
    return str(storage["disk_numbers"].get(storage["partition_disk"].get(name, name), ""))


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
