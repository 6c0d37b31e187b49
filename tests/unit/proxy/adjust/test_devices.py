"""Devices in the CRI's words: nodes of the host, found by path or by number."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.fields import TREE
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import devices

NULL = m.LinuxDevice(path="/dev/null", type="c", major=1, minor=3)


def entry(*wanted: m.LinuxDevice) -> Entry:
    adjustment = m.ContainerAdjustment()
    adjustment.linux.devices.extend(wanted)
    (found,) = (each for each in read(adjustment, TREE) if each.row.path == "linux.devices")
    return found


def test_a_node_is_found_at_its_own_path_or_by_its_numbers() -> None:
    assert devices.node_of(NULL) == "/dev/null"
    elsewhere = m.LinuxDevice(path="/dev/nothing-here", type="c", major=1, minor=3)
    assert devices.node_of(elsewhere) == "/dev/null"


@pytest.mark.parametrize(
    "device",
    [
        m.LinuxDevice(path="/dev/nothing", type="c", major=4000, minor=9),
        m.LinuxDevice(path="/dev/nothing", type="p"),
        m.LinuxDevice(path="/dev/null", type="b", major=4000, minor=3),
        m.LinuxDevice(path="/dev/n\0ull", type="p", major=1, minor=3),
    ],
)
def test_a_device_without_a_node_is_none(device: m.LinuxDevice) -> None:
    assert devices.node_of(device) == ""


def test_a_node_that_the_kernel_names_and_that_is_not_there_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "sys/dev/char/1:3"
    folder.mkdir(parents=True)
    (folder / "uevent").write_text("MAJOR=1\nDEVNAME=null\n")
    assert devices.node_of(NULL, tmp_path) == ""


def test_devices_are_said_and_what_is_lost_comes_back() -> None:
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/null", host_path="/dev/old")])
    wanted = m.LinuxDevice(path="/dev/null", type="c", major=1, minor=3)
    wanted.file_mode.value = 0o600
    missing = m.LinuxDevice(path="/dev/x", type="c", major=4000, minor=9)
    rest = devices.say(config, entry(wanted, missing))
    assert [(each.container_path, each.host_path, each.permissions) for each in config.devices] == [
        ("/dev/null", "/dev/null", "rwm")
    ]
    assert [(key, value) for key, value, _ in rest] == [("/dev/null", "file_mode 600"), ("/dev/x", "c 4000:9")]


def test_one_is_removed_and_one_that_is_not_in_the_request_cannot_be() -> None:
    config = pb.ContainerConfig(devices=[pb.Device(container_path="/dev/a")])
    rest = devices.say(config, entry(m.LinuxDevice(path="-/dev/a"), m.LinuxDevice(path="-/dev/tty")))
    assert not config.devices
    assert [(key, value) for key, value, _ in rest] == [("/dev/tty", "removed")]
