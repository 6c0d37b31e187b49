"""Values from a creation on: what a kernel takes, in the runtime's words and as writes; and none for online pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nri.agent.transports.hook_plugin import HookPlugin
from nri.api import messages as m
from nri.testing import FakeRuntime, make_container, make_pod
from tests.support.host_trees import TOP, write_files
from tests.support.rubik_world import RubikWorld, pod

NET = {"waterline": 20, "bandwidthLow": 1, "bandwidthHigh": 5}
ALL = {"preemption": {"resource": ["cpu", "memory", "net"], "net": NET}}


def kernel_with(world: RubikWorld, path: str, **files: str) -> None:
    """Give the cgroups of a pod files that only some kernels have."""
    for name, text in files.items():
        controller = "cpu,cpuacct" if name.startswith("cpu") else "memory"
        write_files(world.folder, {f"{TOP}/{controller}/{path}/{name.replace('_', '.', 1)}": f"{text}\n"})


def read(world: RubikWorld, path: str, *knobs: str) -> list[Any]:
    return [world.value(path, knob) for knob in knobs]


def test_an_offline_pod_is_idle_and_its_containers_have_the_least_shares_and_go_first(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), web := pod("web"), **ALL)
    world.standalone.round(frozenset({"timer"}))
    folder, app = world.folder_of(batch), world.app(batch)
    assert read(world, folder, "cpu.idle", "net_cls.classid") == [1, 0xFFFF_FFFF]
    assert read(world, app, "cpu.idle", "cpu.shares", "net_cls.classid") == [0, 2, 0xFFFF_FFFF]
    assert read(world, world.app(web), "cpu.idle", "cpu.shares", "net_cls.classid") == [0, 1023, 0]
    assert (tmp_path / "proc/100/oom_score_adj").read_text() == "1000"


def test_without_idle_cgroups_a_pod_has_the_least_shares(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), **ALL)
    for file in (tmp_path / TOP).rglob("cpu.idle"):
        file.unlink()
    world.standalone.round(frozenset({"timer"}))
    assert read(world, world.folder_of(batch), "cpu.shares") == [2]


def test_where_the_kernel_has_levels_they_are_set_and_nothing_instead(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), web := pod("web"), **ALL)
    for each in (batch, web):
        for path in ("kubepods", world.folder_of(each), world.app(each)):
            kernel_with(world, path, cpu_qos_level="0", memory_qos_level="0")
    world.standalone.round(frozenset({"timer"}))
    for path in (world.folder_of(batch), world.app(batch)):
        assert read(world, path, "cpu.qos_level", "memory.qos_level", "cpu.idle", "cpu.shares") == [-1, -1, 0, 1023]
    assert read(world, world.app(web), "cpu.qos_level", "memory.qos_level") == [0, 0]


def test_only_what_the_file_names_is_held_back(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, batch := pod("batch", offline=True), preemption={"resource": ["net"], "net": NET})
    world.standalone.round(frozenset({"timer"}))
    assert read(world, world.folder_of(batch), "cpu.idle", "net_cls.classid") == [0, 0xFFFF_FFFF]


@pytest.mark.parametrize("label", [True, False], ids=["label", "annotation"])
def test_a_runtime_is_told_at_the_creation_and_a_later_update_keeps_it(tmp_path: Path, label: bool) -> None:
    world = RubikWorld(tmp_path, **ALL)
    word = {"volcano.sh/preemptable": "true"}
    given = make_pod(name="batch", uid="u", **({"labels": word} if label else {"annotations": word}))
    given.linux.cgroup_parent = "/kubepods/burstable/podu"
    plugin = HookPlugin(world.parts)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.run_pod_sandbox(given)
        made = make_container(name="app", pod_sandbox_id=given.id)
        reply = runtime.create_container(given, made)
        assert reply.resources.cpu.shares.value == 2
        assert reply.message.linux.oom_score_adj.value == 1000
        asked = m.LinuxResources()
        asked.cpu.shares.value = 512
        updated = runtime.update_container(given, made, asked)
        assert updated.resources.cpu.shares.value == 2
        other = make_pod(name="web", uid="w")
        assert not runtime.create_container(other, make_container(pod_sandbox_id=other.id)).owners.owners
