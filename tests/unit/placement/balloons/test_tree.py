"""The tree of CPUs. The recorded cases of CPU trees test the allocation."""

from dataclasses import replace

import pytest

from nri.host.topology import Cache
from nri.placement import masks
from nri.placement.balloons.tree import Preferences, TreeAllocator, build, by_thread
from nri.placement.machine import Machine
from tests.support.placement import guest


def test_nodes_are_named_by_their_path() -> None:
    names = [node.name for node in build(Machine.of(guest(1, 1, 1, 2))).walk()]
    assert names == ["system", "p0", "p0d0", "p0d0n0", "p0d0n0$0", "p0d0n0cpu0", "p0d0n0cpu0t0", "p0d0n0cpu0t1"]


def test_cpus_without_a_second_cache_are_in_the_tree() -> None:
    topology = guest(1, 1, 2, 1)
    bare = replace(topology, cpus={n: replace(cpu, caches=()) for n, cpu in topology.cpus.items()})
    root = build(Machine.of(bare))
    assert TreeAllocator(root, Preferences()).resize(0, 0b11, 1) == (0b01, 0)


def test_first_threads_come_before_second_threads() -> None:
    root = by_thread(build(Machine.of(guest(1, 2, 2, 2))))
    assert [masks.text(node.cpus) for node in root.walk() if node.name.endswith("class0")] == ["0,2", "4,6"]
    add, _ = TreeAllocator(build(Machine.of(guest(1, 2, 2, 2))), Preferences(spread=True)).resize(0, 0xFF, 3)
    assert masks.text(add) == "0-2"


def test_of_few_equal_nodes_the_first_is_taken() -> None:
    """First and second threads are equal nodes: Go's sort keeps the order of up to twelve elements."""
    for packages, threads in ((1, "0,2"), (8, "1,3")):
        topology = guest(packages, 1, 2, 2)
        total = {n: Cache(2, "Unified", node.cpus, 0, n) for n, node in topology.nodes.items()}
        cpus = {n: replace(cpu, caches=(total[cpu.node],)) for n, cpu in topology.cpus.items()}
        root = build(Machine.of(replace(topology, cpus=cpus)))
        add, _ = TreeAllocator(root, Preferences(spread=True)).resize(0, root.cpus, 2)
        assert masks.text(add) == threads


def test_missing_cpus_cannot_be_taken_or_returned() -> None:
    allocator = TreeAllocator(build(Machine.of(guest())), Preferences())
    for delta in (3, -3):
        with pytest.raises(ValueError, match="3 CPUs requested, but only 2 available"):
            allocator.resize(0b11, 0b1100, delta)


def test_the_next_cpu_avoids_a_load() -> None:
    machine = Machine.of(guest(1, 1, 4, 2))
    cores = {"load": lambda cpus: sum({core for core in machine.cores.values() if core & cpus})}
    preferences = Preferences(avoided=["load"], devices={"load": [0]}, loads=cores)
    add, _ = TreeAllocator(build(machine), preferences).resize(0, 0xFF, 3)
    assert len({machine.cores[number] for number in masks.members(add)}) >= 3
    assert TreeAllocator(build(machine), preferences).resize(0b1111, 0xF0, -1)[1].bit_count() == 1
