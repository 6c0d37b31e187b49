"""Devices and mounts of a container as hints, with the locality in /sys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.host import Root
from nri.placement.containers import Hint
from nri.placement.devices import hints_of
from nri.testing import make_container
from tests.support.host_trees import write_files
from tests.support.placement import container

PCI = "sys/devices/pci0000:00/0000:00:01.0"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    tree = write_files(
        tmp_path, {f"{PCI}/local_cpulist": "4-7", f"{PCI}/numa_node": "1", "sys/dev/char/": "", "sys/dev/block/": "",
                   "data/": ""}
    )  # fmt: skip
    (tmp_path / "sys/dev/char/195:0").symlink_to(f"../../../{PCI}")
    disk = os.stat(tmp_path).st_dev
    (tmp_path / f"sys/dev/block/{os.major(disk)}:{os.minor(disk)}").symlink_to(f"../../../{PCI}")
    return tree


def device_user(access: str, *mounts: m.Mount) -> m.Container:
    """A container with a device, which a rule lets it use so, and mounts."""
    message = make_container("one")
    message.mounts.extend(mounts)
    message.linux.devices.append(m.LinuxDevice(path="/dev/gpu", type="c", major=195, minor=0))
    rule = m.LinuxDeviceCgroup(allow=True, type="c", access=access)
    rule.major.value, rule.minor.value = 195, 0
    message.linux.resources.devices.append(rule)
    return message


def test_a_writable_device_is_a_hint(root: Root) -> None:
    hints = hints_of(container("one"), device_user("rw"), root)
    assert hints == {f"/{PCI}": Hint("4-7", "1")}
    assert hints_of(container("one"), device_user("r"), root) == {}


def test_a_rule_that_denies_all_devices_makes_no_device_writable(root: Root) -> None:
    only_read = device_user("r")
    only_read.linux.resources.devices.insert(0, m.LinuxDeviceCgroup(allow=False, access="rwm"))
    assert hints_of(container("one"), only_read, root) == {}
    only_read.linux.resources.devices.append(m.LinuxDeviceCgroup(allow=True, type="a", access="rwm"))
    assert hints_of(container("one"), only_read, root) == {f"/{PCI}": Hint("4-7", "1")}


def test_annotations_can_disable_hints(root: Root) -> None:
    assert hints_of(container("one", topologyhints="false"), device_user("rw"), root) == {}
    assert hints_of(container("one", topologyhints="mounts"), device_user("rw"), root) == {}
    denied = {"deny.topologyhints": "{paths: [/sys/devices/pci]}"}
    assert hints_of(container("one", **denied), device_user("rw"), root) == {}


def test_a_mount_is_near_its_disk_on_the_node(root: Root, tmp_path: Path) -> None:
    mount = m.Mount(source="/data", destination="/inside")
    expected = {f"/{PCI}": Hint("4-7", "1")} if os.major(os.stat(tmp_path).st_dev) else {}
    assert hints_of(container("one", topologyhints="mounts"), device_user("rw", mount), root) == expected
    assert hints_of(container("one", topologyhints="mounts"), device_user("rw", m.Mount(source="tmpfs")), root) == {}
