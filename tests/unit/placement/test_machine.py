"""Masks of machines: priorities by clock, energy and kind of core; clusters, caches, threads."""

from dataclasses import replace

from nri.host.topology import Cache, Topology
from nri.placement import masks
from nri.placement.machine import Machine, Priority
from tests.support.placement import guest


def with_cpus(topology: Topology, **changed_cpu: object) -> Topology:
    """Another machine, the keys of each CPU by functions of its number."""
    cpus = {n: replace(cpu, **{key: make(n) for key, make in changed_cpu.items()}) for n, cpu in topology.cpus.items()}  # type: ignore[operator]
    return replace(topology, cpus=cpus)


def priorities(machine: Machine) -> list[str]:
    return [masks.text(cpus) for cpus in machine.priorities]


def test_the_slower_cpus_of_a_package_have_low_priority() -> None:
    plain = guest(1, 1, 4, 1)
    assert priorities(Machine.of(plain)) == ["", "0-3", ""]
    assert priorities(Machine.of(with_cpus(plain, base_khz=lambda n: 2000 + n // 3))) == ["3", "", "0-2"]
    words = ["power", "performance", "balance_power", ""]
    assert priorities(Machine.of(with_cpus(plain, energy_preference=lambda n: words[n]))) == ["1-2", "", "0,3"]


def test_efficient_cores_have_low_priority() -> None:
    machine = Machine.of(with_cpus(guest(1, 1, 4, 1), kind=lambda n: "efficient" if n > 1 else "performance"))
    assert (machine.hybrid, masks.text(machine.performance), masks.text(machine.efficient)) == (True, "0-1", "2-3")
    assert priorities(machine) == ["", "0-1", "2-3"]
    assert not Machine.of(guest()).hybrid


def test_clusters_of_one_core_each_are_one_cluster() -> None:
    plain = guest(1, 1, 6, 2)
    machine = Machine.of(with_cpus(plain, cluster=lambda n: 9 if n > 7 else n // 2))
    assert [masks.text(group.cpus) for group in machine.clusters] == ["0-7", "8-11"]
    assert Machine.of(plain).clusters == ()


def test_a_cache_groups_cpus_if_it_is_neither_a_cores_nor_all_of_a_die() -> None:
    def caches(number: int) -> tuple[Cache, ...]:
        core, group = number // 2 * 2, number // 4 * 4
        return (
            Cache(1, "Data", frozenset({core, core + 1}), 0, core),
            Cache(2, "Unified", frozenset(range(group, group + 4)), 0, group),
            Cache(3, "Unified", frozenset(range(8)), 0, 0),
        )

    machine = Machine.of(with_cpus(guest(1, 1, 4, 2), caches=caches))
    assert [masks.text(group.cpus) for group in machine.cache_groups] == ["0-3", "4-7"]
    assert machine.l3_caches == {0: {0: masks.parse("0-7")}}
    assert Machine.of(guest(1, 1, 4, 2)).cache_groups == ()


def test_one_thread_per_core_keeps_the_first_thread() -> None:
    machine = Machine.of(guest())
    assert masks.text(machine.one_thread_per_core(masks.parse("0-2,5"))) == "0,2,5"
    assert masks.text(machine.nodes_of(masks.parse("3-4,15"))) == "0-1,3"


def test_names_of_priorities_can_have_any_case() -> None:
    assert Priority.named("High") is Priority.HIGH
    assert Priority.named("default") is Priority.NONE
