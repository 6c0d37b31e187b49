"""Allocation of CPUs from a set: packages, caches, cores, threads and priorities."""

from dataclasses import replace

import pytest

from nri.host.topology import Cache, Cpu
from nri.placement import masks
from nri.placement.allocator import CpuAllocator
from nri.placement.machine import Machine, Priority
from tests.support.placement import guest


def cached(packages: int = 2) -> Machine:
    """Each package has three caches of two cores."""
    topology = guest(packages, 1, 6, 2)
    cpus = {n: replace(cpu, caches=caches(cpu)) for n, cpu in topology.cpus.items()}
    return Machine.of(replace(topology, cpus=cpus))


def caches(cpu: Cpu) -> tuple[Cache, ...]:
    core, shared = cpu.threads, group(cpu.number)
    return Cache(1, "Data", core, 0), Cache(2, "Unified", shared, 0), Cache(3, "Unified", core, 0)


def group(number: int) -> frozenset[int]:
    return frozenset(range(number // 4 * 4, number // 4 * 4 + 4))


def allocated(machine: Machine, free: str, count: int, prefer: Priority = Priority.NONE) -> str:
    return masks.text(CpuAllocator(machine).allocate(masks.parse(free), count, prefer))


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        ("0-15", 8, "0-7"),  # a package
        ("2-15", 8, "8-15"),
        ("1-15", 4, "2-5"),  # cores
        ("1-15", 3, "1-3"),  # and a thread of the core that is used
        ("1,3,9,11,13", 2, "1,3"),  # threads of one package
        ("5,7", 2, "5,7"),
        ("1,3,9,11,13", 5, "1,3,9,11,13"),  # of both packages
        ("0-15", 0, ""),
    ],
)
def test_cpus_are_taken_as_close_together_as_possible(free: str, count: int, expected: str) -> None:
    assert allocated(Machine.of(guest()), free, count) == expected


def test_too_few_cpus_are_an_error_that_names_them() -> None:
    with pytest.raises(ValueError, match="1-2 has fewer than 3 CPUs"):
        allocated(Machine.of(guest()), "1-2", 3)


@pytest.mark.parametrize(
    ("free", "count", "expected"),
    [
        ("0-23", 4, "0-3"),  # one cache
        ("0-23", 6, "0-5"),  # one, and a part of the next
        ("2-11,13-23", 5, "4-8"),
        ("2-7,12-23", 2, "4-5"),  # of the idle cache
        ("2-3,6-7,12-13", 2, "12-13"),  # of used ones one that has just as much, where least is left
        ("1-3,6-7,13", 4, "1-3,6"),
        ("1,5,9", 2, "1,5"),
        ("1,5,9,13,17,21", 6, "1,5,9,13,17,21"),  # of both packages
    ],
)
def test_caches_are_taken_completely_then_split_within_a_package(free: str, count: int, expected: str) -> None:
    assert allocated(cached(), free, count) == expected


def test_caches_beside_idle_ones_are_taken_before_larger_ones_elsewhere() -> None:
    """`caches_beside_idle_ones`: the remaining CPUs come from the package of the idle cache."""
    machine, free = cached(), masks.parse("0-1,12-15,17,20-22")
    actual = CpuAllocator(machine).allocate(free, 5, Priority.NONE)
    assert masks.text(actual) == "12-15,17"
    located = CpuAllocator(machine, near_idle=False).allocate(free, 5, Priority.NONE)
    assert located.bit_count() == 5


def test_cpus_of_the_priority_are_preferred_and_better_cpus_kept() -> None:
    machine = replace(Machine.of(guest(1, 1, 8, 1)), priorities=tuple(map(masks.parse, ("0-1", "2-4", "5-7"))))
    assert allocated(machine, "0-6", 2, Priority.HIGH) == "0-1"
    assert allocated(machine, "0-6", 2, Priority.NORMAL) == "2-3"
    assert allocated(machine, "0-6", 2, Priority.LOW) == "5-6"
    assert allocated(machine, "0-1,5-6", 3, Priority.NORMAL) == "0,5-6"
    two = replace(Machine.of(guest(2, 1, 4, 1)), priorities=tuple(map(masks.parse, ("0,4-5", "1-3,6-7", ""))))
    assert allocated(two, "0-6", 2, Priority.HIGH) == "4-5"
    assert allocated(two, "1-3,5-6", 3, Priority.LOW) == "1-3"
    assert allocated(two, "1-3,6-7", 2, Priority.HIGH) == "1-2", "none of the priority is free"


def test_clusters_count_where_cores_differ() -> None:
    topology = guest(1, 1, 8, 1)
    cpus = {
        n: replace(cpu, cluster=n // 2, kind="efficient" if n > 3 else "performance")
        for n, cpu in topology.cpus.items()
    }
    machine = Machine.of(replace(topology, cpus=cpus))
    assert allocated(machine, "1-7", 2, Priority.NORMAL) == "2-3"
    assert allocated(machine, "0-7", 2, Priority.LOW) == "4-5"
    assert allocated(machine, "0-7", 6, Priority.LOW) == "0-1,4-7", "more than there are of the kind"
    assert allocated(machine, "1-7", 3, Priority.LOW) == "4-6"
    assert allocated(machine, "0-2", 1, Priority.NORMAL) == "0"


@pytest.mark.parametrize(
    ("count", "prefer", "expected"),
    [
        (2, Priority.HIGH, "3,5"),
        (3, Priority.HIGH, "9,11,13"),
        (3, Priority.NORMAL, "9,11,13"),
        (3, Priority.LOW, "3,5,9"),
    ],
)
def test_threads_are_taken_from_the_package_with_just_enough(count: int, prefer: Priority, expected: str) -> None:
    machine = replace(Machine.of(guest(2, 1, 4, 2)), priorities=tuple(map(masks.parse, ("0-1", "2-15", ""))))
    assert allocated(machine, "3,5,9,11,13", count, prefer) == expected
