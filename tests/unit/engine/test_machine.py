from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.engine.machine import detect_machine, find_devices, with_features
from nri.engine.spec import Machine


def write(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


STATUS = "Name:\tx\nCapPrm:\t0000000000000021\nCapBnd:\t0000000001000061\nSeccomp:\t0\n"


def test_cgroup_v1_without_sys_resource_is_detected(tmp_path: Path) -> None:
    files = {
        "proc/self/status": STATUS,
        "proc/self/oom_score_adj": "7\n",
        "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "1",
        "sys/module/apparmor/parameters/enabled": "Y\n",
    }
    machine = detect_machine(write(tmp_path, **files))
    assert machine.capabilities == ("CAP_CHOWN", "CAP_KILL")
    assert (machine.oom_score_floor, machine.cgroup_v2, machine.swap_limit, machine.hugetlb) == (7, False, True, False)
    assert (machine.seccomp, machine.apparmor, machine.selinux) == (True, True, False)


def test_cgroup_v2_is_detected(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/cgroup.controllers": "cpu memory hugetlb\n",
        "sys/fs/cgroup/system.slice/memory.max": "max",
        "sys/fs/cgroup/system.slice/memory.swap.max": "max",
    }
    machine = detect_machine(write(tmp_path, **files))
    assert (machine.cgroup_v2, machine.swap_limit, machine.hugetlb, machine.seccomp) == (True, True, True, False)


@pytest.mark.parametrize(
    ("more", "limited"),
    [
        ({}, False),
        ({"proc/swaps": "Filename\n"}, True),
        ({"proc/swaps": "Filename\n", "sys/fs/cgroup/system.slice/memory.max": "max"}, False),
    ],
)
def test_on_cgroup_v2_swap_limits_are_detected(tmp_path: Path, more: dict[str, str], limited: bool) -> None:
    machine = detect_machine(write(tmp_path, **{"sys/fs/cgroup/cgroup.controllers": "memory\n", **more}))
    assert machine.swap_limit is limited


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({}, (False, False)),
        ({"mountOptions": ["ro", "rro"], "linux": None}, (True, False)),
        ({"linux": {"mountExtensions": {"idmap": {"enabled": True}}}}, (False, True)),
        ({"mountOptions": 7, "linux": []}, (False, False)),
        ({"mountOptions": "rro", "linux": {"mountExtensions": {"idmap": True}}}, (False, False)),
    ],
)
def test_features_of_the_oci_runtime_are_read(features: dict, expected: tuple[bool, bool]) -> None:
    machine = with_features(Machine(), features)
    assert (machine.recursive_read_only, machine.idmapped_mounts) == expected


def test_devices_are_found_at_and_below_a_path(tmp_path: Path) -> None:
    (null,) = find_devices("/dev/null")
    assert (null.path, null.type, null.major, null.minor) == ("/dev/null", "c", 1, 3)
    (tmp_path / "link").symlink_to("/dev/null")
    assert [(device.path, device.minor) for device in find_devices(str(tmp_path / "link"))] == [
        (str(tmp_path / "link"), 3)
    ]
    assert find_devices(str(tmp_path)) == []
    assert find_devices("/no/such/path") == []
    if os.path.exists("/dev/net/tun"):
        assert "/dev/net/tun" in [device.path for device in find_devices("/dev/net")]
