"""One CDI file, read and checked."""

import json
from pathlib import Path
from typing import Any

import pytest

from nri.errors import ConfigError
from nri.oci.cdi.file import is_clos_id, read_device_file

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
        ({"cdiVersion": "9"}, "cdiVersion", '"9" is no version'),
        ({"kind": "gpu"}, "kind", '"gpu" has no "/"'),
        ({"devices": []}, "devices", "there is no device in it"),
        ({"devices": [{"name": "-", **edits(env=["A=1"])}]}, "devices[0].name", 'the name "-" must'),
        ({"devices": [{"name": "a"}]}, "devices[0]", 'device "a" has no containerEdits'),
        ({"devices": GOOD["devices"] * 2}, "devices[1].name", '"0" is there twice'),
        (edits(env=["=1"]), "containerEdits.env[0]", '"=1" is no variable'),
        (edits(deviceNodes=[{"path": ""}]), "containerEdits.deviceNodes[0].path", "is empty"),
        (edits(deviceNodes=[{**NODE, "type": "x"}]), "containerEdits.deviceNodes[0].type", '"x" is no type'),
        (edits(deviceNodes=[{**NODE, "permissions": "rx"}]), "containerEdits.deviceNodes[0].permissions", "is none"),
        (edits(deviceNodes=[{**NODE, "fileMode": "rw"}]), "containerEdits.deviceNodes[0].fileMode", '"rw" is no file'),
        (edits(hooks=[{**HOOK, "hookName": "x"}]), "containerEdits.hooks[0].hookName", 'no hook is called "x"'),
        (edits(hooks=[{**HOOK, "path": ""}]), "containerEdits.hooks[0].path", "is empty"),
        (edits(hooks=[{**HOOK, "env": ["A"]}]), "containerEdits.hooks[0].env[0]", '"A" is no variable'),
        (edits(mounts=[{"hostPath": "", "containerPath": "/a"}]), "containerEdits.mounts[0].hostPath", "is empty"),
        (edits(intelRdt={"closID": "a/b"}), "containerEdits.intelRdt.closID", '"a/b" can be no name'),
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


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_device_file(write(tmp_path, cdiVersion="9", kind="x"))
    assert [error.key for error in caught.value.others] == ["kind"]


def test_permissions_may_be_none(tmp_path: Path) -> None:
    path = write(tmp_path, **edits(deviceNodes=[{**NODE, "permissions": "none"}]))
    assert "none" in str(read_device_file(path))


def test_names_of_groups_are_names_of_folders() -> None:
    assert [is_clos_id(text) for text in ("", "a", "/", ".", "..", "a/b", "a\nb", "a" * 4096)] == [
        True, True, True, False, False, False, False, False,
    ]  # fmt: skip
