"""The strategies as pure decisions, by property where there is arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.policies.koordinator.loops import block_io, cpu_burst, cpu_suppress, evict, memory_qos
from nri.policies.koordinator.loops.cpu_burst import Bucket, BurstConfig, Pool, Step
from nri.policies.koordinator.loops.cpu_suppress import Cpu, Used
from nri.policies.koordinator.loops.evict import BatchCpu, Candidate

MILLI = st.integers(0, 256_000)


# --- suppression


def test_the_budget_is_a_share_of_the_node_less_what_the_others_use() -> None:
    used = Used(node=40_000, pods=30_000, others=20_000, programs=2_000, other_programs=1_000)
    assert cpu_suppress.budget_milli(100_000, used) == 65_000 - 20_000 - 1_000 - 8_000
    assert cpu_suppress.budget_milli(100_000, used._replace(reserved=10_000)) == 34_000
    assert cpu_suppress.budget_milli(100_000, used._replace(others=90_000), least_percent=10) == 10_000


@given(MILLI, MILLI, MILLI, st.integers(1, 100))
def test_more_used_by_others_never_leaves_more(node: int, pods: int, others: int, percent: int) -> None:
    used = Used(node, pods, others)
    more = used._replace(others=others + 1000)
    assert cpu_suppress.budget_milli(64_000, more, percent) < cpu_suppress.budget_milli(64_000, used, percent)


@given(st.integers(-64_000, 128_000), st.integers(2000, 12_800_000), st.integers(1, 128))
def test_a_quota_grows_in_steps_shrinks_at_once_and_small_changes_are_none(
    budget: int, current: int, cpus: int
) -> None:
    quota = cpu_suppress.quota_us(budget, current, cpus)
    wanted = max(budget * 100, 2000)
    if quota is None:
        assert abs(wanted - current) < cpus * 1000
    else:
        assert 2000 <= quota <= max(wanted, 2000)
        assert quota - current <= cpus * 10_000
        assert quota == wanted or quota == current + cpus * 10_000


def test_a_first_quota_is_the_whole_one() -> None:
    assert cpu_suppress.quota_us(30_000, -1, 32) == 3_000_000


@given(st.integers(-1000, 200_000), st.integers(0, 128), st.integers(1, 128))
def test_cpus_are_two_at_least_and_a_tenth_more_at_most(budget: int, current: int, cpus: int) -> None:
    count = cpu_suppress.cpu_count(budget, current, cpus)
    assert count <= current + -(-cpus // 10)
    assert count >= min(2, current + -(-cpus // 10))


def machine(nodes: int, cores: int) -> list[Cpu]:
    total = nodes * cores
    return [Cpu(n + thread * total, n, n // cores, 0) for thread in (0, 1) for n in range(total)]


@given(st.integers(1, 4), st.integers(1, 8), st.data())
def test_whole_cores_are_taken_and_spread_over_memory_nodes(nodes: int, cores: int, data: st.DataObject) -> None:
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


def test_cpus_of_lsr_pods_are_lent_in_proportion_and_too_few_are_none() -> None:
    cpus = machine(1, 4)
    lent, shared = cpus[:4], cpus[4:]
    chosen = cpu_suppress.chosen_cpus(4, shared, lent)
    assert len(set(chosen) & {cpu.number for cpu in lent}) == 2
    assert cpu_suppress.chosen_cpus(9, cpus) == []
    assert cpu_suppress.chosen_cpus(2, []) == []


# --- bursts

AUTO = BurstConfig("auto", quota_seconds=10)


@pytest.mark.parametrize(
    ("policy", "burst", "scales"),
    [("none", 0, False), ("cpuBurstOnly", 2_000_000, False), ("auto", 2_000_000, True), ("cfsQuotaBurstOnly", 0, True)],
)
def test_policies_switch_bursts_and_scaling(policy: str, burst: int, scales: bool) -> None:
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
def test_the_pool_cools_from_nine_tenths_of_its_threshold(used: int | None, total: int, pool: Pool) -> None:
    assert cpu_burst.pool_state(used, total) is pool


def test_an_overloaded_pool_scales_down_and_a_cooling_one_does_not_scale_up() -> None:
    assert cpu_burst.final_step(Step.UP, Pool.OVERLOADED) is Step.DOWN
    assert cpu_burst.final_step(Step.KEEP, Pool.OVERLOADED) is Step.DOWN
    assert cpu_burst.final_step(Step.RESET, Pool.OVERLOADED) is Step.RESET
    assert cpu_burst.final_step(Step.UP, Pool.COOLING) is Step.KEEP
    assert cpu_burst.final_step(Step.UP, Pool.UNKNOWN) is Step.KEEP
    assert cpu_burst.final_step(Step.UP, Pool.IDLE) is Step.UP


@given(st.integers(1000, 10**7), st.integers(1000, 10**7), st.sampled_from(Step), st.integers(50, 500))
def test_a_quota_stays_between_what_was_asked_for_and_its_ceiling(
    base: int, current: int, step: Step, percent: int
) -> None:
    quota = cpu_burst.next_quota_us(current, base, step, percent)
    assert base <= quota <= max(base, base * percent // 100)
    assert cpu_burst.next_quota_us(current, base, Step.RESET, percent) == base


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=20))
def test_a_bucket_stays_in_its_bounds_and_is_filled_by_rest(steps: list[tuple[int, int]]) -> None:
    bucket, now = Bucket(AUTO, 0.0), 0.0
    for usage, seconds in steps:
        now += seconds
        before = bucket.tokens
        bucket.allows(usage, now)
        assert abs(bucket.tokens) <= bucket.capacity == 2000
        assert (bucket.tokens - before) * (100 - usage) >= 0
    assert bucket.allows(0, now + 1000)
    assert not bucket.allows(300, now + 2000)


# --- eviction


def test_cpu_is_freed_while_pods_are_busy_and_get_too_little() -> None:
    busy = BatchCpu(used=4800, request=10_000, limit=5000)
    assert evict.by_satisfaction(busy, busy, 60, 80) == 3000
    assert evict.by_satisfaction(busy, busy._replace(request=8000), 70, 80) == 1400
    assert evict.by_satisfaction(busy, busy._replace(used=100), 60, 80) == 0
    assert evict.by_satisfaction(busy, busy, 40, 80) == 0
    assert evict.by_satisfaction(busy._replace(limit=0), busy, 60, 80) == 0
    small = BatchCpu(used=0, request=2000, limit=900)
    assert evict.by_satisfaction(small, small, 60, 80) == 700


@given(st.integers(0, 10**12), st.integers(10**6, 10**12), st.integers(3, 100))
def test_what_is_freed_brings_the_node_below_its_threshold(used: int, capacity: int, percent: int) -> None:
    used = min(used, capacity)
    need = evict.by_usage(used, capacity, percent)
    assert need >= 0
    if used * 100 // capacity < percent:
        assert need == 0
    else:
        assert (used - need) * 100 // capacity <= percent


@pytest.mark.parametrize(("percent", "lower"), [(-1, None), (70, 70), (70, 80)])
def test_thresholds_that_make_no_sense_are_refused(percent: int, lower: int | None) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        evict.by_usage(1, 2, percent, lower)


def test_lower_priority_goes_first_then_who_uses_more_until_there_is_enough() -> None:
    pods = [Candidate("a", 10, 5, 100), Candidate("b", 10, 1, 1), Candidate("c", 10, 1, 50), Candidate("d", 0, 0, 0)]
    assert [pod.name for pod in evict.victims(pods, 15)] == ["c", "b"]
    assert [pod.name for pod in evict.victims(pods, 100)] == ["c", "b", "a"]
    assert evict.victims(pods, 0) == []


# --- memory and block I/O

QOS = memory_qos.parse(
    {"enable": True, "minLimitPercent": 50, "lowLimitPercent": 20, "throttlingPercent": 80, "wmarkRatio": 95}
)


@given(st.integers(0, 2**40), st.integers(2**20, 2**40), st.integers(1, 100), st.integers(0, 100), st.integers(0, 100))
def test_protection_is_ordered_and_high_is_inside(request: int, more: int, throttle: int, least: int, low: int) -> None:
    qos = memory_qos.MemoryQos(True, least, low, throttle)
    values = memory_qos.container_values(qos, request, request + more, 2**41)
    if values["memory.low"] and values["memory.min"]:
        assert values["memory.min"] <= values["memory.low"]
    assert values["memory.high"] <= request + more
    assert values["memory.high"] >= max(values["memory.min"], 4096)


def test_memory_without_a_limit_is_throttled_by_the_node_and_zero_is_no_throttling() -> None:
    values = memory_qos.container_values(QOS, 1 << 30, -1, 3 << 30)
    assert values["memory.high"] == ((1 << 30) + (2 << 30) * 80 // 100) // 4096 * 4096
    assert values["memory.low"] == values["memory.min"] == 1 << 29
    assert values["memory.wmark_ratio"] == 95
    free = QOS._replace(throttling_percent=0)
    assert memory_qos.container_values(free, 1, 2, 3)["memory.high"] == -1
    assert "memory.high" not in memory_qos.pod_values(QOS, 1 << 30)
    assert memory_qos.pod_values(memory_qos.parse(None), 1) == {}
    with pytest.raises(ValueError, match="minLimitPercent"):
        memory_qos.parse({"minLimitPercent": "5"})


def test_disks_have_a_value_of_each_knob() -> None:
    given_ = {"enable": True, "blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": {"readBPS": 1048576}}]}
    (disk,) = block_io.parse(given_)
    assert block_io.values([("8:0", disk)]) == {
        "io.read_iops": {"8:0": -1},
        "io.write_iops": {"8:0": -1},
        "io.read_bps": {"8:0": 1048576},
        "io.write_bps": {"8:0": -1},
        "io.cost_weight": {"8:0": 100},
    }
    assert block_io.parse({**given_, "enable": False}) == []
    for wrong in ({"readBPS": -1}, {"ioWeightPercent": 0}, {"ioWeightPercent": 101}, {"readBPS": "1"}):
        with pytest.raises(ValueError, match="blkioQOS"):
            block_io.parse({"enable": True, "blocks": [{"ioCfg": wrong}]})
