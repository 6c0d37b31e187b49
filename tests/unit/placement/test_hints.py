"""The mounts and devices that count as hints by a container's annotations."""

from __future__ import annotations

import pytest

from nri.placement.hints import sources_of
from tests.support.placement import container


@pytest.mark.parametrize(
    ("value", "mounts", "devices"),
    [
        (None, True, True),
        ("true", True, True),
        ("false", False, False),
        ("mounts", True, False),
        ("devices,pod-resources", False, True),
        ("all", True, True),
        ("mounts,none", False, False),
        ("disks", False, False),
    ],
)
def test_annotations_select_the_kinds_of_hints(value: str | None, mounts: bool, devices: bool) -> None:
    one = container("one", **({} if value is None else {"topologyhints": value}))
    sources = sources_of(one)
    assert (sources.mounts, sources.devices) == (mounts, devices)
    assert bool(one.doubts) == (value == "disks")


def test_denied_paths_are_ignored_unless_allowed() -> None:
    deny, allow = "{type: prefix, paths: [/data, /sys/devices/pci]}", "{type: glob, paths: ['/data/fast*']}"
    one = container("one", **{"deny.topologyhints": deny, "allow.topologyhints": allow})
    sources = sources_of(one)
    assert [sources.counts(path) for path in ("/data/slow", "/data/fast1", "/other", "/sys/devices/pci0")] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "paths: 3",
        "{type: regex}",
        "{type: glob, paths: [" + "x" * 5000 + "]}",
        "paths: [/data, " + ", ".join(f"/x{number}" for number in range(100)) + "]",
    ],
)
def test_invalid_lists_are_ignored(text: str) -> None:
    one = container("one", **{"deny.topologyhints": text})
    assert sources_of(one).counts("/data")
    assert "annotation deny.topologyhints.resource-policy.nri.io: " in one.doubts[0]


@pytest.mark.parametrize(
    ("source", "destination", "options", "counts"),
    [
        ("/data", "/data", ["rw"], True),
        ("/data", "/data", ["rbind", "ro"], False),
        ("/var/lib/kubelet/pods/1f-2e/etc-hosts", "/etc/hosts", [], False),
        ("/var/lib/kubelet/pods/1f-2e/volumes/kubernetes.io~secret/token", "/run/token", [], False),
        ("/usr/lib/x", "/x", [], False),
    ],
)
def test_only_some_mounts_are_hints(source: str, destination: str, options: list[str], counts: bool) -> None:
    assert sources_of(container("one")).counts_mount(source, destination, options) == counts
