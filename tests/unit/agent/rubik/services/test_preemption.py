"""preemption beside its hook: protected memory, openEuler's module for the network, and what cannot be put back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.host_trees import TOP, write_files
from tests.support.rubik_world import RubikWorld, pod

MIB = 1 << 20
BANDWIDTH = {"waterline": 20, "bandwidthLow": 1, "bandwidthHigh": 5}
MEMORY, NET = ({"preemption": {"resource": [name], "net": BANDWIDTH}} for name in ("memory", "net"))


def asking(name: str, mib: int, part: str = "requests", **more: Any) -> dict[str, Any]:
    made = pod(name, **more)
    made["spec"]["containers"][0]["resources"].setdefault(part, {})["memory"] = str(mib * MIB)
    return made


def low(world: RubikWorld, path: str) -> int:
    return int(world.text(path, "memory.low")) // MIB


def test_memory_that_a_sidecar_asks_for_is_among_what_is_reclaimed_last_of_its_pod(tmp_path: Path) -> None:
    web = asking("web", 64)
    web["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"memory": "32Mi"}}}
    ]
    world = RubikWorld(tmp_path, web, **MEMORY)
    world.loop()
    assert [low(world, each) for each in ("kubepods", world.folder_of(web), world.app(web))] == [96, 96, 64]


def test_memory_that_online_pods_ask_for_is_reclaimed_last_up_to_the_top_and_no_longer_than_that(
    tmp_path: Path,
) -> None:
    web, db = asking("web", 64), asking("db", 32, "limits", kube="Guaranteed")
    world = RubikWorld(tmp_path, web, db, batch := asking("batch", 500, offline=True), **MEMORY)
    world.loop()
    top, middle = "kubepods", "kubepods/burstable"
    assert [low(world, each) for each in (top, middle, world.folder_of(web), world.app(web))] == [96, 64, 64, 64]
    assert [low(world, each) for each in (world.app(db), world.folder_of(batch), world.app(batch))] == [32, 0, 0]
    world.run(db, batch)
    world.loop()
    assert [low(world, each) for each in (top, middle)] == [32, 0]
    world.configure()
    world.loop()
    assert [low(world, each) for each in (top, world.app(db))] == [0, 0]
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_a_kernel_without_any_of_it_is_told(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, asking("web", 64), **MEMORY)
    for file in (tmp_path / TOP / "memory").rglob("memory.low"):
        file.unlink()
    world.loop()
    assert "preemption: memory of online pods has no protection but OOM scores" in world.loops.health()[1]


def module(world: RubikWorld) -> None:
    names = ("enable", "disable", "waterline", "bandwidth")
    write_files(world.folder, {f"proc/qos/net_qos_{name}": "" for name in names})


def net(world: RubikWorld, name: str) -> str:
    return (world.folder / f"proc/qos/net_qos_{name}").read_text()


def test_the_network_of_pods_is_under_control_once_and_no_longer_when_it_is_off(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, **NET)
    module(world)
    world.loop()
    assert [net(world, name) for name in ("enable", "waterline", "bandwidth")] == [str(os.getpid()), "20mb", "1mb,5mb"]
    host = pod("host", offline=True)
    host["spec"]["hostNetwork"] = True
    world.run(pod("batch", offline=True), host)
    world.loop()
    assert net(world, "enable") == "100"
    (world.folder / "proc/qos/net_qos_enable").write_text("")
    world.loop()
    assert net(world, "enable") == "", "it is said once"
    world.configure()
    world.loop()
    assert net(world, "disable") == "100"
    assert world.loops.errors == []


def test_the_network_of_an_online_pod_whose_level_is_wrong_stays_under_control(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, web := pod("web"), **NET)
    module(world)
    world.overwrite(world.folder_of(web), "net_cls.classid", "7")
    world.loop(3)
    assert any("cannot be put back" in error for error in world.loops.errors)
    assert (net(world, "enable"), net(world, "disable")) == ("100", ""), "it is not switched off in the same round"


def test_the_network_of_a_restarted_container_is_let_go_by_a_process_that_it_has_now(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), **NET)
    module(world)
    world.loop()
    assert net(world, "enable") == "100"
    for procs in (tmp_path / TOP).rglob(f"{world.app(batch)}/cgroup.procs"):
        procs.write_text("200\n")
    world.configure()
    world.loop()
    assert net(world, "disable") == "200"


def test_a_bandwidth_that_is_refused_switches_the_network_off_again(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, **NET)
    module(world)
    (tmp_path / "proc/qos/net_qos_waterline").unlink()
    world.loop()
    assert net(world, "disable") == str(os.getpid())
    assert "net_qos_waterline" in world.loops.health()[1]


@pytest.mark.parametrize("block", [MEMORY, NET], ids=["memory", "net"])
def test_a_pod_that_became_online_and_a_missing_module_are_told(tmp_path: Path, block: Any) -> None:
    world = RubikWorld(tmp_path, pod("batch", offline=True), **block)
    world.loop()
    world.run(pod("batch"))
    world.loop(2)
    assert any("shop/batch: it became online" in each for each in world.loops.errors)
    assert (block is NET) == any("there is no /proc/qos/net_qos_enable" in each for each in world.loops.errors)


def test_an_online_pod_below_its_level_is_told(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, web := pod("web"), **MEMORY)
    for path in ("kubepods", world.folder_of(web), world.app(web)):
        write_files(tmp_path, {f"{TOP}/memory/{path}/memory.qos_level": "-1\n"})
    world.loop()
    assert sum("memory.qos_level of" in each and "cannot be put back" in each for each in world.loops.errors) == 2
