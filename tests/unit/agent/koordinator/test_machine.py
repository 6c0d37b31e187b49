"""Machine data for hooks: caches, and RDMA devices by PCI address."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nri.agent.koordinator.machine import RdmaDevices, cache_of, node_of
from nri.agent.koordinator.node import Cache, Node
from nri.agent.koordinator.profile import HOOKS
from nri.agent.koordinator.quirks import Quirks
from nri.agent.settings.values import AgentSettings, GpuSettings
from nri.host import Root
from tests.support.host_trees import write_files

TOP = "sys/fs/resctrl"
FILES = {
    f"{TOP}/schemata": "MB:0=100;1=100\nL3:0=fff;1=fff\n",
    f"{TOP}/info/L3/cbm_mask": "fff\n",
    f"{TOP}/info/L3/min_cbm_bits": "2\n",
    f"{TOP}/info/L3/num_closids": "16\n",
    "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n",
}


def test_the_cache_is_read_from_the_machine(tmp_path: Path) -> None:
    assert cache_of(write_files(tmp_path, FILES)) == Cache((0, 1), 0xFFF, "GenuineIntel")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {f"{TOP}/schemata": "MB:0=100\n"},
        {f"{TOP}/schemata": "L3:what\n"},
        {f"{TOP}/schemata": "L3:0=f\n", f"{TOP}/info/L3/cbm_mask": "no\n"},
    ],
)
def test_an_unsupported_or_unreadable_cache_is_none(files: dict[str, str], tmp_path: Path) -> None:
    assert cache_of(write_files(tmp_path, files)) is None


def test_an_unknown_vendor_is_empty(tmp_path: Path) -> None:
    actual = cache_of(write_files(tmp_path, FILES | {"proc/cpuinfo": "processor : 0\n"}))
    assert actual is not None
    assert actual.vendor == ""


def test_verbs_are_found_by_pci_address(tmp_path: Path) -> None:
    root = write_files(tmp_path, {"sys/bus/pci/devices/0000:81:00.1/infiniband_verbs/uverbs3/": ""})
    assert list(RdmaDevices(root).verbs("0000:81:00.1")) == ["uverbs3"]
    with pytest.raises(OSError, match="no verbs"):
        RdmaDevices(root).verbs("0000:82:00.1")


@pytest.mark.parametrize("address", ["", "../../../etc", "0000:81:00.1/../x", "0000:81:00.1\n", "x" * 9999])
def test_an_invalid_pci_address_is_never_used_as_a_path(address: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a PCI address"):
        RdmaDevices(write_files(tmp_path, {})).verbs(address)


def test_a_device_node_has_its_numbers() -> None:
    assert RdmaDevices(Root()).numbers("/dev/null") == (1, 3)
    with pytest.raises(FileNotFoundError):
        RdmaDevices(Root()).numbers("/dev/nothing/there")


def test_a_node_is_created_with_its_machine_data(tmp_path: Path) -> None:
    node = node_of(AgentSettings(failure_policy="Fail"), write_files(tmp_path, FILES), HOOKS)
    assert node.fail
    assert node.cache is not None
    assert node.devices is not None


def test_every_policy_setting_reaches_the_node(tmp_path: Path) -> None:
    settings = AgentSettings(
        failure_policy="Fail",
        disabled_stages=("PreCreateContainer",),
        keep_quota=True,
        compat="reference",
        gates={"BECPUManager": True, "Resctrl": True, "GroupIdentity": False},
        gpu=GpuSettings("/lib.so", monitor=True),
    )
    assert replace(node_of(settings, Root(tmp_path), HOOKS), devices=None) == Node(
        gates=frozenset({"CPUSetAllocator", "BatchResource", "Resctrl"}),
        disabled_stages=frozenset({"PreCreateContainer"}),
        fail=True,
        batch_pools=True,
        keep_quota=True,
        gpu_library="/lib.so",
        gpu_monitor=True,
        quirks=Quirks.REFERENCE,
    )
