"""The check of a machine, row by row."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from pathlib import Path

import pytest

from nri.engine import check
from nri.engine.check import Check, examine, kernel, missing_parts, networks, programs, version_of
from nri.engine.config import (
    CgroupConfig,
    DomainConfig,
    EngineConfig,
    ImageConfig,
    NetworkConfig,
    NriConfig,
    OciRuntime,
)
from nri.engine.spec import Machine


def test_only_a_row_with_a_problem_requires_a_next_step() -> None:
    assert Check("conmon", "ok", "2.1.6").next == ""


def rows(config: EngineConfig) -> dict[str, Check]:
    return {row.what: row for row in examine(config)}


def test_sockets_are_free_occupied_or_too_long(tmp_path: Path) -> None:
    nri = NriConfig(socket_path=str(tmp_path / ("n" * 120)))
    config = EngineConfig(root=tmp_path, socket=tmp_path / "cri.sock", nri=nri)
    checks = rows(config)
    assert checks["CRI socket"].state == "ok"
    assert (checks["NRI socket"].state, checks["NRI socket"].next) == (
        "missing",
        "set nri.socket_path to a shorter path",
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "cri.sock"))
        listener.listen()
        row = rows(config)["CRI socket"]
    assert (row.state, row.found) == ("limited", f"{tmp_path}/cri.sock: a process already listens on this socket")


def test_sockets_of_further_domains_are_checked(tmp_path: Path) -> None:
    domains = {"moby": DomainConfig(), "other": DomainConfig(socket=str(tmp_path / "other.sock"))}
    (tmp_path / "domains/moby/records/broken").mkdir(parents=True)
    (tmp_path / "domains/moby/records/broken/a.json").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "other.sock"))
        listener.listen()
        checks = rows(EngineConfig(root=tmp_path, socket=tmp_path / "cri.sock", domains=domains))
    assert checks["CRI socket of moby"].found == f"{tmp_path}/moby.sock is free"
    assert (
        checks["CRI socket of other"].state == "limited"
        and "domains.other.socket" in checks["CRI socket of other"].next
    )
    assert "domains/moby/records/broken: a.json" in checks["records set aside"].found


def test_files_that_were_set_aside_are_reported(tmp_path: Path) -> None:
    config = EngineConfig(root=tmp_path, socket=tmp_path / "cri.sock")
    assert not any("set aside" in what for what in rows(config))
    for name in ("records/broken", "images/broken"):
        (tmp_path / name).mkdir(parents=True)
    for number in range(7):
        (tmp_path / f"records/broken/{number}.json").touch()
    (tmp_path / "images/broken/a\x1b[2J").touch()
    checks = rows(config)
    assert checks["records set aside"].found.endswith("broken: 0.json, 1.json, 2.json, 3.json, 4.json and 2 more")
    assert checks["files set aside"].found.endswith(r"broken: a\x1b[2J") and checks["files set aside"].next


def test_without_nri_its_socket_is_not_checked(tmp_path: Path) -> None:
    config = EngineConfig(root=tmp_path, socket=tmp_path / "cri.sock", nri=NriConfig(disable=True))
    assert "NRI socket" not in rows(config)
    connected = dataclasses.replace(config, nri=NriConfig(disable_connections=True))
    assert "NRI socket" not in rows(connected)


def test_missing_programs_are_named_with_their_package(tmp_path: Path) -> None:
    conmon = tmp_path / "conmon"
    conmon.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    conmon.chmod(0o755)
    images = dataclasses.replace(EngineConfig().images, skopeo="/none/skopeo", umoci="/none/umoci")
    runtimes = {"runc": OciRuntime("/none/runc"), "other": OciRuntime("/none/other")}
    network = NetworkConfig(config_dir=tmp_path / "cni")
    config = EngineConfig(runtimes=runtimes, conmon=str(conmon), images=images, network=network)
    checks = {row.what: row.next for row in missing_parts(config)}
    assert list(checks) == ["OCI runtime runc", "skopeo, for images", "umoci, for images", "pod network"]
    assert all(f"apt-get install {name}" in " ".join(checks.values()) for name in ("runc", "skopeo", "umoci"))
    assert not (tmp_path / "ran").exists()
    assert missing_parts(dataclasses.replace(config, dry=True)) == []


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    runc = script(tmp_path / "runc", "echo runc version 1.1.5+ds1; echo commit: 1.1.5+ds1-1")
    tool = script(tmp_path / "tool", "echo tool version 2.0")
    images = dataclasses.replace(EngineConfig().images, skopeo=tool, umoci=tool)
    runtimes = {"runc": OciRuntime(runc), "crun": OciRuntime("/none/crun")}
    return EngineConfig(runtimes=runtimes, conmon=tool, images=images)


def check_rows(config: EngineConfig, root: Path = Path("/none")) -> dict[str, tuple[str, str, str]]:
    return {row.what: (row.state, row.found, row.next) for row in programs(config, root)}


def test_a_program_has_its_version_and_path(config: EngineConfig, tmp_path: Path) -> None:
    rows = check_rows(config)
    assert rows["OCI runtime runc"] == ("ok", f"1.1.5+ds1, {tmp_path}/runc", "")
    assert rows["conmon"] == ("ok", f"2.0, {tmp_path}/tool", "")


def test_a_missing_second_runtime_is_not_a_problem(config: EngineConfig) -> None:
    state, what, step = check_rows(config)["OCI runtime crun"]
    assert (state, what) == ("limited", "program /none/crun not found: pods with this handler are rejected")
    assert step.startswith("apt-get install crun")


def test_for_a_missing_default_runtime_another_one_is_recommended(config: EngineConfig) -> None:
    state, _, step = check_rows(dataclasses.replace(config, default_runtime="crun"))["OCI runtime crun"]
    assert (state, step) == (
        "missing",
        'apt-get install crun, or set default_runtime = "runc", or set its path in engine.toml',
    )


def test_a_program_that_cannot_be_run_counts_as_missing(config: EngineConfig, tmp_path: Path) -> None:
    bad = script(tmp_path / "bad", "exit 3")
    state, what, step = check_rows(dataclasses.replace(config, conmon=bad))["conmon"]
    assert (state, what, step) == ("missing", f"{bad} does not print its version", f"try: {bad} --version")
    assert version_of("/none") == ""


def test_crun_on_a_hybrid_machine_is_reported(config: EngineConfig, tmp_path: Path) -> None:
    crun = script(tmp_path / "crun", "echo crun version 1.8.1")
    unified = tmp_path / "sys/fs/cgroup/unified"
    unified.mkdir(parents=True)
    (unified / "cgroup.controllers").write_text("hugetlb\n")
    config = dataclasses.replace(config, runtimes={"runc": config.runtimes["runc"], "crun": OciRuntime(crun)})
    state, what, step = check_rows(config, tmp_path)["OCI runtime crun"]
    assert (state, what) == ("limited", f"1.8.1, {crun}; crun refuses cgroup v1 while cgroup v2 has hugetlb")
    assert "use runc" in step
    (unified / "cgroup.controllers").write_text("\n")
    assert check_rows(config, tmp_path)["OCI runtime crun"][0] == "ok"


@pytest.fixture
def networked(tmp_path: Path) -> EngineConfig:
    for name in ("net.d", "bin"):
        (tmp_path / name).mkdir()
    return EngineConfig(network=NetworkConfig(tmp_path / "net.d", (tmp_path / "bin",)))


def put(networked: EngineConfig, *plugins: dict[str, object]) -> None:
    row = {"cniVersion": "1.0.0", "name": "pods", "plugins": plugins}
    (networked.network.config_dir / "10.conflist").write_text(json.dumps(row))


BRIDGE = {"type": "bridge", "ipam": {"type": "host-local"}}


def test_without_a_network_configuration_the_folder_is_named(networked: EngineConfig) -> None:
    (row,) = networks(networked)
    assert (row.what, row.state) == ("pod network", "missing")
    assert f"put a .conflist file into {networked.network.config_dir}" in row.next


def test_missing_cni_plugins_are_named(networked: EngineConfig) -> None:
    put(networked, BRIDGE)
    (networked.network.plugin_dirs[0] / "bridge").touch()
    network, plugins = networks(networked)
    assert (network.state, network.found) == ("ok", f'"pods", {networked.network.config_dir}/10.conflist')
    assert plugins.state == "missing"
    assert plugins.found.startswith("host-local not found in ")
    (networked.network.plugin_dirs[0] / "host-local").touch()
    assert [row.state for row in networks(networked)] == ["ok", "ok"]


def test_an_invalid_network_file_next_to_a_valid_one_is_reported(networked: EngineConfig) -> None:
    put(networked, BRIDGE)
    (networked.network.config_dir / "00.conf").write_text("{")
    row = next(iter(networks(networked)))
    assert row.state == "limited"
    assert "00.conf" in row.found


@pytest.mark.parametrize("plugin", [{"type": "portmap"}, {**BRIDGE, "ipMasq": True}])
def test_a_network_with_filters_requires_iptables(networked: EngineConfig, plugin, monkeypatch) -> None:
    put(networked, plugin)
    monkeypatch.setattr(check.shutil, "which", lambda _: None)
    assert [row.what for row in networks(networked) if row.state == "missing"][-1] == "iptables"
    monkeypatch.setattr(check.shutil, "which", lambda name: f"/usr/sbin/{name}")
    assert "iptables" not in [row.what for row in networks(networked)]


def test_further_folders_of_cni_plugins_are_searched(networked: EngineConfig, tmp_path: Path) -> None:
    put(networked, {"type": "mine"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other/mine").touch()
    network = dataclasses.replace(networked.network, plugin_dirs=(*networked.network.plugin_dirs, tmp_path / "other"))
    rows = list(networks(dataclasses.replace(networked, network=network)))
    assert rows[1].found == f"mine in {tmp_path}/other"


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
    monkeypatch.setattr(check, "overlay_works", lambda _: True)


def kernel_rows(root: Path, machine: Machine | None = None, config: EngineConfig | None = None) -> dict[str, Check]:
    return {row.what: row for row in kernel(config or EngineConfig(root=root), machine or Machine(), root)}


def test_a_complete_machine_has_no_problem(root: Path) -> None:
    assert {row.state for row in kernel_rows(root).values()} == {"ok"}


def test_without_root_the_limits_are_reported(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    row = kernel_rows(root)["user"]
    assert (row.state, row.found) == ("missing", "uid 1000, not root")
    assert "--dry DIR" in row.next


def test_missing_capabilities_are_named(root: Path) -> None:
    row = kernel_rows(root, Machine(capabilities=("CAP_CHOWN",)))["capabilities"]
    assert row.state == "missing"
    assert "CAP_SYS_ADMIN" in row.found
    assert "CAP_CHOWN" not in row.found
    machine_ = Machine()
    less = dataclasses.replace(
        machine_, capabilities=[name for name in machine_.capabilities if "RESOURCE" not in name]
    )
    assert kernel_rows(root, less)["capabilities"].state == "limited"


def test_a_missing_cgroup_controller_is_reported(root: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu pids\n")
    row = kernel_rows(root)["cgroups"]
    assert (row.state, row.found) == ("missing", "v2, without cpuset, memory")


def test_a_hybrid_machine_is_reported(root: Path) -> None:
    for name in ("cpu,cpuacct", "cpuset", "memory", "pids", "unified"):
        (root / "sys/fs/cgroup" / name).mkdir()
    row = kernel_rows(root, Machine(cgroup_v2=False, hugetlb=False))["cgroups"]
    assert (row.state, row.found) == ("limited", "v1 and v2 (hybrid), without limits of huge pages")


def test_the_systemd_driver_requires_systemd(root: Path) -> None:
    config = EngineConfig(root=root, cgroups=CgroupConfig(driver="systemd"))
    assert kernel_rows(root, config=config)["systemd"].state == "missing"
    (root / "run/systemd/system").mkdir(parents=True)
    assert "systemd" not in kernel_rows(root, config=config)


def test_missing_namespaces_are_named(root: Path) -> None:
    (root / "proc/self/ns/user").unlink()
    assert kernel_rows(root)["namespaces"].found == "the kernel has no user"


@pytest.mark.parametrize(("snapshots", "state"), [("auto", "limited"), ("overlay", "missing"), ("copy", "ok")])
def test_a_missing_overlayfs_is_a_problem_only_if_configured(root: Path, monkeypatch, snapshots, state) -> None:
    monkeypatch.setattr(check, "overlay_works", lambda _: False)
    config = EngineConfig(root=root / "not/there", images=ImageConfig(snapshots=snapshots))
    assert kernel_rows(root, config=config)["overlayfs"].state == state


def test_a_kernel_without_seccomp_is_reported(root: Path) -> None:
    assert kernel_rows(root, Machine(seccomp=False))["seccomp"].state == "limited"
