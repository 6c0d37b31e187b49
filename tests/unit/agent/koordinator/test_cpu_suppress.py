"""Suppression: best-effort pods get the CPU that other pods leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import cpu_suppress
from nri.agent.koordinator import cpuset as koord_cpuset
from nri.agent.koordinator import names as n
from nri.agent.koordinator.cpu_suppress import Cpu, CpuUsage
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.quirks import Quirks
from nri.api import cpuset
from tests.support.loop_world import LoopWorld
from tests.support.scrape import scrape
from tests.unit.agent.transports.standalone.test_pods import pod

BE = "kubepods/besteffort"
MILLI = st.integers(0, 256_000)


def on(policy: str = "cfsQuota", **more: Any) -> dict[str, Any]:
    return {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": policy, **more}}


def busy(world: LoopWorld, *pods: tuple[dict[str, Any], int]) -> None:
    for manifest, milli in pods:
        world.uses[world.pod(manifest)] = milli
    world.source.replace([manifest for manifest, _ in pods])
    world.node_milli = sum(milli for _, milli in pods)


def quota(world: LoopWorld) -> int:
    return int(world.text(BE, "cpu.cfs_quota_us"))


def test_the_quota_follows_the_usage_of_others_and_grows_by_a_tenth_of_the_node(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on())
    world.overwrite(BE, "cpu.cfs_quota_us", "-1")
    busy(world, (pod("ls", n.LS), 2000), (pod("be", n.BE, paths.BEST_EFFORT), 3000))
    world.loop(2)
    assert quota(world) == 320_000  # 65 % of 8 CPUs are 5.2; less 2
    world.uses["kubepods/burstable/podls"], world.node_milli = 5000, 8000
    world.loop()
    assert quota(world) == 20_000
    world.uses["kubepods/burstable/podls"], world.node_milli = 0, 3000
    world.loop()
    assert quota(world) == 100_000
    world.loop()
    assert quota(world) == 180_000
    account = world.history.account("kube-qos/BestEffort")
    assert account is not None
    (row,) = [row for row in account["values"] if row["hook"] == "BECPUSuppress"]
    assert row["reason"].startswith("5200 thousandths of a CPU are left: 65 % of 8000")


def test_disabling_suppression_in_nodeslo_resets_the_values(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on())
    world.overwrite(BE, "cpu.cfs_quota_us", "-1")
    busy(world, (pod("ls", n.LS), 2000))
    world.loop(2)
    assert quota(world) == 320_000
    world.slo({"resourceUsedThresholdWithBE": {"enable": False}})
    world.loop()
    assert quota(world) == -1
    world.overwrite(BE, "cpu.cfs_quota_us", "5000")
    world.loop(3)
    assert quota(world) == 5000, "what is somebody else's once it is off is left alone"


def cpus(world: LoopWorld, path: str = BE) -> frozenset[int]:
    return cpuset.parse(world.text(path, "cpuset.cpus"))


def test_whole_cores_are_assigned_to_best_effort_cgroups_without_cpus_of_lse_pods(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset"))
    lse = pod("lse", n.LSE, annotations={koord_cpuset.ANNOTATION_STATUS: json.dumps({"cpuset": "0-1"})})
    busy(world, (lse, 1000), (pod("be", n.BE, paths.BEST_EFFORT), 1000))
    world.loop(2)
    chosen = cpus(world)
    assert len(chosen) == 5 and not chosen & {0, 1}  # 5.2 less 1.0, rounded up
    assert cpus(world, f"{BE}/podbe") == cpus(world, f"{BE}/podbe/bec") == chosen
    world.slo({})
    world.loop()
    assert cpus(world) == frozenset(range(2, 8))


def test_under_the_kubelets_static_policy_only_containers_are_limited(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset"))
    annotations = {koord_cpuset.ANNOTATION_CPU_MANAGER: json.dumps({"policy": "static"})}
    world.store.put("NodeResourceTopology", {"metadata": {"annotations": annotations}}, "test")
    busy(world, (pod("ls", n.LS), 4000), (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.loop(2)
    assert cpus(world) == cpus(world, f"{BE}/podbe") == frozenset(range(8))
    assert len(cpus(world, f"{BE}/podbe/bec")) == 2


def test_pods_with_separate_share_pools_are_not_suppressed(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on(), node=Node(batch_pools=True))
    busy(world, (pod("ls", n.LS), 8000))
    world.loop(2)
    assert quota(world) == -1


def test_a_host_program_and_the_nodes_reservation_are_counted(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on() | {"hostApplications": [{"name": "db", "qos": "LS"}]})
    world.overwrite(BE, "cpu.cfs_quota_us", "-1")
    world.cgroup("host-latency-sensitive/db")
    busy(world, (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.cgroup("host-latency-sensitive/db")
    world.uses["host-latency-sensitive/db"], world.node_milli = 1000, 1000
    status = {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "7"}}
    world.store.put("Node", {"metadata": {"name": "n"}, "status": status}, "test")
    world.loop(2)
    assert quota(world) == 320_000  # 5.2 less 1.0 of the program, less 1.0 reserved


@pytest.mark.parametrize("policy", ["cpuset", "cfsQuota"])
def test_a_machine_without_the_best_effort_cgroup_is_unchanged_despite_invalid_values(
    policy: str, tmp_path: Path
) -> None:
    world = LoopWorld(tmp_path, on(policy))
    world.no_cgroup(BE)
    world.store.put("Node", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "many"}}}, "test")
    world.loop(3)
    assert world.loops.health()[0]
    assert scrape(world.observer).count('outcome="applied"') == 0


def test_a_pod_with_unreadable_cpus_takes_no_cpus_away(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset"))
    busy(world, (pod("lse", n.LSE, annotations={koord_cpuset.ANNOTATION_STATUS: "{"}), 0))
    world.loop(2)
    assert cpus(world) == frozenset(range(6))


WITHHELD = {
    koord_cpuset.ANNOTATION_RESERVATION: json.dumps({"reservedCPUs": "0"}),
    koord_cpuset.ANNOTATION_SYSTEM_QOS: json.dumps({"cpuset": "2-3"}),
    koord_cpuset.ANNOTATION_CPU_MANAGER: json.dumps({"policy": "none", "reservedCPUs": "7"}),
}


@pytest.mark.parametrize("enabled", [True, False])
def test_batch_pods_never_get_reserved_cpus_or_exclusive_system_cpus(enabled: bool, tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset", enable=enabled))
    world.store.put("NodeResourceTopology", {"metadata": {"annotations": WITHHELD}}, "test")
    busy(world, (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.loop(3)
    for path in (BE, f"{BE}/podbe", f"{BE}/podbe/bec"):
        assert cpus(world, path) == frozenset({1, 4, 5, 6})


def test_a_new_reservation_is_applied_while_suppression_is_disabled(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset", enable=False))
    busy(world, (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.loop(2)
    world.store.put("NodeResourceTopology", {"metadata": {"annotations": WITHHELD}}, "test")
    world.loops.rules_changed(frozenset({"NodeResourceTopology"}))
    world.loop(1)
    assert cpus(world) == frozenset({1, 4, 5, 6})


def test_shared_system_cpus_can_be_assigned(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset"))
    shared = {koord_cpuset.ANNOTATION_SYSTEM_QOS: json.dumps({"cpuset": "2-7", "cpusetExclusive": False})}
    world.store.put("NodeResourceTopology", {"metadata": {"annotations": shared}}, "test")
    busy(world, (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.loop(2)
    assert len(cpus(world)) == 6


def test_with_unreadable_reserved_cpus_nothing_is_assigned(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset"))
    bad = {"metadata": {"annotations": {koord_cpuset.ANNOTATION_RESERVATION: json.dumps({"reservedCPUs": "x"})}}}
    world.store.put("NodeResourceTopology", bad, "test")
    world.overwrite(BE, "cpuset.cpus", "4-5")
    busy(world, (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.loop(2)
    assert cpus(world) == frozenset({4, 5})
    assert "NodeResourceTopology cannot be read" in world.loops.health()[1]


def test_an_lse_pod_keeps_its_cpus_while_its_annotation_is_unreadable(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path, on("cpuset"))
    lse = pod("lse", n.LSE, annotations={koord_cpuset.ANNOTATION_STATUS: json.dumps({"cpuset": "0-1"})})
    busy(world, (lse, 0), (pod("be", n.BE, paths.BEST_EFFORT), 0))
    world.loop(2)
    world.source.replace([pod("lse", n.LSE, annotations={koord_cpuset.ANNOTATION_STATUS: "{"})])
    world.loop(2)
    assert not cpus(world) & {0, 1}


BARE = pod("bare", n.LS, paths.BEST_EFFORT)
BATCH_ZONE = {"numaNodeResources": [{"node": 0, "resources": {n.BATCH_CPU: "2"}}]}
IN_POOLS = pod("bare", n.BE, paths.BEST_EFFORT, annotations={koord_cpuset.ANNOTATION_STATUS: json.dumps(BATCH_ZONE)})
UNREADABLE = pod("bare", n.BE, paths.BEST_EFFORT, annotations={koord_cpuset.ANNOTATION_STATUS: "{"})


@pytest.mark.parametrize(
    ("manifest", "batch_pools", "observed", "originally"),
    [
        (BARE, False, ["1-3"], ["0-7", "1-3"]),
        (pod("bare", n.SYSTEM, paths.BEST_EFFORT), False, ["1-3"], ["0-3", "1-3"]),
        (pod("bare", n.BE, paths.BEST_EFFORT), False, ["1-3"], ["1-3"]),
        (IN_POOLS, False, ["1-3"], ["1-3"]),
        (IN_POOLS, True, ["4-7"], ["1-7", "4-7"]),
        (UNREADABLE, True, ["1-7"], ["1-7"]),
    ],
)
def test_best_effort_cpus_left_to_one_writer_stay_stable_over_rounds(
    manifest: dict[str, Any], batch_pools: bool, observed: list[str], originally: list[str], tmp_path: Path
) -> None:
    annotations = {
        koord_cpuset.ANNOTATION_SHARE_POOLS: json.dumps([{"cpuset": "0-7"}]),
        koord_cpuset.ANNOTATION_BE_SHARE_POOLS: json.dumps([{"cpuset": "4-7"}]),
        koord_cpuset.ANNOTATION_SYSTEM_QOS: json.dumps({"cpuset": "0-3", "cpusetExclusive": False}),
        koord_cpuset.ANNOTATION_RESERVATION: json.dumps({"reservedCPUs": "0"}),
    }
    for quirks, expected in ((Quirks.DEFAULT, observed), (Quirks.REFERENCE, originally)):
        world = LoopWorld(
            tmp_path / str(quirks == Quirks.DEFAULT), on("cpuset"), 8, Node(quirks=quirks, batch_pools=batch_pools)
        )
        world.store.put("NodeResourceTopology", {"metadata": {"annotations": annotations}}, "test")
        busy(world, (pod("ls", n.LS), 2300), (manifest, 0))
        world.loop(2)
        collected = set()
        for work in (world.round, world.loop) * 3:
            world.clock.now += 10
            work()
            collected.add(world.text(f"{BE}/podbare/barec", "cpuset.cpus"))
        assert sorted(collected) == expected


def test_an_empty_list_of_pods_changes_nothing(tmp_path: Path) -> None:
    """As in Koordinator: an incomplete list is more likely than a node without pods."""
    world = LoopWorld(tmp_path, on())
    busy(world, (pod("ls", n.LS), 2000))
    world.loop(2)
    stored = quota(world)
    world.source.replace([])
    world.node_milli = 7000
    world.loop(3)
    assert quota(world) == stored > 0


def machine(nodes: int, cores: int) -> list[Cpu]:
    total = nodes * cores
    return [Cpu(n + thread * total, n, n // cores, 0) for thread in (0, 1) for n in range(total)]


def test_the_budget_is_a_share_of_the_node_minus_the_usage_of_others() -> None:
    used = CpuUsage(node=40_000, pods=30_000, other_pods=20_000, programs=2_000, other_programs=1_000)
    assert cpu_suppress.budget_milli(100_000, used) == 65_000 - 20_000 - 1_000 - 8_000
    assert cpu_suppress.budget_milli(100_000, used._replace(reserved=10_000)) == 34_000
    assert cpu_suppress.budget_milli(100_000, used._replace(other_pods=90_000), least_percent=10) == 10_000


@given(MILLI, MILLI, MILLI, st.integers(1, 100))
def test_more_usage_of_others_never_increases_the_budget(
    node: int, pods: int, other_entries: int, percent: int
) -> None:
    used = CpuUsage(node, pods, other_entries)
    more = used._replace(other_pods=other_entries + 1000)
    assert cpu_suppress.budget_milli(64_000, more, percent) < cpu_suppress.budget_milli(64_000, used, percent)


@given(st.integers(-64_000, 128_000), st.integers(2000, 12_800_000), st.integers(1, 128))
def test_a_quota_grows_in_steps_shrinks_at_once_and_ignores_small_changes(budget: int, current: int, cpus: int) -> None:
    quota = cpu_suppress.quota_us(budget, current, cpus)
    expected = max(budget * 100, 2000)
    if quota is None:
        assert abs(expected - current) < cpus * 1000
    else:
        assert 2000 <= quota <= max(expected, 2000)
        assert quota - current <= cpus * 10_000
        assert quota == expected or quota == current + cpus * 10_000


def test_a_first_quota_is_set_completely() -> None:
    assert cpu_suppress.quota_us(30_000, -1, 32) == 3_000_000


def test_a_small_first_quota_is_not_a_small_change_from_unlimited() -> None:
    """-1 means unlimited: numerically close to two CPUs on a large node, but a whole node away."""
    assert cpu_suppress.quota_us(2_000, -1, 256) == 200_000


@given(st.integers(-1000, 200_000), st.integers(0, 128), st.integers(1, 128))
def test_the_number_of_cpus_is_at_least_two_and_grows_by_at_most_a_tenth(budget: int, current: int, cpus: int) -> None:
    count = cpu_suppress.cpu_count(budget, current, cpus)
    assert count <= current + -(-cpus // 10)
    assert count >= min(2, current + -(-cpus // 10))


@given(st.integers(1, 4), st.integers(1, 8), st.data())
def test_whole_cores_are_assigned_and_spread_over_memory_nodes(nodes: int, cores: int, data: st.DataObject) -> None:
    cpus = machine(nodes, cores)
    count = data.draw(st.integers(0, len(cpus)))
    chosen = cpu_suppress.chosen_cpus(count, cpus)
    assert len(chosen) == len(set(chosen)) == count
    by_number = {cpu.number: cpu for cpu in cpus}
    halves = [
        core for core in {by_number[n].core for n in chosen} if sum(by_number[n].core == core for n in chosen) == 1
    ]
    assert len(halves) == count % 2
    per_node = [sum(by_number[n].node == node for n in chosen) for node in range(nodes)]
    assert max(per_node) - min(per_node) <= 2


def test_cpus_of_lsr_pods_are_lent_in_proportion_and_too_few_cpus_give_none() -> None:
    cpus = machine(1, 4)
    lent, shared = cpus[:4], cpus[4:]
    chosen = cpu_suppress.chosen_cpus(4, shared, lent)
    assert len(set(chosen) & {cpu.number for cpu in lent}) == 2
    assert cpu_suppress.chosen_cpus(9, cpus) == []
    assert cpu_suppress.chosen_cpus(2, []) == []


def test_single_cpus_are_taken_from_the_first_node_without_whole_cores() -> None:
    pair = [cpu_suppress.Cpu(0, 0, 0), cpu_suppress.Cpu(1, 0, 0)]
    cpus = [*pair, *(cpu_suppress.Cpu(n, n, node) for n, node in ((2, 0), (3, 0), (4, 1), (5, 1), (6, 1)))]
    assert sorted(cpu_suppress.chosen_cpus(5, cpus)) == [0, 1, 2, 3, 4]
    assert sorted(cpu_suppress.chosen_cpus(3, cpus)) == [0, 1, 4], "after a whole core the next node has its turn"


def test_the_active_way_of_suppression_is_known_also_after_its_reset() -> None:
    folder = cpu_suppress.Folder("be", 0)
    cpus = machine(1, 4)
    now = cpu_suppress.Situation(True, True, 2000, 8, -1, frozenset({0}), cpus, [], [folder])
    suppression = cpu_suppress.Suppression()
    assert suppression.in_force == {}
    suppression.decide(now)
    assert suppression.in_force == {"cfsQuota": True, "cpuset": False}
    suppression.decide(now._replace(by_quota=False))
    assert suppression.in_force == {"cfsQuota": False, "cpuset": True}
