"""The Linux part of a spec. Tests of deviations are named like the attributes of `Rules`, and show both modes."""

from typing import Any

import pytest

from nri.errors import SpecError
from nri.rules import Rules
from tests.unit.oci.build import adjust, both_modes

FUSE = {"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}
ALLOW = {"allow": True, "type": "c", "major": 10, "minor": 229, "access": "rw"}


def devices(spec: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    return spec["linux"].get("devices", []), spec["linux"].get("resources", {}).get("devices", [])


def test_a_device_is_added_with_its_settings_and_allowed() -> None:
    full = {**FUSE, "file_mode": {"value": 0o660}, "uid": {"value": 0}, "gid": {"value": 7}}
    new_spec = adjust({}, linux={"devices": [full]})
    assert devices(new_spec) == ([{**FUSE, "fileMode": 0o660, "uid": 0, "gid": 7}], [ALLOW])


def test_a_device_replaces_the_device_with_its_path() -> None:
    spec = {"linux": {"devices": [{"path": "/dev/fuse", "type": "b"}, {"path": "/dev/x"}]}}
    for rules in (Rules.DEFAULT, Rules.REFERENCE):
        assert devices(adjust(spec, rules, linux={"devices": [FUSE]}))[0] == [{"path": "/dev/x"}, FUSE]


def test_removing_a_missing_device_changes_nothing() -> None:
    assert adjust({}, linux={"devices": [{"path": "-/dev/fuse"}]}) == {}


def test_device_removal_revokes() -> None:
    other = {"allow": True, "access": "rwm", "type": "c", "major": 1, "minor": 3}
    spec = {"linux": {"devices": [FUSE], "resources": {"devices": [{"allow": False}, ALLOW, other]}}}
    removal = {"devices": [{"path": "-/dev/fuse"}]}
    reference, default = both_modes("device_removal_revokes", spec, linux=removal)
    assert devices(reference) == ([], [{"allow": False}, ALLOW, other])
    assert devices(default) == ([], [{"allow": False}, other])
    duplicated, single = both_modes("device_removal_revokes", spec, linux={"devices": [FUSE]})
    assert devices(duplicated) == ([FUSE], [{"allow": False}, ALLOW, other, ALLOW])
    assert devices(single) == ([FUSE], [{"allow": False}, other, ALLOW])


def test_a_removed_device_stays_allowed_if_another_node_is_the_same_device() -> None:
    spec = {"linux": {"devices": [FUSE, {**FUSE, "path": "/dev/two"}], "resources": {"devices": [ALLOW]}}}
    new_spec = adjust(spec, linux={"devices": [{"path": "-/dev/fuse"}]})
    assert devices(new_spec) == ([{**FUSE, "path": "/dev/two"}], [ALLOW])


@pytest.mark.parametrize(
    ("kind", "mode", "reference", "default"),
    [
        ("c", None, "rw", "rw"),
        ("c", 0o444, "rw", "r"),
        ("c", 0o220, "rw", "w"),
        ("c", 0o640, "rw", "rw"),
        ("b", 0o400, "rwm", "rm"),
        ("c", 0, "rw", "rw"),
    ],
)
def test_device_access_follows_mode(kind: str, mode: int | None, reference: str, default: str) -> None:
    device = {**FUSE, "type": kind} | ({} if mode is None else {"file_mode": {"value": mode}})
    result = both_modes("device_access_follows_mode", {}, linux={"devices": [device]})
    assert tuple(devices(one)[1][0]["access"] for one in result) == (reference, default)


def test_removal_takes_all() -> None:
    spec = {
        "linux": {"devices": [FUSE, FUSE], "namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "pid"}]},
        "mounts": [{"destination": "/a", "source": "1"}, {"destination": "/a", "source": "2"}],
    }
    removal = {"devices": [{"path": "-/dev/fuse"}], "namespaces": [{"type": "-pid"}]}
    reference, default = both_modes("removal_takes_all", spec, linux=removal, mounts=[{"destination": "-/a"}])
    assert reference == {
        "linux": {"devices": [FUSE], "namespaces": [{"type": "ipc"}, {"type": "pid"}]},
        "mounts": [{"destination": "/a", "source": "2"}],
    }
    assert default == {"linux": {"devices": [], "namespaces": [{"type": "ipc"}]}, "mounts": []}


def test_a_namespace_is_replaced_in_place_or_added() -> None:
    spec = {"linux": {"namespaces": [{"type": "pid", "path": "/old"}, {"type": "ipc"}]}}
    adjusted = [{"type": "pid"}, {"type": "network", "path": "/run/netns/x"}, {"type": "-ipc"}, {"type": "-uts"}]
    new_spec = adjust(spec, linux={"namespaces": adjusted})
    assert new_spec["linux"]["namespaces"] == [{"type": "pid"}, {"type": "network", "path": "/run/netns/x"}]


def test_time_namespace_known() -> None:
    with pytest.raises(SpecError, match=r'^unrecognized namespace "time"$'):
        adjust({}, Rules.REFERENCE, linux={"namespaces": [{"type": "time"}]})
    assert adjust({}, linux={"namespaces": [{"type": "time"}]}) == {"linux": {"namespaces": [{"type": "time"}]}}
    with pytest.raises(SpecError, match=r'^unrecognized namespace "tmie"$'):
        adjust({}, linux={"namespaces": [{"type": "-tmie"}]})


def test_kernel_parameters_are_set_and_removed() -> None:
    spec = {"linux": {"sysctl": {"a": "1", "b": "2"}}}
    assert adjust(spec, linux={"sysctl": {"-a": "", "c": "3"}}) == {"linux": {"sysctl": {"b": "2", "c": "3"}}}
    assert adjust({}, linux={"sysctl": {"-a": ""}}) == {}


def test_network_devices_are_set_and_removed() -> None:
    spec = {"linux": {"netDevices": {"eth1": {"name": "a"}, "eth2": {"name": "b"}}}}
    new_spec = adjust(spec, linux={"net_devices": {"-eth1": {}, "ib0": {"name": "net0"}, "ib1": {}}})
    assert new_spec["linux"]["netDevices"] == {"eth2": {"name": "b"}, "ib0": {"name": "net0"}, "ib1": {}}


def test_a_seccomp_policy_replaces_the_existing_policy() -> None:
    policy = {
        "default_action": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64"],
        "flags": ["SECCOMP_FILTER_FLAG_LOG"],
        "listener_path": "/run/s",
        "listener_metadata": "m",
        "syscalls": [
            {
                "names": ["read", "write"],
                "action": "SCMP_ACT_ALLOW",
                "errno_ret": {"value": 1},
                "args": [{"index": 1, "value": "2", "value_two": "3", "op": "SCMP_CMP_EQ"}, {"op": "SCMP_CMP_NE"}],
            },
            {"names": ["open"], "action": "SCMP_ACT_ALLOW"},
        ],
    }
    new_spec = adjust({"linux": {"seccomp": {"defaultAction": "SCMP_ACT_LOG"}}}, linux={"seccomp_policy": policy})
    assert new_spec["linux"]["seccomp"] == {
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": ["SCMP_ARCH_X86_64"],
        "flags": ["SECCOMP_FILTER_FLAG_LOG"],
        "listenerPath": "/run/s",
        "listenerMetadata": "m",
        "syscalls": [
            {
                "names": ["read", "write"],
                "action": "SCMP_ACT_ALLOW",
                "errnoRet": 1,
                "args": [
                    {"index": 1, "value": 2, "valueTwo": 3, "op": "SCMP_CMP_EQ"},
                    {"index": 0, "value": 0, "op": "SCMP_CMP_NE"},
                ],
            },
            {"names": ["open"], "action": "SCMP_ACT_ALLOW"},
        ],
    }


def test_seccomp_errno_kept() -> None:
    policy = {"default_action": "SCMP_ACT_ERRNO", "default_errno": {"value": 38}}
    reference, default = both_modes("seccomp_errno_kept", {}, linux={"seccomp_policy": policy})
    assert reference["linux"]["seccomp"] == {"defaultAction": "SCMP_ACT_ERRNO"}
    assert default["linux"]["seccomp"] == {"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38}


def test_a_memory_policy_replaces_the_existing_policy() -> None:
    new_spec = adjust(
        {}, linux={"memory_policy": {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]}}
    )
    assert new_spec["linux"]["memoryPolicy"] == {"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES"]}
    assert adjust(new_spec, linux={"memory_policy": {}})["linux"]["memoryPolicy"] == {
        "mode": "MPOL_DEFAULT",
        "nodes": "",
    }


def test_rdt_settings_are_set_separately_after_a_removal() -> None:
    spec = {"linux": {"intelRdt": {"closID": "old", "l3CacheSchema": "L3:0=f"}}}
    new_spec = adjust(spec, linux={"rdt": {"schemata": {"value": ["MB:0=50"]}, "enable_monitoring": {"value": True}}})
    assert new_spec["linux"]["intelRdt"] == {
        "closID": "old", "l3CacheSchema": "L3:0=f", "schemata": ["MB:0=50"], "enableMonitoring": True,
    }  # fmt: skip
    assert adjust(new_spec, linux={"rdt": {"remove": True}}) == {"linux": {}}
    new_spec = adjust(new_spec, linux={"rdt": {"remove": True, "clos_id": {"value": "new"}}})
    assert new_spec == {"linux": {"intelRdt": {"closID": "new"}}}
