"""ioCost: models of disks and weights of pods, at a creation and later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nri.agent.model import Pod
from nri.agent.rubik import io_cost
from nri.agent.rubik.io_cost import Device, NodeDevices, Parameters
from nri.agent.rubik.pods import PREEMPTIBLE
from tests.support.host_trees import TOP, write_files
from tests.support.needs import need_root
from tests.support.rubik_world import RubikWorld, pod, run_pod

PARAM = dict.fromkeys(("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"), 7)
WORDS = " ".join(f"{key}=7" for key in PARAM)
ON = "enable=1 ctrl=user min=100.00 max=100.00"
WEB, BATCH = pod("web"), pod("batch", offline=True)


def config(dev: str = "/dev/sda", **more: Any) -> dict[str, Any]:
    return {"nodeName": "global", "config": [{"dev": dev, "model": "linear", "param": PARAM, **more}]}


def make_world(folder: Path, *nodes: Any, cmdline: str = "quiet cgroup1_writeback") -> RubikWorld:
    """A machine with the files of openEuler's kernel."""
    need_root()
    world = RubikWorld(folder, WEB, BATCH, ioCost=nodes or [config()])
    (folder / "dev").mkdir()
    os.mknod(folder / "dev/sda", 0o060600, os.makedev(8, 0))
    folders = ["", "kubepods", *(world.folder_of(entry) for entry in (WEB, BATCH))]
    blkio = {f"{TOP}/blkio/{folder}/blkio.cost.weight": "100\n" for folder in folders}
    inodes = {f"{TOP}/memory/{folder}/memory.wb_blkio_ino": "1\n" for folder in folders}
    root = {f"{TOP}/blkio/blkio.cost.{name}": "" for name in ("model", "qos")}
    write_files(folder, {**blkio, **inodes, **root, "proc/cmdline": f"{cmdline}\n"})
    return world


def text(world: RubikWorld, path: str, controller: str = "blkio") -> str:
    return (world.folder / TOP / controller / path).read_text().strip()


def test_disks_get_models_and_pods_get_weights_and_writeback_groups(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop()
    assert (text(world, "blkio.cost.model"), text(world, "blkio.cost.qos")) == (f"8:0 {WORDS}", f"8:0 {ON}")
    web, batch = (world.folder_of(entry) for entry in (WEB, BATCH))
    assert [text(world, f"{entry}/blkio.cost.weight") for entry in (web, batch)] == ["1000", "10"]
    inode = (tmp_path / TOP / "blkio" / web).stat().st_ino
    assert text(world, f"{web}/memory.wb_blkio_ino", "memory") == str(inode)


def test_each_of_several_disks_gets_its_model(tmp_path: Path) -> None:
    disks = [{"dev": name, "model": "linear", "param": PARAM} for name in ("sda", "sdb")]
    world = make_world(tmp_path, {"nodeName": "global", "config": disks})
    os.mknod(tmp_path / "dev/sdb", 0o060600, os.makedev(8, 16))
    world.loop()
    assert world.loops.errors == []
    explained = world.history.account("node/block-io")
    assert explained is not None
    written = {row["field"]: row["value"] for row in explained["values"]}
    assert written == {"io.cost_model": str({"8:0": WORDS, "8:16": WORDS}), "io.cost_qos": str({"8:0": ON, "8:16": ON})}


@pytest.mark.parametrize("name", ["sda", "/dev/sda", "disk/by-id/one"])
def test_a_disk_is_named_below_dev_or_by_its_path(tmp_path: Path, name: str) -> None:
    world = make_world(tmp_path, config(name))
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    os.mknod(tmp_path / "dev/disk/by-id/one", 0o060600, os.makedev(8, 0))
    world.loop()
    assert text(world, "blkio.cost.model") == f"8:0 {WORDS}"


def test_a_disabled_service_restores_models_and_weights(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop()
    world.configure()
    world.loop(2)
    assert text(world, "blkio.cost.qos") == f"8:0 {ON.replace('enable=1', 'enable=0')}"
    assert text(world, f"{world.folder_of(BATCH)}/blkio.cost.weight") == "100"
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_a_missing_disk_disables_all_models_and_is_reported(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop()
    world.configure(ioCost=[config("/dev/gone")])
    world.loop()
    assert "enable=0" in text(world, "blkio.cost.qos")
    assert "'/dev/gone' is not a block device; io.cost is not set for any disk" in world.loops.health()[1]


def test_an_incomplete_model_is_refused_and_the_last_valid_one_is_kept(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.loop()
    world.configure(ioCost=[config(model="cubic")])
    world.loop()
    assert "enable=1" in text(world, "blkio.cost.qos")
    (problem,) = world.store.problems()
    assert problem.error == 'ioCost[0].config[0].model: "cubic" is not linear; use "linear"'


@pytest.mark.parametrize(
    ("cmdline", "unlinked", "words"),
    [("no_cgroup1_writeback", "", "was not booted with cgroup1_writeback"), ("", "blkio.cost.qos", "blkio.cost.qos")],
)
def test_an_unsupported_kernel_is_reported(tmp_path: Path, cmdline: str, unlinked: str, words: str) -> None:
    world = make_world(tmp_path, cmdline=cmdline)
    if unlinked:
        (tmp_path / TOP / "blkio" / unlinked).unlink()
    world.loop()
    assert "ioCost: pods have no weights: unsupported here" in world.loops.health()[1]
    assert words in world.loops.health()[1]
    assert text(world, f"{world.folder_of(WEB)}/blkio.cost.weight") == "100"


GOOD = Device("nvme0n1", "linear", Parameters(1, 2, 3, 4, 5, 6))
MODEL_WORDS = "rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6"


def test_the_first_entry_of_the_node_wins_and_otherwise_the_last_global_one() -> None:
    nodes = [NodeDevices("global", [GOOD]), NodeDevices("n", []), NodeDevices("n", [GOOD]), NodeDevices("global", [])]
    assert list(io_cost.devices_of(nodes, "n")) == []
    assert list(io_cost.devices_of(nodes[:2], "other")) == [GOOD]
    assert list(io_cost.devices_of([], "n")) == []


def test_a_minor_number_above_255_is_valid() -> None:
    actual = [(write.knob, write.value) for write in io_cost.writes([GOOD], lambda name: "259:300")]
    assert actual == [
        ("io.cost_model", f"259:300 {MODEL_WORDS}"),
        ("io.cost_qos", "259:300 enable=1 ctrl=user min=100.00 max=100.00"),
    ]
    assert io_cost.clear(["8:0"])[0].value == "8:0 enable=0 ctrl=user min=100.00 max=100.00"


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (Device("null", "linear", GOOD.param), "config\\[0\\].dev: 'null' is not a block device"),
        (Device("nvme0n1", "exact", GOOD.param), "config\\[0\\].model"),
        (Device("nvme0n1", "linear", Parameters(1)), "config\\[0\\].param.rseqiops: 0"),
    ],
)
def test_an_invalid_disk_is_an_error_with_its_name(device: Device, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(io_cost.writes([device], lambda name: "259:0" if name == "nvme0n1" else ""))


def test_writeback_is_supported_only_with_its_kernel_parameter() -> None:
    assert io_cost.has_cgroup1_writeback("quiet cgroup1_writeback\n")
    assert not io_cost.has_cgroup1_writeback("no_cgroup1_writeback=1")


def test_offline_and_online_pods_have_different_weights() -> None:
    off = Pod(uid="u", folder="p", labels={PREEMPTIBLE: "true"})
    assert [pod_write.value for pod_write in io_cost.pod_writes(off, "77")] == ["10", "77"]
    assert [pod_write.value for pod_write in io_cost.pod_writes(Pod(uid="u", folder="p"), "")] == ["1000"]


@pytest.mark.parametrize(("cmdline", "weights"), [("cgroup1_writeback", [10, 1000]), ("", [100, 100])])
def test_a_pod_gets_its_weight_before_the_first_round(tmp_path: Path, cmdline: str, weights: list[int]) -> None:
    world = RubikWorld(tmp_path, ioCost=[])
    names = (*(f"blkio.cost.{name}" for name in ("model", "qos")), "kubepods/blkio.cost.weight")
    write_files(tmp_path, {f"{TOP}/blkio/{name}": "100\n" for name in names} | {"proc/cmdline": f"{cmdline}\n"})
    paths = [f"kubepods/burstable/pod{name}" for name in ("batch", "web")]
    write_files(tmp_path, {f"{TOP}/blkio/{path}/blkio.cost.weight": "100\n" for path in paths})
    run_pod(world, "batch", offline=True)
    run_pod(world, "web", offline=False)
    assert [world.value(path, "io.cost_weight") for path in paths] == weights


def test_a_kernel_without_cost_models_gives_no_weights(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, ioCost=[])
    write_files(tmp_path, {f"{TOP}/blkio/kubepods/burstable/podweb/blkio.weight": "100\n"})
    assert world.value(run_pod(world, "web", offline=False), "io.weight") == 100
