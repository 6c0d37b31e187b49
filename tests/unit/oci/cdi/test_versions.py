"""Versions of the CDI format."""

from typing import Any

import pytest

from nri.config import Source, read
from nri.oci.cdi.format import Document
from nri.oci.cdi.versions import check_version


def document(version: str, **more: Any) -> Any:
    import json

    whole = {
        "cdiVersion": version,
        "kind": "v/c",
        "devices": [{"name": "d", "containerEdits": {"env": ["A=1"]}}],
        **more,
    }
    return read(Document, [Source("x.json", json.dumps(whole))])


@pytest.mark.parametrize("version", ["0.3.0", "v0.3.0", "0.8.0", "1.0.0", "1.1.0"])
def test_released_versions_are_known(version: str) -> None:
    check_version(document(version))


@pytest.mark.parametrize("version", ["0.2.0", "0.1.0"])
def test_the_oldest_ones_are_too_old_for_any_file(version: str) -> None:
    with pytest.raises(ValueError, match=r"is too old: the format came with 0.3.0"):
        check_version(document(version))


@pytest.mark.parametrize("version", ["", "1", "1.2.0", "vv1.0.0", "latest"])
def test_other_versions_are_not_known(version: str) -> None:
    with pytest.raises(ValueError, match=r"is no version; known are 0.3.0, 0.4.0"):
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
def test_a_feature_needs_the_version_that_it_came_with(before: str, since: str, more: Any, what: str) -> None:
    check_version(document(since, **more))
    with pytest.raises(ValueError, match=rf'"{before}" is too old: {what}.* came with {since}'):
        check_version(document(before, **more))
