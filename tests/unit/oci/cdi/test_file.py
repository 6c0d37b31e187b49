"""Reading and checking of a CDI file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nri.config import Source, read
from nri.errors import ConfigError
from nri.oci.cdi.file import (
    Document,
    Edits,
    IntelRdt,
    QualifiedName,
    check_version,
    is_clos_id,
    parse_name,
    read_device_file,
)


def test_edits_without_effect_are_empty() -> None:
    edits = Edits()
    assert edits.is_empty()
    edits.env = []
    assert edits.is_empty()


@pytest.mark.parametrize("name", ["env", "deviceNodes", "netDevices", "hooks", "mounts", "additionalGids"])
def test_edits_with_an_effect_are_not_empty(name: str) -> None:
    edits = Edits()
    setattr(edits, name, [1])
    assert not edits.is_empty()
    edits = Edits()
    edits.intelRdt = IntelRdt()
    assert not edits.is_empty()


def test_a_qualified_name_has_three_parts() -> None:
    assert parse_name("vendor.com/gpu=card0:1") == QualifiedName("vendor.com", "gpu", "card0:1")
    assert str(parse_name("v/c.d=0")) == "v/c.d=0"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("gpu0", '"gpu0" is not a qualified name; write vendor.com/class=name'),
        ("/dev/x=1", "is not a qualified name"),
        ("vendor=1", '"vendor" has no "/"; write vendor.com/class'),
        ("1v/c=1", 'the vendor "1v" must begin with a letter'),
        ("v/c_=1", 'the class "c_" must begin with a letter, end with a letter or digit'),
        ("/c=1", "is not a qualified name"),
        ("v/=1", 'the class ""'),
        ("v/c=", 'the name ""'),
        ("v/c=-1", 'the name "-1" must begin and end with a letter or digit'),
        ("v/c=a=b", 'the name "a=b"'),
        ("v/c=1\n", 'the name "1\n"'),
    ],
)
def test_an_invalid_name_is_an_error_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_name(text)


def document(version: str, **more: Any) -> Any:
    import json

    document_ = {
        "cdiVersion": version,
        "kind": "v/c",
        "devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}}],
        **more,
    }
    return read(Document, [Source("x.json", json.dumps(document_))])


@pytest.mark.parametrize("version", ["0.3.0", "v0.3.0", "0.8.0", "1.0.0", "1.1.0"])
def test_released_versions_are_known(version: str) -> None:
    check_version(document(version))


@pytest.mark.parametrize("version", ["0.2.0", "0.1.0"])
def test_versions_before_0_3_0_are_too_old(version: str) -> None:
    with pytest.raises(ValueError, match=r"is too old: the format requires 0.3.0"):
        check_version(document(version))


@pytest.mark.parametrize("version", ["", "1", "1.2.0", "vv1.0.0", "latest"])
def test_other_versions_are_unknown(version: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version of CDI; known versions: 0.3.0, 0.4.0"):
        check_version(document(version))


def device(**edits: Any) -> dict[str, Any]:
    return {"devices": [{"name": "d", "containerEdits": edits}]}


@pytest.mark.parametrize(
    ("before", "since", "more", "what"),
    [
        ("1.0.0", "1.1.0", {"containerEdits": {"netDevices": [{"hostInterfaceName": "a", "name": "b"}]}}, "netDevices"),
        ("1.0.0", "1.1.0", device(intelRdt={"schemata": ["MB:0=5"]}), "intelRdt.schemata and"),
        ("1.0.0", "1.1.0", device(intelRdt={"enableMonitoring": True}), "intelRdt.schemata and"),
        ("0.6.0", "0.7.0", device(intelRdt={"closID": "x"}), "intelRdt"),
        ("0.6.0", "0.7.0", {"containerEdits": {"additionalGids": [5]}}, "additionalGids"),
        ("0.5.0", "0.6.0", {"annotations": {"a": "b"}}, "annotations"),
        ("0.5.0", "0.6.0", {"devices": [{"name": "d", "annotations": {"a": "b"}}]}, "annotations"),
        ("0.5.0", "0.6.0", {"kind": "v/c.d"}, "a class with a dot"),
        ("0.4.0", "0.5.0", {"devices": [{"name": "0"}]}, "a device name that begins with a digit"),
        ("0.4.0", "0.5.0", device(deviceNodes=[{"path": "/a", "hostPath": "/b"}]), "hostPath"),
        (
            "0.3.0",
            "0.4.0",
            device(mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]),
            "type of a mount",
        ),
    ],
)
def test_a_feature_requires_its_version(before: str, since: str, more: Any, what: str) -> None:
    check_version(document(since, **more))
    with pytest.raises(ValueError, match=rf'"{before}" is too old: {what}.* requires {since}'):
        check_version(document(before, **more))


GOOD: dict[str, Any] = {
    "cdiVersion": "1.1.0",
    "kind": "vendor.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=1"]}}],
}

YAML = """\
---
cdiVersion: "0.5.0"
kind: vendor.com/net
containerEdits:
  env: ["ALL=1"]
devices:
  - name: nic0
    containerEdits:
      deviceNodes:
        - {path: /dev/nic0, type: c, major: 9, minor: 1, fileMode: 0640, permissions: rw}
        - {path: /dev/nic1, fileMode: 0o600}
        - {path: /dev/nic2, fileMode: 416}
"""


def write(tmp_path: Path, **change: Any) -> str:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**GOOD, **change}, indent=1))
    return str(path)


def test_json_and_yaml_are_read(tmp_path: Path) -> None:
    file = read_device_file(write(tmp_path), 3)
    assert (file.vendor, file.kind, file.priority, list(file.devices)) == ("vendor.com", "gpu", 3, ["0"])
    assert file.qualified("0") == "vendor.com/gpu=0"
    (tmp_path / "x.yaml").write_text(YAML)
    file = read_device_file(str(tmp_path / "x.yaml"))
    assert file.edits.env == ["ALL=1"]
    nodes = file.devices["nic0"].deviceNodes or []
    assert [node.fileMode for node in nodes] == [0o640, 0o600, 0o640]


def edits(**edits: Any) -> dict[str, Any]:
    return {"containerEdits": edits}


NODE = {"path": "/dev/x"}
HOOK = {"hookName": "poststop", "path": "/bin/x"}
NET = {"hostInterfaceName": "eth1", "name": "net0"}


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        ({"cdiVersion": "9"}, "cdiVersion", '"9" is not a version'),
        ({"kind": "gpu"}, "kind", '"gpu" has no "/"'),
        ({"devices": []}, "devices", "there are no devices"),
        ({"devices": [{"name": "-", **edits(env=["A=1"])}]}, "devices[0].name", 'the name "-" must'),
        ({"devices": [{"name": "a"}]}, "devices[0]", 'device "a" has no containerEdits'),
        ({"devices": GOOD["devices"] * 2}, "devices[1].name", '"0" is used twice'),
        (edits(env=["=1"]), "containerEdits.env[0]", '"=1" is not an environment variable'),
        (edits(deviceNodes=[{"path": ""}]), "containerEdits.deviceNodes[0].path", "is empty"),
        (edits(deviceNodes=[{**NODE, "type": "x"}]), "containerEdits.deviceNodes[0].type", '"x" is not a device type'),
        (edits(deviceNodes=[{**NODE, "permissions": "rx"}]), "containerEdits.deviceNodes[0].permissions", "r, w and m"),
        (edits(deviceNodes=[{**NODE, "fileMode": "rw"}]), "containerEdits.deviceNodes[0].fileMode", '"rw" is not'),
        (edits(hooks=[{**HOOK, "hookName": "x"}]), "containerEdits.hooks[0].hookName", '"x" is not a hook'),
        (edits(hooks=[{**HOOK, "path": ""}]), "containerEdits.hooks[0].path", "is empty"),
        (edits(hooks=[{**HOOK, "env": ["A"]}]), "containerEdits.hooks[0].env[0]", '"A" is not an environment variable'),
        (edits(mounts=[{"hostPath": "", "containerPath": "/a"}]), "containerEdits.mounts[0].hostPath", "is empty"),
        (edits(intelRdt={"closID": "a/b"}), "containerEdits.intelRdt.closID", '"a/b" is not a valid folder name'),
        (edits(netDevices=[{**NET, "name": ""}]), "containerEdits.netDevices[0].name", "is empty"),
        (edits(netDevices=[NET, {**NET, "name": "b"}]), "containerEdits.netDevices[1].hostInterfaceName", "twice"),
        ({"devics": []}, "devics", "unknown key"),
        (edits(deviceNodes=[{**NODE, "major": -1}]), "containerEdits.deviceNodes[0].major", ""),
    ],
)  # fmt: skip
def test_a_problem_names_file_line_key_and_value(tmp_path: Path, change: Any, key: str, reason: str) -> None:
    path = write(tmp_path, **change)
    with pytest.raises(ConfigError) as caught:
        read_device_file(path)
    assert caught.value.key == key
    assert reason in caught.value.reason
    assert caught.value.source.startswith(f"{path}:"), "the line is missing"


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_device_file(write(tmp_path, cdiVersion="9", kind="x"))
    assert [error.key for error in caught.value.others] == ["kind"]


def test_permissions_may_be_none(tmp_path: Path) -> None:
    path = write(tmp_path, **edits(deviceNodes=[{**NODE, "permissions": "none"}]))
    assert "none" in str(read_device_file(path))


def test_names_of_groups_must_be_names_of_folders() -> None:
    assert [is_clos_id(text) for text in ("", "a", "/", ".", "..", "a/b", "a\nb", "a" * 4096)] == [
        True, True, True, False, False, False, False, False,
    ]  # fmt: skip
