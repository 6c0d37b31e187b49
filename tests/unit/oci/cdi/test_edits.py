"""Edits of CDI files applied to specs, as the CDI library applies them."""

import copy
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from nri.config import Source, read
from nri.errors import SpecError
from nri.oci.cdi.edits import apply, complete
from nri.oci.cdi.file import DeviceNode, Edits
from nri.oci.draft import Draft


def edit(spec: dict[str, Any], *edits: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(spec)
    draft = Draft(spec)
    apply(draft, [read(Edits, [Source("x", json.dumps(one))]) for one in edits])
    assert spec == before, "the spec that was given was changed"
    return draft.spec


def test_no_edits_change_nothing() -> None:
    assert edit({}, {}) == {}


def test_a_variable_replaces_the_last_of_its_name() -> None:
    spec = {"process": {"env": ["A=1", "B=1", "A=2"]}}
    assert edit(spec, {"env": ["A=3", "C=1"]}, {"env": ["C=2"]})["process"]["env"] == ["A=1", "B=1", "A=3", "C=2"]
    assert edit({}, {"env": ["A=1"]}) == {"process": {"env": ["A=1"]}}


NODE = {"path": "/dev/x", "type": "c", "major": 7, "minor": 1}


def test_a_device_is_added_replaced_and_allowed() -> None:
    spec = {"linux": {"devices": [{"path": "/dev/x"}, {"path": "/dev/y"}]}}
    new_spec = edit(spec, {"deviceNodes": [NODE, {**NODE, "path": "/dev/z", "permissions": "r"}]})
    assert [row["path"] for row in new_spec["linux"]["devices"]] == ["/dev/y", "/dev/x", "/dev/z"]
    assert [rule["access"] for rule in new_spec["linux"]["resources"]["devices"]] == ["rwm", "r"]


def test_devices_without_permissions_and_pipes_get_no_rule() -> None:
    new_spec = edit({}, {"deviceNodes": [{**NODE, "permissions": "none"}, {"path": "/p", "type": "p"}]})
    rule = {"allow": True, "type": "c", "major": 7, "minor": 1}
    assert new_spec["linux"]["resources"]["devices"] == [rule]


def test_by_default_a_device_belongs_to_the_containers_user() -> None:
    spec = {"process": {"user": {"uid": 5, "gid": 6}}}
    assert edit(spec, {"deviceNodes": [NODE]})["linux"]["devices"] == [{**NODE, "uid": 5, "gid": 6}]
    assert edit(spec, {"deviceNodes": [{**NODE, "uid": 0}]})["linux"]["devices"] == [{**NODE, "uid": 0, "gid": 6}]
    root = {"process": {"user": {"uid": 0, "gid": 0}}}
    assert edit(root, {"deviceNodes": [NODE]})["linux"]["devices"] == [NODE]


def test_network_devices_are_added() -> None:
    new_spec = edit({}, {"netDevices": [{"hostInterfaceName": "eth1", "name": "net0"}]})
    assert new_spec == {"linux": {"netDevices": {"eth1": {"name": "net0"}}}}


def mount(host: str, inside: str, **more: Any) -> dict[str, Any]:
    return {"hostPath": host, "containerPath": inside, **more}


def test_mounts_replace_others_and_are_sorted_by_depth() -> None:
    spec = {"mounts": [{"destination": "/z"}, {"destination": "/b/c"}, {"destination": "/a"}]}
    new_spec = edit(spec, {"mounts": [mount("/h", "/b/c", options=["ro"], type="bind"), mount("/i", "/k")]})
    assert new_spec["mounts"] == [
        {"destination": "/z"},
        {"destination": "/a"},
        {"destination": "/k", "source": "/i"},
        {"destination": "/b/c", "source": "/h", "type": "bind", "options": ["ro"]},
    ]


def test_binds_follow_the_containers_user_namespace() -> None:
    spec = {"linux": {"namespaces": [{"type": "user"}]}}

    def options(**more: Any) -> Any:
        return edit(spec, {"mounts": [mount("/h", "/a", **more)]})["mounts"][0].get("options")

    assert options() is None
    assert options(type="tmpfs", options=["ro"]) == ["ro"]
    assert options(type="bind") == ["idmap"]
    assert options(options=["bind", "ro"]) == ["bind", "ro", "idmap"]
    assert options(type="bind", options=["rbind"]) == ["rbind", "ridmap"]
    assert options(type="bind", options=["ridmap"]) == ["ridmap"]


def test_hooks_are_appended() -> None:
    hook = {"hookName": "createContainer", "path": "/h", "args": ["h", "x"], "env": ["A=1"], "timeout": 2}
    spec = {"hooks": {"createContainer": [{"path": "/first"}]}}
    new_spec = edit(spec, {"hooks": [hook, {"hookName": "poststop", "path": "/p"}]})
    assert new_spec["hooks"] == {
        "createContainer": [{"path": "/first"}, {"path": "/h", "args": ["h", "x"], "env": ["A=1"], "timeout": 2}],
        "poststop": [{"path": "/p"}],
    }


def test_rdt_settings_replace_existing_settings() -> None:
    spec = {"linux": {"intelRdt": {"closID": "old", "schemata": ["x"]}}}
    new_spec = edit(spec, {"intelRdt": {"l3CacheSchema": "L3:0=f", "enableMonitoring": True}})
    assert new_spec["linux"]["intelRdt"] == {"l3CacheSchema": "L3:0=f", "enableMonitoring": True}


def test_groups_are_added_once_and_zero_is_ignored() -> None:
    spec = {"process": {"user": {"additionalGids": [7]}}}
    assert edit(spec, {"additionalGids": [0, 7, 8]}, {"additionalGids": [8]})["process"]["user"] == {
        "additionalGids": [7, 8]
    }


def test_edits_are_applied_kind_by_kind() -> None:
    new_spec = edit({}, {"deviceNodes": [NODE]}, {"deviceNodes": [{**NODE, "minor": 2}]})
    assert new_spec["linux"]["devices"] == [{**NODE, "minor": 2}]


def node(path: str, **device: Any) -> Any:
    node_ = DeviceNode()
    node_.path = path
    for key, value in device.items():
        setattr(node_, key, value)
    return node_


NULL = stat.S_IMODE(os.lstat("/dev/null").st_mode)


def test_missing_values_are_read_from_the_host() -> None:
    assert complete(node("/dev/null")) == {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": NULL}
    device = complete(node("/dev/mine", hostPath="/dev/null", uid=0, gid=5, fileMode=0o600))
    assert device == {
        "path": "/dev/mine", "type": "c", "major": 1, "minor": 3, "fileMode": 0o600, "uid": 0, "gid": 5,
    }  # fmt: skip


def test_type_and_number_are_not_read_from_the_host() -> None:
    device = {"path": "/dev/none", "type": "c", "major": 7, "minor": 0}
    assert complete(node("/dev/none", type="c", major=7)) == device
    assert complete(node("/dev/null", type="c", major=7, minor=9))["fileMode"] == NULL
    assert complete(node("/none", type="p")) == {"path": "/none", "type": "p", "major": 0, "minor": 0}


def test_a_pipe_has_no_number(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    device = complete(node(str(tmp_path / "pipe")))
    assert device == {"path": str(tmp_path / "pipe"), "type": "p", "major": 0, "minor": 0, "fileMode": 0o600}


@pytest.mark.parametrize(
    ("path", "device", "reason"),
    [
        ("/dev/none", {}, 'CDI device node "/dev/none": No such file or directory'),
        ("/dev/x", {"hostPath": "/etc"}, 'CDI device node "/etc": not a device node'),
        ("/dev/null", {"type": "b"}, 'CDI device node "/dev/null" is of type c, not b'),
    ],
)
def test_a_missing_host_device_is_an_error(path: str, device: Any, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        complete(node(path, **device))
    assert str(caught.value) == reason


def test_the_host_may_be_below_another_root(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev" / "pipe", 0o640)
    assert complete(node("/dev/pipe"), str(tmp_path))["fileMode"] == 0o640


def test_a_given_major_number_is_kept() -> None:
    assert complete(node("/dev/null", major=5, minor=6)) == {
        "path": "/dev/null", "type": "c", "major": 5, "minor": 6, "fileMode": NULL,
    }  # fmt: skip
