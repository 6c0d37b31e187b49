"""preemption: levels or their substitutes at a creation, controlled networks, and protected memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nri.agent.model import Container, Pod
from nri.agent.rubik import preemption
from nri.agent.rubik.pods import PREEMPTIBLE
from nri.agent.rubik.preemption import Net
from nri.agent.transports.hook_plugin import HookPlugin
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.host_trees import TOP, write_files
from tests.support.rubik_world import RubikWorld, pod

MIB = 1 << 20
BANDWIDTH = {"waterline": 20, "bandwidthLow": 1, "bandwidthHigh": 5}
MEMORY, NET = ({"preemption": {"resource": [name], "net": BANDWIDTH}} for name in ("memory", "net"))


def asking(name: str, mib: int, part: str = "requests", **more: Any) -> dict[str, Any]:
    manifest = pod(name, **more)
    manifest["spec"]["containers"][0]["resources"].setdefault(part, {})["memory"] = str(mib * MIB)
    return manifest


def low(world: RubikWorld, path: str) -> int:
    return int(world.text(path, "memory.low")) // MIB


def test_protected_memory_of_a_pod_includes_its_sidecars(tmp_path: Path) -> None:
    web = asking("web", 64)
    web["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"memory": "32Mi"}}}
    ]
    world = RubikWorld(tmp_path, web, **MEMORY)
    world.loop()
    assert [low(world, entry) for entry in ("kubepods", world.folder_of(web), world.app(web))] == [96, 96, 64]


def test_requested_memory_of_online_pods_is_protected_up_to_the_top_until_they_end(
    tmp_path: Path,
) -> None:
    web, db = asking("web", 64), asking("db", 32, "limits", kube="Guaranteed")
    world = RubikWorld(tmp_path, web, db, batch := asking("batch", 500, offline=True), **MEMORY)
    world.loop()
    top, middle = "kubepods", "kubepods/burstable"
    assert [low(world, entry) for entry in (top, middle, world.folder_of(web), world.app(web))] == [96, 64, 64, 64]
    assert [low(world, entry) for entry in (world.app(db), world.folder_of(batch), world.app(batch))] == [32, 0, 0]
    world.run(db, batch)
    world.loop()
    assert [low(world, entry) for entry in (top, middle)] == [32, 0]
    world.configure()
    world.loop()
    assert [low(world, entry) for entry in (top, world.app(db))] == [0, 0]
    (service,) = world.loops.loops
    assert len(service) == 0  # type: ignore[arg-type]


def test_a_kernel_without_memory_protection_is_reported(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, asking("web", 64), **MEMORY)
    for file in (tmp_path / TOP / "memory").rglob("memory.low"):
        file.unlink()
    world.loop()
    assert "preemption: memory of online pods is protected only by OOM scores" in world.loops.health()[1]


def module(world: RubikWorld) -> None:
    names = ("enable", "disable", "waterline", "bandwidth")
    write_files(world.folder, {f"proc/qos/net_qos_{name}": "" for name in names})


def net(world: RubikWorld, name: str) -> str:
    return (world.folder / f"proc/qos/net_qos_{name}").read_text()


def test_pod_networks_are_enabled_once_and_disabled_with_the_service(tmp_path: Path) -> None:
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


def test_the_network_of_an_online_pod_with_a_wrong_level_stays_enabled(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, web := pod("web"), **NET)
    module(world)
    world.overwrite(world.folder_of(web), "net_cls.classid", "7")
    world.loop(3)
    assert any("cannot be reset" in error for error in world.loops.errors)
    assert (net(world, "enable"), net(world, "disable")) == ("100", ""), "it is not switched off in the same round"


def test_the_network_of_a_restarted_container_is_disabled_by_a_current_process(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), **NET)
    module(world)
    world.loop()
    assert net(world, "enable") == "100"
    for procs in (tmp_path / TOP).rglob(f"{world.app(batch)}/cgroup.procs"):
        procs.write_text("200\n")
    world.configure()
    world.loop()
    assert net(world, "disable") == "200"


def test_a_refused_bandwidth_disables_the_network_control(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, **NET)
    module(world)
    (tmp_path / "proc/qos/net_qos_waterline").unlink()
    world.loop()
    assert net(world, "disable") == str(os.getpid())
    assert "net_qos_waterline" in world.loops.health()[1]


@pytest.mark.parametrize("block", [MEMORY, NET], ids=["memory", "net"])
def test_a_pod_that_became_online_and_a_missing_module_are_reported(tmp_path: Path, block: Any) -> None:
    world = RubikWorld(tmp_path, pod("batch", offline=True), **block)
    world.loop()
    world.run(pod("batch"))
    world.loop(2)
    assert any("shop/batch: the pod became online" in error for error in world.loops.errors)
    assert (block is NET) == any("/proc/qos/net_qos_enable not found" in error for error in world.loops.errors)


def test_an_online_pod_with_a_low_level_is_reported(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, web := pod("web"), **MEMORY)
    for path in ("kubepods", world.folder_of(web), world.app(web)):
        write_files(tmp_path, {f"{TOP}/memory/{path}/memory.qos_level": "-1\n"})
    world.loop()
    assert sum("memory.qos_level of" in error and "cannot be reset" in error for error in world.loops.errors) == 2


ON = Pod(uid="u", folder="p", containers=(Container(id="1", folder="p/1"),))
OFF = Pod(uid="u", folder="p", annotations={PREEMPTIBLE: "true"}, containers=ON.containers)
ALL = ("cpu", "memory", "net")


def test_the_network_of_a_pod_without_a_process_is_a_problem() -> None:
    actual = preemption.decide(None, OFF, ALL, 0, lambda folder, knob: "0")
    assert (actual.enable, len(actual.problems)) == (0, 1)


def test_an_online_pod_with_a_wrong_level_is_a_problem() -> None:
    assert preemption.decide(None, ON, ALL, 7, lambda folder, knob: "0\n") == (7, [])
    assert len(preemption.decide(None, ON, ["cpu"], 7, lambda folder, knob: "-1\n").problems) == 2
    assert len(preemption.decide(None, ON, ["cpu"], 7, lambda folder, knob: None).problems) == 2


def test_becoming_online_is_a_problem_and_becoming_offline_is_handled_as_a_new_pod() -> None:
    assert preemption.decide(OFF, ON, ["cpu"], 7, lambda folder, knob: "-1").problems
    assert preemption.decide(ON, OFF, ALL, 7, lambda folder, knob: "0") == (7, [])
    assert preemption.decide(OFF, OFF, ALL, 7, lambda folder, knob: "0") == (0, [])


def test_the_host_network_is_not_controlled_for_a_pod() -> None:
    pod = Pod(uid="u", folder="p", annotations=OFF.annotations, host_network=True)
    assert preemption.decide(None, pod, ["net"], 7, lambda folder, knob: "0").enable == 0


def test_settings_of_the_network_have_the_kernels_format() -> None:
    assert preemption.bandwidth(Net(100, 5, 10)) == {"net_qos_waterline": "100mb", "net_qos_bandwidth": "5mb,10mb"}


NET_BLOCK = {"waterline": 20, "bandwidthLow": 1, "bandwidthHigh": 5}
ALL_RESOURCES = {"preemption": {"resource": ["cpu", "memory", "net"], "net": NET_BLOCK}}


def kernel_with(world: RubikWorld, path: str, **files: str) -> None:
    """Give the cgroups of a pod files that only some kernels have."""
    for name, text in files.items():
        controller = "cpu,cpuacct" if name.startswith("cpu") else "memory"
        write_files(world.folder, {f"{TOP}/{controller}/{path}/{name.replace('_', '.', 1)}": f"{text}\n"})


def read(world: RubikWorld, path: str, *knobs: str) -> list[Any]:
    return [world.value(path, knob) for knob in knobs]


def test_an_offline_pod_is_idle_with_minimal_shares_and_the_first_oom_victim(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), web := pod("web"), **ALL_RESOURCES)
    world.standalone.round(frozenset({"timer"}))
    folder, app = world.folder_of(batch), world.app(batch)
    assert read(world, folder, "cpu.idle", "net_cls.classid") == [1, 0xFFFF_FFFF]
    assert read(world, app, "cpu.idle", "cpu.shares", "net_cls.classid") == [0, 2, 0xFFFF_FFFF]
    assert read(world, world.app(web), "cpu.idle", "cpu.shares", "net_cls.classid") == [0, 1023, 0]
    assert (tmp_path / "proc/100/oom_score_adj").read_text() == "1000"


def test_without_idle_cgroups_a_pod_has_minimal_shares(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), **ALL_RESOURCES)
    for file in (tmp_path / TOP).rglob("cpu.idle"):
        file.unlink()
    world.standalone.round(frozenset({"timer"}))
    assert read(world, world.folder_of(batch), "cpu.shares") == [2]


def test_with_kernel_levels_only_the_levels_are_set(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), web := pod("web"), **ALL_RESOURCES)
    for entry in (batch, web):
        for path in ("kubepods", world.folder_of(entry), world.app(entry)):
            kernel_with(world, path, cpu_qos_level="0", memory_qos_level="0")
    world.standalone.round(frozenset({"timer"}))
    for path in (world.folder_of(batch), world.app(batch)):
        assert read(world, path, "cpu.qos_level", "memory.qos_level", "cpu.idle", "cpu.shares") == [-1, -1, 0, 1023]
    assert read(world, world.app(web), "cpu.qos_level", "memory.qos_level") == [0, 0]


def test_only_resources_in_the_file_are_restricted(tmp_path: Path) -> None:
    world = RubikWorld(
        tmp_path, batch := pod("batch", offline=True), preemption={"resource": ["net"], "net": NET_BLOCK}
    )
    world.standalone.round(frozenset({"timer"}))
    assert read(world, world.folder_of(batch), "cpu.idle", "net_cls.classid") == [0, 0xFFFF_FFFF]


@pytest.mark.parametrize("label", [True, False], ids=["label", "annotation"])
def test_a_creation_sets_the_values_and_a_later_update_keeps_them(tmp_path: Path, label: bool) -> None:
    world = RubikWorld(tmp_path, **ALL_RESOURCES)
    word = {"volcano.sh/preemptable": "true"}
    manifest = make_pod(name="batch", uid="u", **({"labels": word} if label else {"annotations": word}))
    manifest.linux.cgroup_parent = "/kubepods/burstable/podu"
    plugin = HookPlugin(world.parts)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.run_pod_sandbox(manifest)
        created = make_container(name="app", pod_sandbox_id=manifest.id)
        reply = runtime.create_container(manifest, created)
        assert reply.resources.cpu.shares.value == 2
        assert reply.message.linux.oom_score_adj.value == 1000
        linux_resources = m.LinuxResources()
        linux_resources.cpu.shares.value = 512
        updated = runtime.update_container(manifest, created, linux_resources)
        assert updated.resources.cpu.shares.value == 2
        other = make_pod(name="web", uid="w")
        assert not runtime.create_container(other, make_container(pod_sandbox_id=other.id)).owners.owners
