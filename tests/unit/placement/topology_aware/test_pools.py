"""The tree of pools on several machines, accounts, and hints."""

from dataclasses import replace

from nri.placement import masks
from nri.placement.allocator import CpuAllocator
from nri.placement.choices import Choices
from nri.placement.containers import Hint
from nri.placement.machine import Machine
from nri.placement.topology_aware.pools import Pools
from tests.support.placement import guest


def pools(*shape: int, **more: object) -> Pools:
    machine = Machine.of(guest(*shape, **more))
    return Pools(machine, machine.online, 1)


def test_levels_with_a_single_child_are_omitted() -> None:
    names = ["NUMA node #0", "NUMA node #1", "socket #0", "NUMA node #2", "NUMA node #3", "socket #1", "root"]
    assert [pool.name for pool in pools().by_id] == names
    assert [pool.name for pool in pools(1, 1).by_id] == ["socket #0"]
    assert [pool.name for pool in pools(1, 2, 8, 2, l3_groups="").by_id if pool.level == "l3cache"] == [
        f"NUMA node #{n // 2}/L3 cache #{n}" for n in range(4)
    ]


def with_dies() -> Machine:
    topology = guest(1, 1, 8, 1, dies=2)
    cpus = {n: replace(cpu, cluster=n // 4) for n, cpu in topology.cpus.items()}
    return Machine.of(replace(topology, cpus=cpus))


def test_dies_have_pools_if_they_differ_from_clusters() -> None:
    machine = with_dies()
    assert [pool.name for pool in Pools(machine, machine.online, 1).by_id] == ["die #0/0", "die #0/1", "socket #0"]


def test_a_missing_level_is_replaced_by_the_next_level_above() -> None:
    assert [pools().existing_level(level) for level in ("system", "package", "die", "numa", "l3cache")] == [
        "system", "package", "package", "numa", "numa"
    ]  # fmt: skip


def test_exclusive_cpus_leave_all_their_pools_and_return() -> None:
    tree = pools()
    node, root = tree.by_name["NUMA node #1"], tree.root
    node.take(masks.parse("4-5"))
    assert masks.text(root.free_sharable) == "1-3,6-15"
    assert node.free_shared_m() == 2000
    root.shared_m += 12500
    assert node.free_shared_m() == 500
    node.idlers += 1
    assert node.free_shared_m() == 499
    root.shared_m -= 12500
    assert masks.text(root.sliceable(CpuAllocator(tree.machine)) & node.cpus) == "6"
    node.give_back(masks.parse("4-5"))
    assert masks.text(root.free_sharable) == "1-15"


def test_hints_score_less_for_larger_pools() -> None:
    tree = pools()
    node, package, root = (tree.by_name[name] for name in ("NUMA node #1", "socket #0", "root"))
    assert [pool.hint_score(Hint("4,8")) for pool in (node, package, root)] == [0.5, 0.5, 1.0]
    assert [pool.hint_score(Hint(nodes="1")) for pool in (node, package, root)] == [1.0, 0.9, 0.9 * 0.9]
    assert [pool.hint_score(Hint(packages="0")) for pool in (node, package, root)] == [0.5, 1.0, 0.9]
    assert node.hint_score(Hint("x")) == 0.0
    cache = pools(1, 2, 8, 2, l3_groups="").by_name["NUMA node #0/L3 cache #0"]
    assert cache.hint_score(Hint(packages="0")) == 0.9 * 0.5
    assert cache.hint_score(Hint(nodes="0")) == 0.9


def test_dies_have_their_own_hints() -> None:
    """`dies_have_their_own_hints`: in nri-plugins all dies of a package have the hints of the package."""
    machine = with_dies()
    for choices, scores in ((Choices.DEFAULT, [0.75, 0.25]), (Choices.REFERENCE, [1.0, 1.0])):
        pools = Pools(machine, machine.online, 1, choices).by_name
        assert [pools[f"die #0/{number}"].hint_score(Hint("5-8")) for number in range(2)] == scores
        assert [pools[f"die #0/{number}"].hint_score(Hint(packages="0")) for number in range(2)] == [1.0, 1.0]


def test_exclusive_cpus_leave_lower_pools_their_promised_shares() -> None:
    """`lower_pools_keep_their_shares`: nri-plugins takes CPUs that a lower pool has promised."""
    machine = Machine.of(guest())
    pools = Pools(machine, machine.online, masks.parse("1,5"))
    pools.by_name["NUMA node #0"].promise(0, 0, 1)
    allocator = CpuAllocator(machine)
    assert masks.text(pools.root.sliceable(allocator)) == "2-4,6-15"
    assert masks.text(pools.root.sliceable_by_each(allocator)) == "0,2-4,6-15"
    assert masks.text(pools.by_name["NUMA node #0"].sliceable_by_each(allocator)) == "2-3"
