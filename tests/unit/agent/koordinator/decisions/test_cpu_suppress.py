"""How much is left for best-effort pods, by property."""

from hypothesis import given
from hypothesis import strategies as st

from nri.agent.koordinator.decisions import cpu_suppress
from nri.agent.koordinator.decisions.cpu_suppress import Cpu, Used

MILLI = st.integers(0, 256_000)


def machine(nodes: int, cores: int) -> list[Cpu]:
    total = nodes * cores
    return [Cpu(n + thread * total, n, n // cores, 0) for thread in (0, 1) for n in range(total)]


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


def test_a_small_first_quota_is_no_small_change_from_none() -> None:
    """-1 is no quota: on a large node two CPUs are within a hundredth of it, and a whole node away."""
    assert cpu_suppress.quota_us(2_000, -1, 256) == 200_000


@given(st.integers(-1000, 200_000), st.integers(0, 128), st.integers(1, 128))
def test_cpus_are_two_at_least_and_a_tenth_more_at_most(budget: int, current: int, cpus: int) -> None:
    count = cpu_suppress.cpu_count(budget, current, cpus)
    assert count <= current + -(-cpus // 10)
    assert count >= min(2, current + -(-cpus // 10))


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


def test_single_cpus_begin_with_the_first_node_where_whole_cores_ran_out() -> None:
    pair = [cpu_suppress.Cpu(0, 0, 0), cpu_suppress.Cpu(1, 0, 0)]
    cpus = [*pair, *(cpu_suppress.Cpu(n, n, node) for n, node in ((2, 0), (3, 0), (4, 1), (5, 1), (6, 1)))]
    assert sorted(cpu_suppress.chosen_cpus(5, cpus)) == [0, 1, 2, 3, 4]
    assert sorted(cpu_suppress.chosen_cpus(3, cpus)) == [0, 1, 4], "after a whole core the next node has its turn"


def test_the_way_in_force_is_known_and_one_that_was_taken_back() -> None:
    folder = cpu_suppress.Folder("be", 0)
    cpus = machine(1, 4)
    now = cpu_suppress.Situation(True, True, 2000, 8, -1, frozenset({0}), cpus, [], [folder])
    suppression = cpu_suppress.Suppression()
    assert suppression.in_force == {}
    suppression.decide(now)
    assert suppression.in_force == {"cfsQuota": True, "cpuset": False}
    suppression.decide(now._replace(by_quota=False))
    assert suppression.in_force == {"cfsQuota": False, "cpuset": True}
