"""The locality of devices in a tree of /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.host import Root
from nri.host.locality import Locality, folder_of_device, folder_of_path, localities_of
from tests.support.host_trees import write_files

PCI = "sys/devices/pci0000:00/0000:00:01.0"
DISK = f"{PCI}/nvme0n1"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    tree = write_files(
        tmp_path,
        {
            f"{PCI}/local_cpulist": "0-3,8\n",
            f"{PCI}/numa_node": "1\n",
            f"{DISK}/dev": "259:0",
            f"{PCI}/0000:01:00.0/numa_node": "-1",
            "sys/devices/pci0000:80/numa_node": "1",
            "sys/devices/pci0000:80/0000:80:01.0/gpu/dev": "195:0",
            "sys/devices/virtual/block/dm-0/slaves/": "",
            "sys/devices/virtual/vfio/7/": "",
            "sys/kernel/iommu_groups/7/devices/": "",
            "sys/devices/virtual/mem/null/dev": "1:3",
            "sys/dev/block/": "",
            "sys/dev/char/": "",
        },
    )
    for link, target in {
        "sys/dev/block/259:0": f"../../../{DISK}",
        "sys/dev/block/253:0": "../../devices/virtual/block/dm-0",
        "sys/dev/char/1:3": "/sys/devices/virtual/mem/null",
        "sys/devices/virtual/block/dm-0/slaves/nvme0n1": f"../../../../../../{DISK}",
        "sys/kernel/iommu_groups/7/devices/0000:00:01.0": f"../../../../../{PCI}",
        "sys/dev/char/9:9": "9:9",
    }.items():
        (tmp_path / link).symlink_to(target)
    return tree


def test_the_nearest_parent_folder_with_a_locality_counts(root: Root) -> None:
    assert localities_of(root, f"/{DISK}") == {f"/{PCI}": Locality("0-3,8", "1")}
    assert localities_of(root, f"{PCI}/0000:01:00.0") == {f"/{PCI}": Locality("0-3,8", "1")}


def test_a_node_without_cpus_means_its_package(root: Root) -> None:
    localities = localities_of(root, "sys/devices/pci0000:80/0000:80:01.0/gpu")
    assert localities == {"/sys/devices/pci0000:80": Locality(packages="1")}


@pytest.mark.parametrize("device", ["sys/devices/virtual/block/dm-0", "sys/devices/virtual/vfio/7"])
def test_a_composed_device_has_the_localities_of_its_parts(root: Root, device: str) -> None:
    assert localities_of(root, device) == {f"/{PCI}": Locality("0-3,8", "1")}


def test_a_device_without_a_locality_has_no_hint(root: Root) -> None:
    assert localities_of(root, "sys/devices/virtual/mem/null") == {}
    assert localities_of(root, "sys/devices/gone") == {}
    assert localities_of(root, "etc") == {}


def test_a_device_is_found_by_its_number(root: Root) -> None:
    assert folder_of_device(root, True, 259, 0) == DISK
    assert folder_of_device(root, False, 1, 3) == "sys/devices/virtual/mem/null"
    assert folder_of_device(root, True, 8, 0) is None
    assert folder_of_device(root, False, 9, 9) is None, "a link to itself"


def test_a_path_is_near_its_disk_and_a_device_node_near_its_device(root: Root, tmp_path: Path) -> None:
    disk = os.stat(tmp_path).st_dev
    if os.major(disk):
        (tmp_path / f"sys/dev/block/{os.major(disk)}:{os.minor(disk)}").symlink_to(f"../../../{DISK}")
        assert folder_of_path(root, "/sys/devices") == DISK
    assert folder_of_path(root, "/no/such/file") is None
    assert folder_of_path(Root("/"), "/proc/self/status") is None, "a virtual file system"
    actual = folder_of_path(Root("/"), "/dev/null")
    assert actual is None or actual.endswith("/null")


def test_a_cycle_of_devices_ends(root: Root, tmp_path: Path) -> None:
    (tmp_path / "sys/devices/virtual/block/dm-0/slaves/self").symlink_to("../../dm-0")
    assert localities_of(root, "sys/devices/virtual/block/dm-0") == {f"/{PCI}": Locality("0-3,8", "1")}
