"""`systemd-container`: what systemd requires is added where the annotation asks for it; what the pod has set stays."""

from __future__ import annotations

from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.plugins.systemd_container.plugin import KEY, SystemdContainer
from nri.testing import FakeRuntime, make_container, make_pod

DELEGATED = "30 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
CGROUPS = m.Mount(destination="/sys/fs/cgroup", type="cgroup", source="cgroup", options=["nosuid", "ro"])
SIGNAL = {"org.opencontainers.image.stopSignal": "SIGRTMIN+3"}


def create(
    runtime: FakeRuntime, tmp_path: Path, value: str, host: str = DELEGATED, **container: object
) -> nri.Adjustment:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(host)
    runtime.add(SystemdContainer(), idx="10", config=f"hostMountFile: {mounts}")
    options = {"mounts": [CGROUPS], **container}
    return runtime.create_container(make_pod(annotations={KEY: value}), make_container("c0", **options)).adjust


def test_a_container_of_systemd_gets_what_systemd_requires(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    adjustment = create(nri_runtime, tmp_path, "true")
    kinds = {path: (mount.type, list(mount.options)) for path, mount in adjustment.mounts.items()}
    assert kinds == {
        "/run": ("tmpfs", ["rw", "nosuid", "nodev", "mode=0755"]),
        "/run/lock": ("tmpfs", ["rw", "nosuid", "nodev", "mode=0755"]),
        "/tmp": ("tmpfs", ["rw", "nosuid", "nodev", "mode=1777"]),
        "/sys/fs/cgroup": ("cgroup", ["nosuid", "rw"]),
    }
    assert (adjustment.env, adjustment.annotations) == ({"container": "oci"}, SIGNAL)


def test_mounts_and_a_variable_of_the_pod_stay(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    volume = m.Mount(destination="/tmp/", type="bind", source="/srv", options=["rbind"])
    writable = m.Mount(destination="/sys/fs/cgroup", type="cgroup", source="cgroup", options=["rw"])
    adjustment = create(nri_runtime, tmp_path, "true", mounts=[volume, writable], env={"container": "kubernetes"})
    assert (list(adjustment.mounts), adjustment.env) == (["/run", "/run/lock"], {})


@pytest.mark.parametrize("host", ["", DELEGATED.replace(",nsdelegate", "")])
def test_without_delegation_the_control_group_stays_and_the_log_says_so(
    nri_runtime: FakeRuntime, tmp_path: Path, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert "/sys/fs/cgroup" not in create(nri_runtime, tmp_path, "true", host).mounts
    assert "systemd may not start: no cgroup v2 is mounted with nsdelegate" in caplog.text


def test_a_container_without_a_control_group_mount_is_logged(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create(nri_runtime, tmp_path, "true", mounts=[])
    assert "systemd may not start: the container has no mount there" in caplog.text


def test_a_runtime_that_does_not_read_the_stop_signal_is_named(
    nri_runtime: FakeRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    create(nri_runtime, tmp_path, "false")
    assert "takes the stop signal from the pod (lifecycle.stopSignal) or the image" in caplog.text


def test_the_engine_takes_the_stop_signal_without_a_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with FakeRuntime(name="nri-engine") as runtime:
        assert create(runtime, tmp_path, "true").annotations == SIGNAL
    assert "takes the stop signal" not in caplog.text


@pytest.mark.parametrize("value", ["", "false"])
def test_without_the_annotation_nothing_changes(nri_runtime: FakeRuntime, tmp_path: Path, value: str) -> None:
    adjustment = create(nri_runtime, tmp_path, value)
    assert (adjustment.mounts, adjustment.env, adjustment.annotations) == ({}, {}, {})


def test_another_word_is_refused_with_its_annotation(nri_runtime: FakeRuntime, tmp_path: Path) -> None:
    with pytest.raises(nri.PluginRejected, match=f'annotation {KEY}: "yes" is neither true nor false'):
        create(nri_runtime, tmp_path, "yes")
