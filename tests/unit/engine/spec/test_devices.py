from __future__ import annotations

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.spec import Device, Options
from nri.engine.spec.devices import devices
from nri.errors import RequestError

NULL = Device("/dev/null", "c", 1, 3)
OPTIONS = Options(
    "c1",
    "/rootfs",
    devices={
        "/dev/null": [NULL],
        "/dev/snd": [Device("/dev/snd/a", "c", 116, 1, 0o660, 0, 29), Device("/dev/snd/by/b", "b", 116, 2)],
        "/dev": [NULL, Device("/dev/pts/0", "c", 136, 0), Device("/dev/sda", "b", 8, 0)],
    },
)


def device_rows(*devices_: pb.Device) -> tuple[list, list]:
    return devices(pb.ContainerConfig(devices=devices_), OPTIONS)


def test_all_devices_are_denied_first() -> None:
    nodes, rules = device_rows()
    assert nodes == []
    assert rules[0] == {"allow": False, "access": "rwm"}
    assert {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rwm"} in rules
    assert {"allow": True, "type": "b", "access": "m"} in rules


def test_a_device_gets_its_path_and_permissions() -> None:
    nodes, rules = device_rows(pb.Device(container_path="/dev/x", host_path="/dev/null", permissions="rw"))
    assert nodes == [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 0o666, "uid": 0, "gid": 0}]
    assert rules[-1] == {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "rw"}


def test_all_devices_of_a_folder_are_added() -> None:
    nodes, rules = device_rows(pb.Device(container_path="/dev/audio", host_path="/dev/snd"))
    assert [(node["path"], node["gid"]) for node in nodes] == [("/dev/audio/a", 29), ("/dev/audio/by/b", 0)]
    assert [rule["access"] for rule in rules[-2:]] == ["rwm", "rwm"]


def test_a_privileged_container_has_all_host_devices_except_terminals() -> None:
    config = pb.ContainerConfig()
    config.linux.security_context.privileged = True
    nodes, rules = devices(config, OPTIONS)
    assert [node["path"] for node in nodes] == ["/dev/null", "/dev/sda"]
    assert rules == [{"allow": True, "access": "rwm"}]
    config.devices.add(host_path="/dev/null", container_path="/dev/too")
    assert [node["path"] for node in devices(config, OPTIONS)[0]] == ["/dev/null", "/dev/sda", "/dev/too"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"host_path": "/dev/none"},
            r'devices\[0\]\.host_path: "/dev/none": is neither a device nor a folder with devices',
        ),
        ({"host_path": ""}, r"host_path: \"\": must be an absolute path"),
        ({"permissions": "rx"}, r"permissions: \"rx\": must be a combination of r, w and m"),
    ],
)
def test_an_invalid_device_is_an_error_with_field_and_value(fields: dict, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        device_rows(pb.Device(**{"host_path": "/dev/null", **fields}))
