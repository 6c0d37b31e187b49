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


def creation(world: RubikWorld, quota: int, **words: str) -> None:
    """Have a runtime create and start a container whose pod has these annotations; its cgroup is there by then."""
    given = make_pod(name="a", uid="u", annotations={f"volcano.sh/{k.replace('_', '-')}": v for k, v in words.items()})
    given.linux.cgroup_parent = "/kubepods/burstable/podu"
    plugin = HookPlugin(world.parts)
    with FakeRuntime() as runtime:
        runtime.add(plugin)
        runtime.run_pod_sandbox(given)
        made = make_container(name="app", id="c", pod_sandbox_id=given.id)
        made.linux.cgroups_path = "/kubepods/burstable/podu/c"
        made.linux.resources.cpu.quota.value = quota
        made.linux.resources.cpu.period.value = 100_000
        reply = runtime.create_container(given, made)
        assert not reply.owners.owners, "on cgroup v1 a runtime has no word for it"
        world.cgroup("kubepods/burstable/podu")
        world.cgroup("kubepods/burstable/podu/c")
        runtime.start_container(given, made)


LIMIT = '{"device_read_bps": [{"device": "8:0", "value": "7"}], "device_write_iops": [{"device": "8:0", "value": "0"}]}'


@pytest.mark.parametrize(
    ("quota", "words", "expected"),
    [
        (50_000, {"quota_burst_time": "20000"}, 20_000),
        (50_000, {"quota_burst_time": "60000"}, 0),
        (-1, {"quota_burst_time": "60000"}, 60_000),
        (50_000, {"quota_burst_time": "soon"}, 0),
        (50_000, {}, 0),
    ],
    ids=["as asked", "above the quota", "without a quota", "no number", "not asked"],
)
def test_a_container_has_its_burst_before_its_first_instruction(
    tmp_path: Path, quota: int, words: dict[str, str], expected: int
) -> None:
    world = RubikWorld(tmp_path, quotaBurst=None)
    creation(world, quota, **words)
    assert read(world, "kubepods/burstable/podu/c", "cpu.cfs_burst") == [expected]


@pytest.mark.parametrize(("text", "expected"), [(LIMIT, {"8:0": 7}), ("{", {})], ids=["as asked", "unreadable"])
def test_a_container_has_its_limits_of_block_io_before_its_first_instruction(
    tmp_path: Path, text: str, expected: dict[str, int]
) -> None:
    world = RubikWorld(tmp_path, ioLimit=None)
    creation(world, 50_000, blkio_limit=text)
    assert read(world, "kubepods/burstable/podu/c", "io.read_bps", "io.write_iops") == [expected, {}]


def comes(world: RubikWorld, name: str, offline: bool) -> str:
    """Have a runtime run a pod in a cgroup that is there before; no service has a round."""
    path = f"kubepods/burstable/pod{name}"
    world.cgroup(path)
    given = make_pod(name=name, uid=name, annotations={"volcano.sh/preemptable": str(offline).lower()})
    given.linux.cgroup_parent = f"/{path}"
    with FakeRuntime() as runtime:
        runtime.add(HookPlugin(world.parts))
        runtime.run_pod_sandbox(given)
    return path


@pytest.mark.parametrize(("cmdline", "weights"), [("cgroup1_writeback", [10, 1000]), ("", [100, 100])])
def test_a_pod_has_its_weight_before_a_service_has_a_round(tmp_path: Path, cmdline: str, weights: list[int]) -> None:
    world = RubikWorld(tmp_path, ioCost=[])
    names = (*(f"blkio.cost.{name}" for name in ("model", "qos")), "kubepods/blkio.cost.weight")
    write_files(tmp_path, {f"{TOP}/blkio/{name}": "100\n" for name in names} | {"proc/cmdline": f"{cmdline}\n"})
    paths = [f"kubepods/burstable/pod{name}" for name in ("batch", "web")]
    write_files(tmp_path, {f"{TOP}/blkio/{path}/blkio.cost.weight": "100\n" for path in paths})
    comes(world, "batch", offline=True)
    comes(world, "web", offline=False)
    assert [world.value(path, "io.cost_weight") for path in paths] == weights


def test_a_kernel_without_cost_models_gives_no_weights(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, ioCost=[])
    write_files(tmp_path, {f"{TOP}/blkio/kubepods/burstable/podweb/blkio.weight": "100\n"})
    assert world.value(comes(world, "web", offline=False), "io.weight") == 100


def test_an_offline_pod_has_the_limit_of_all_before_its_first_process(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, pod("first", offline=True), dynMemory={"policy": "fssr"})
    world.memory(100 << 30, 0, 50 << 30)
    unlimited = world.value(comes(world, "early", offline=True), "memory.high")
    world.loop(1, 5)
    later = [world.value(comes(world, name, offline), "memory.high") for name, offline in (("a", True), ("b", False))]
    assert later == [80 << 30, unlimited]


def test_a_service_in_preview_says_what_a_creation_would_get_and_sets_nothing(tmp_path: Path) -> None:
    world = RubikWorld(tmp_path, preview=("quotaBurst",), quotaBurst=None)
    creation(world, 50_000, quota_burst_time="20000")
    assert read(world, "kubepods/burstable/podu/c", "cpu.cfs_burst") == [0]
    told = world.history.of("u")
    assert told is not None
    assert [(row["field"], row["value"], row["stage"]) for row in told["values"]] == [
        ("cpu.cfs_burst", "20000", "preview")
    ]
