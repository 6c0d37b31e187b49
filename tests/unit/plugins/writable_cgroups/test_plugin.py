"""`writable-cgroups` makes the cgroup mount writable on request if the host delegates."""

from __future__ import annotations

from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.plugins.writable_cgroups.plugin import KEY, WritableCgroups, is_delegated, writable_options
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.pruned import pruned

OPTIONS = ["nosuid", "noexec", "nodev", "relatime", "ro"]
LINE = "30 23 0:26 / {where} rw,nosuid,nodev,noexec,relatime shared:4 - {kind} cgroup2 {options}\n"
DELEGATED = LINE.format(where="/sys/fs/cgroup", kind="cgroup2", options="rw,nsdelegate,memory_recursiveprot")


def mount(*options: str) -> m.Mount:
    return m.Mount(destination="/sys/fs/cgroup", type="cgroup", source="cgroup", options=options)


def attach(runtime: FakeRuntime, tmp_path: Path, mounts: str = DELEGATED) -> FakeRuntime:
    path = tmp_path / "mountinfo"
    path.write_text(mounts)
    return runtime.add(WritableCgroups(), idx="10", config=f"hostMountFile: {path}")


def create(runtime: FakeRuntime, annotations: dict[str, str], *mounts: m.Mount) -> nri.Adjustment:
    reply = runtime.create_container(make_pod(annotations=annotations), make_container("c0", mounts=mounts))
    adjustment: nri.Adjustment = pruned(reply.adjust)
    return adjustment


@pytest.mark.parametrize("key", [KEY, f"{KEY}/pod", f"{KEY}/container.c0"])
def test_the_annotation_makes_the_mount_writable(nri_runtime: FakeRuntime, tmp_path: Path, key: str) -> None:
    reply = create(attach(nri_runtime, tmp_path), {key: "true"}, mount(*OPTIONS))
    (changed,) = reply.message.mounts
    assert changed == mount("nosuid", "noexec", "nodev", "relatime", "rw")


@pytest.mark.parametrize("annotations", [{}, {KEY: "false"}, {KEY: ""}, {KEY: "true", f"{KEY}/pod": "false"}])
def test_without_the_annotation_the_mount_is_unchanged(
    nri_runtime: FakeRuntime, tmp_path: Path, annotations: dict[str, str]
) -> None:
    assert create(attach(nri_runtime, tmp_path), annotations, mount(*OPTIONS)) == nri.Adjustment()


def test_a_writable_mount_is_unchanged(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    assert create(attach(nri_runtime, tmp_path), {KEY: "true"}, mount("nosuid", "rw")) == nri.Adjustment()


@pytest.mark.parametrize("text", ["True", "1", "yes", " true"])
def test_an_invalid_annotation_value_is_refused_with_its_key(
    nri_runtime: FakeRuntime, tmp_path: Path, text: str
) -> None:
    attach(nri_runtime, tmp_path)
    with pytest.raises(nri.PluginRejected) as raised:
        create(nri_runtime, {f"{KEY}/pod": text}, mount("ro"))
    reason = f'annotation {KEY}/pod: "{text}" is neither true nor false; write "true" or "false"'
    assert raised.value.reason == reason


def test_a_container_without_the_mount_is_refused(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    attach(nri_runtime, tmp_path)
    with pytest.raises(nri.PluginRejected, match="the container has no mount at /sys/fs/cgroup"):
        create(nri_runtime, {KEY: "true"})


@pytest.mark.parametrize("mounts", ["", DELEGATED.replace("nsdelegate,", "")])
def test_without_nsdelegate_the_mount_is_unchanged_with_a_warning(
    nri_runtime: FakeRuntime, tmp_path: Path, mounts: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert create(attach(nri_runtime, tmp_path, mounts), {KEY: "true"}, mount(*OPTIONS)) == nri.Adjustment()
    warnings = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    lines = [text for text in warnings if "the runtime allows" not in text]  # not of a slow machine
    assert "no cgroup v2 is mounted with nsdelegate" in lines[0]
    assert f"annotation {KEY} has no effect" in lines[1]


def test_an_unreadable_mount_file_counts_as_no_delegation(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nri_runtime.add(WritableCgroups(), idx="10", config=f"hostMountFile: {tmp_path / 'gone'}")
    assert create(nri_runtime, {KEY: "true"}, mount(*OPTIONS)) == nri.Adjustment()
    assert f"cannot read {tmp_path / 'gone'}" in caplog.text


def test_without_a_host_mount_file_the_plugin_reads_its_own_mounts(
    nri_runtime: FakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    nri_runtime.add(WritableCgroups(), idx="10")
    assert "/proc/self/mountinfo: " in caplog.text


@pytest.mark.parametrize(
    ("lines", "delegated"),
    [
        ([DELEGATED], True),
        ([LINE.format(where="/sys/fs/cgroup/unified", kind="cgroup2", options="rw,nsdelegate")], True),
        ([LINE.format(where="/mnt/cgroup", kind="cgroup2", options="rw,nsdelegate")], False),
        ([LINE.format(where="/sys/fs/cgroup", kind="cgroup", options="rw,nsdelegate")], False),
        ([LINE.format(where="/sys/fs/cgroup", kind="cgroup2", options="rw"), DELEGATED], False),
        ([LINE.format(where="/sys/fs/cgroup", kind="tmpfs", options="rw"), DELEGATED], True),
        (["", "x", "- - -", "a b c d /sys/fs/cgroup - cgroup2\n"], False),
    ],
)
def test_the_first_cgroup_v2_mount_decides_about_delegation(lines: list[str], delegated: bool) -> None:
    assert is_delegated(lines) is delegated


def test_the_option_rw_replaces_ro_in_place() -> None:
    assert writable_options(["rw", "ro", "x"]) == ["rw", "x"]
    assert writable_options([]) == ["rw"]
