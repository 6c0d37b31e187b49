"""Containers that exceed their quota for a short time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import cpu_burst, cpu_normalization
from nri.agent.koordinator import names as n
from nri.agent.koordinator.cpu_burst import Bucket, BurstConfig, Pool, Step
from nri.agent.koordinator.node import Node
from tests.support.host_trees import TOP
from tests.support.loop_world import LoopWorld
from tests.unit.agent.transports.standalone.test_pods import pod

LS = "kubepods/burstable/podls"
C = f"{LS}/lsc"
AUTO = BurstConfig("auto", quota_seconds=10)


def world_of(folder: Path, node: Node | None = None, qos: str = n.LS, anolis: bool = False, **config: Any) -> LoopWorld:
    world = LoopWorld(folder, {"cpuBurstStrategy": config}, node=node)
    manifest = pod("ls", qos, containers=[{"name": "c", "resources": {"limits": {"cpu": "1"}}}])
    world.pod(manifest)
    for path in (LS, C):
        world.overwrite(path, "cpu.cfs_quota_us", "100000")
    if not anolis:
        for file in (folder / TOP / "cpu,cpuacct").rglob("cpu.bvt_warp_ns"):
            file.unlink()
    world.source.replace([manifest])
    return world


def quotas(world: LoopWorld) -> tuple[int, int]:
    return int(world.text(LS, "cpu.cfs_quota_us")), int(world.text(C, "cpu.cfs_quota_us"))


def bursts(world: LoopWorld) -> tuple[int, int]:
    return int(world.text(LS, "cpu.cfs_burst_us")), int(world.text(C, "cpu.cfs_burst_us"))


def test_a_throttled_quota_grows_up_to_three_times_and_is_reset(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="cfsQuotaBurstOnly")
    world.throttled.add(C)
    world.loop(2)
    assert quotas(world) == (120_000, 120_000)
    world.loop(20)
    assert quotas(world) == (300_000, 300_000)
    world.slo({"cpuBurstStrategy": {"policy": "none"}})
    world.loop()
    assert quotas(world) == (100_000, 100_000)
    assert bursts(world) == (0, 0)


def test_an_overloaded_pool_lowers_the_quota_step_by_step(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="auto")
    world.throttled.add(C)
    world.loop(4)
    assert quotas(world)[1] > 140_000
    world.node_milli = 7000
    world.loop(30)
    assert quotas(world) == (100_000, 100_000)


def test_a_token_bucket_ends_a_long_burst(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="auto", cfsQuotaBurstPeriodSeconds=10)
    world.throttled.add(C)
    world.loop(8)
    saved = quotas(world)[1]
    world.uses[C] = 3000
    world.loop(40)
    assert saved > 120_000 and quotas(world)[1] == 100_000


def test_a_burst_is_limited_to_the_quota_on_mainline_and_to_ten_times_on_anolis(tmp_path: Path) -> None:
    plain = world_of(tmp_path / "plain", policy="cpuBurstOnly")
    plain.loop()
    assert bursts(plain) == (100_000, 100_000)
    anolis = world_of(tmp_path / "anolis", policy="cpuBurstOnly", anolis=True)
    anolis.loop()
    assert bursts(anolis) == (1_000_000, 1_000_000)


def test_a_quota_managed_by_normalization_is_not_scaled(tmp_path: Path) -> None:
    world = world_of(tmp_path, Node(gates=frozenset({"CPUNormalization"})), policy="auto")
    world.store.put("Node", {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: "1.5"}}}, "test")
    world.throttled.add(C)
    world.loop(5)
    assert quotas(world) == (100_000, 100_000)


def test_pods_of_other_classes_are_unchanged(tmp_path: Path) -> None:
    world = world_of(tmp_path, qos=n.LSR, policy="auto")
    world.throttled.add(C)
    world.loop(5)
    assert (quotas(world), bursts(world)) == ((100_000, 100_000), (0, 0))


def test_a_pod_can_request_a_burst(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    (manifest,) = world.source.pods()
    annotations = {"koordinator.sh/cpuBurst": '{"policy":"auto"}'}
    asking = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
    world.source.replace([asking])
    world.throttled.add(C)
    world.loop(2)
    assert quotas(world)[1] == 120_000


def test_nothing_changes_before_a_nodeslo_and_lsr_pods_are_not_in_the_pool(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="auto")
    world.store.put("NodeSLO", None, "test")
    pods = list(world.source.pods())
    lsr = pod("lsr", n.LSR, paths.GUARANTEED, containers=[{"name": "c", "resources": {"requests": {"cpu": "6"}}}])
    world.uses[world.pod(lsr)] = 5500
    world.source.replace([*pods, lsr])
    world.throttled.add(C)
    world.node_milli = 5600
    world.loop(3)
    assert quotas(world) == (100_000, 100_000)
    world.slo({"cpuBurstStrategy": {"policy": "auto"}})
    world.loop(2)
    assert quotas(world)[1] > 100_000  # a tenth of one of the two shared CPUs is used


def test_a_kernel_without_bursts_still_scales_quotas(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="auto")
    for file in (tmp_path / TOP / "cpu,cpuacct").rglob("cpu.cfs_burst_us"):
        file.unlink()
    world.throttled.add(C)
    world.loop(2)
    assert quotas(world) == (120_000, 120_000)


def test_a_pod_that_opts_out_is_unchanged_on_a_bursting_node(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="auto")
    (manifest,) = world.source.pods()
    annotations = {"koordinator.sh/cpuBurst": '{"policy":"none"}'}
    world.source.replace([{**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}])
    world.throttled.add(C)
    world.loop()
    assert (quotas(world), bursts(world)) == ((100_000, 100_000), (0, 0))
    world.overwrite(C, "cpu.cfs_burst_us", "5000")
    world.loop(3)
    assert (quotas(world), bursts(world)) == ((100_000, 100_000), (0, 5000))


def test_a_busy_container_keeps_its_burst_for_a_while_after_the_agents_start(
    tmp_path: Path,
) -> None:
    """A quarter of 30 s at 200 % above the limit: 7.5 s at three times the limit."""
    world = world_of(tmp_path, policy="auto", cfsQuotaBurstPeriodSeconds=30)
    world.throttled.add(C)
    world.uses[C] = 3000
    world.loop(7)
    grown = quotas(world)[1]
    assert grown > 290_000
    world.kill()
    world.loop(6)
    assert quotas(world)[1] >= grown
    world.loop(20)
    assert quotas(world)[1] == 100_000


def reasons(world: LoopWorld) -> list[str]:
    return [row["reason"] for row in world.loops.unchanged("ls") if row["strategy"] == "CPUBurst"]


def test_the_reason_for_an_unchanged_quota_is_explained(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="cpuBurstOnly")
    world.loop()
    assert reasons(world) == ["policy cpuBurstOnly does not raise quotas"]
    world.slo({"cpuBurstStrategy": {"policy": "auto", "cfsQuotaBurstPeriodSeconds": 100}})
    world.loop()
    assert reasons(world) == ["the container was not throttled in the last round"]
    world.node_milli = 3800
    world.loop(5)
    world.throttled.add(C)
    world.loop()
    assert reasons(world) == ["the use of the shared CPUs is cooling; quotas rise below 45 %"]
    world.node_milli = 1000
    world.loop(2)
    assert reasons(world) == []
    world.loop(20)
    assert reasons(world) == ["the quota has reached the maximum, 300 % of the limit"]
    assert [row["state"] for row in world.loops.schedule() if row["strategy"] == "CPUBurst"] == [
        "the use of the shared CPUs is idle"
    ]


def test_the_reason_for_no_burst_of_an_exclusive_pod_is_explained(tmp_path: Path) -> None:
    world = world_of(tmp_path, qos=n.LSR, policy="auto")
    world.loop()
    assert world.loops.unchanged("ls") == [
        {
            "container": "",
            "strategy": "CPUBurst",
            "reason": "pods of class LSR have no burst, because they do not share CPUs",
        }
    ]


def test_cpus_reserved_for_a_sidecar_of_an_exclusive_pod_are_not_idle(tmp_path: Path) -> None:
    world = world_of(tmp_path, policy="auto")
    manifest = pod("own", n.LSR, paths.GUARANTEED, containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    manifest["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "4"}}}
    ]
    world.pod(manifest)
    world.source.replace([*world.source.pods(), manifest])
    world.throttled.add(C)
    world.node_milli = 2500  # of the 3 CPUs that are shared
    world.loop(10)
    assert quotas(world) == (100_000, 100_000)


@pytest.mark.parametrize(
    ("policy", "burst", "scales"),
    [("none", 0, False), ("cpuBurstOnly", 2_000_000, False), ("auto", 2_000_000, True), ("cfsQuotaBurstOnly", 0, True)],
)
def test_policies_enable_bursts_and_scaling(policy: str, burst: int, scales: bool) -> None:
    config = BurstConfig(policy)
    assert cpu_burst.burst_us(2000, config) == burst
    assert cpu_burst.burst_us(0, config) == 0
    assert (cpu_burst.wanted_step(config, True, True) is Step.UP) is scales
    assert (cpu_burst.wanted_step(config, True, False) is Step.RESET) is not scales


@pytest.mark.parametrize(
    ("used", "total", "pool"),
    [
        (49, 100, Pool.COOLING),
        (50, 100, Pool.OVERLOADED),
        (45, 100, Pool.COOLING),
        (44, 100, Pool.IDLE),
        (0, 0, Pool.OVERLOADED),
        (None, 1, Pool.UNKNOWN),
    ],
)
def test_the_pool_cools_at_nine_tenths_of_its_threshold(used: int | None, total: int, pool: Pool) -> None:
    assert cpu_burst.pool_state(used, total) is pool


def test_an_overloaded_pool_scales_down_and_a_cooling_one_does_not_scale_up() -> None:
    assert cpu_burst.final_step(Step.UP, Pool.OVERLOADED) is Step.DOWN
    assert cpu_burst.final_step(Step.KEEP, Pool.OVERLOADED) is Step.DOWN
    assert cpu_burst.final_step(Step.RESET, Pool.OVERLOADED) is Step.RESET
    assert cpu_burst.final_step(Step.UP, Pool.COOLING) is Step.KEEP
    assert cpu_burst.final_step(Step.UP, Pool.UNKNOWN) is Step.KEEP
    assert cpu_burst.final_step(Step.UP, Pool.IDLE) is Step.UP


@given(st.integers(1000, 10**7), st.integers(1000, 10**7), st.sampled_from(Step), st.integers(50, 500))
def test_a_quota_stays_between_the_requested_quota_and_its_maximum(
    base: int, current: int, step: Step, percent: int
) -> None:
    quota = cpu_burst.next_quota_us(current, base, step, percent)
    assert base <= quota <= max(base, base * percent // 100)
    assert cpu_burst.next_quota_us(current, base, Step.RESET, percent) == base


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=20))
def test_a_bucket_stays_in_its_bounds_and_refills_while_idle(steps: list[tuple[int, int]]) -> None:
    bucket, now = Bucket(AUTO, 0.0), 0.0
    for usage, seconds in steps:
        now += seconds
        before = bucket.tokens
        bucket.allows(usage, now)
        assert abs(bucket.tokens) <= bucket.capacity == 2000
        assert (bucket.tokens - before) * (100 - usage) >= 0
    assert bucket.allows(0, now + 1000)
    assert not bucket.allows(300, now + 2000)
