"""What kernel and rights allow, on folders that stand for / and machines that are made up."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from nri.engine.check import kernel as module
from nri.engine.check.kernel import kernel
from nri.engine.check.rows import Check
from nri.engine.config import CgroupConfig, EngineConfig, ImageConfig
from nri.engine.spec import Machine


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
        (tmp_path / "proc/self/ns" / name).touch()
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu cpuset memory pids io hugetlb\n")
    return tmp_path


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module, "overlay_works", lambda _: True)


def rows(root: Path, machine: Machine | None = None, config: EngineConfig | None = None) -> dict[str, Check]:
    return {row.what: row for row in kernel(config or EngineConfig(root=root), machine or Machine(), root)}


def test_a_whole_machine_misses_nothing(root: Path) -> None:
    assert {row.state for row in rows(root).values()} == {"ok"}


def test_another_user_is_told_what_goes_without_root(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    row = rows(root)["user"]
    assert (row.state, row.found) == ("missing", "uid 1000, not root")
    assert "--dry DIR" in row.next


def test_capabilities_that_are_missing_are_named(root: Path) -> None:
    row = rows(root, Machine(capabilities=("CAP_CHOWN",)))["capabilities"]
    assert row.state == "missing"
    assert "CAP_SYS_ADMIN" in row.found
    assert "CAP_CHOWN" not in row.found
    whole = Machine()
    less = dataclasses.replace(whole, capabilities=[name for name in whole.capabilities if "RESOURCE" not in name])
    assert rows(root, less)["capabilities"].state == "limited"


def test_cgroups_without_a_controller_that_is_needed(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu pids\n")
    row = rows(root)["cgroups"]
    assert (row.state, row.found) == ("missing", "v2, without cpuset, memory")


def test_a_hybrid_machine_is_called_one(root: Path) -> None:
    for name in ("cpu,cpuacct", "cpuset", "memory", "pids", "unified"):
        (root / "sys/fs/cgroup" / name).mkdir()
    row = rows(root, Machine(cgroup_v2=False, hugetlb=False))["cgroups"]
    assert (row.state, row.found) == ("limited", "v1 and v2 (hybrid), no limits of huge pages")


def test_the_systemd_driver_needs_systemd(root: Path) -> None:
    config = EngineConfig(root=root, cgroups=CgroupConfig(driver="systemd"))
    assert rows(root, config=config)["systemd"].state == "missing"
    (root / "run/systemd/system").mkdir(parents=True)
    assert "systemd" not in rows(root, config=config)


def test_namespaces_that_the_kernel_does_not_have_are_named(root: Path) -> None:
    (root / "proc/self/ns/user").unlink()
    assert rows(root)["namespaces"].found == "the kernel has no user"


@pytest.mark.parametrize(("snapshots", "state"), [("auto", "limited"), ("overlay", "missing"), ("copy", "ok")])
def test_overlayfs_counts_as_much_as_the_settings_want_it(root: Path, monkeypatch, snapshots, state) -> None:
    monkeypatch.setattr(module, "overlay_works", lambda _: False)
    config = EngineConfig(root=root / "not/there", images=ImageConfig(snapshots=snapshots))
    assert rows(root, config=config)["overlayfs"].state == state


def test_a_kernel_without_seccomp_is_named(root: Path) -> None:
    assert rows(root, Machine(seccomp=False))["seccomp"].state == "limited"
