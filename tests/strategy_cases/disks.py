"""The block devices of a case as the kernel shows them below /sys, and the mounts of pods' volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.host_trees import write_files

__all__ = ["disk_files"]

Json = dict[str, Any]


def disk_files(folder: Path, case: Json) -> None:
    """Make the devices of a case: disks, partitions of them, volumes of LVM on a disk or partition, and mounts."""
    storage = case.get("storage")
    if storage is None:
        return
    numbers: dict[str, str] = dict(storage.get("disk_numbers") or {})
    (folder / "sys/dev/block").mkdir(parents=True, exist_ok=True)
    (folder / "sys/class/block").mkdir(parents=True, exist_ok=True)
    for name, number in numbers.items():
        _device(folder, name, number)
    for place, (name, disk) in enumerate((storage.get("partition_disk") or {}).items()):
        number = numbers[name] = f"250:{place}"
        if disk in numbers:
            _device(folder, name, number, inside=Path(disk).name)
    for place, (name, group) in enumerate((storage.get("lv_vg") or {}).items()):
        number, disk = f"252:{place}", (storage.get("vg_disk") or {}).get(group, "")
        numbers[name] = number
        if disk in numbers:
            _volume(folder, f"dm-{place}", number, name, group, disk)
    mounts = [
        f"{place + 30} 1 {numbers[device]} / {mount} rw - ext4 {device} rw\n"
        for place, (mount, device) in enumerate((storage.get("mount_device") or {}).items())
        if device in numbers
    ]
    write_files(folder, {"proc/1/mountinfo": "".join(mounts)})


def _device(folder: Path, name: str, number: str, inside: str = "") -> None:
    base = Path("sys/devices", *([inside] if inside else []), Path(name).name)
    files = {f"{base}/dev": f"{number}\n", **({f"{base}/partition": "1\n"} if inside else {})}
    write_files(folder, files)
    _links(folder, base, Path(name).name, number)


def _volume(folder: Path, device: str, number: str, name: str, group: str, disk: str) -> None:
    base = Path("sys/devices/virtual", device)
    full = f"{group.replace('-', '--')}-{Path(name).name.removeprefix(f'{group}-').replace('-', '--')}"
    files = {"dev": number, "dm/name": full, "dm/uuid": f"LVM-{device}"}
    write_files(folder, {f"{base}/{key}": f"{text}\n" for key, text in files.items()})
    (folder / base / "slaves").mkdir()
    (folder / base / "slaves" / Path(disk).name).symlink_to(f"../../../{Path(disk).name}")
    _links(folder, base, device, number)


def _links(folder: Path, base: Path, name: str, number: str) -> None:
    (folder / "sys/dev/block" / number).symlink_to(f"../../{base.relative_to('sys')}")
    (folder / "sys/class/block" / name).symlink_to(f"../../{base.relative_to('sys')}")
