"""Memory zones: the initial zone of a request, and the requests that move when memory is short."""

import pytest

from nri.host.topology import MemoryKind, Node
from nri.placement.zones import DRAM, HBM, PMEM, MemoryZones, NoMemory, Offer, Request, parse_kinds

#: Two nodes of DRAM, and slow memory near to each, which holds only what can be moved.
KINDS: list[MemoryKind] = ["dram", "dram", "pmem", "pmem"]
DISTANCES = [[10, 20, 15, 25], [20, 10, 25, 15], [15, 25, 10, 30], [25, 15, 30, 10]]


def zones(forget: bool = True, normal: int = 2) -> MemoryZones:
    nodes = {
        n: Node(n, frozenset(), 4, kind, dict(enumerate(DISTANCES[n])), n < normal) for n, kind in enumerate(KINDS)
    }
    return MemoryZones(nodes, forget)


def ask(memory: MemoryZones, user: str, size: int, nodes: int, kinds: int = DRAM, priority: int = 1) -> Offer:
    return memory.allocate(Request(user, size, nodes, kinds, priority))


def test_a_request_stays_in_its_nodes_while_memory_suffices() -> None:
    memory = zones()
    assert ask(memory, "a", 3, 1).zone == 1
    assert memory.free(1) == 1
    assert ask(memory, "b", 2, 2).zone == 2
    memory.release("a")
    memory.release("nobody")
    assert memory.free(3) == 6


def test_the_least_important_request_moves_to_nodes_of_its_kind_then_to_others() -> None:
    memory = zones()
    ask(memory, "best effort", 3, 1, priority=0)
    assert ask(memory, "sure", 4, 1, priority=2).moved == {"best effort": 3}
    moved = ask(memory, "more", 4, 2, priority=2).moved
    assert moved == {"best effort": 15}


def test_a_request_without_enough_memory_is_refused_and_changes_no_zone() -> None:
    memory = zones()
    ask(memory, "a", 4, 1, priority=0)
    with pytest.raises(NoMemory, match="not enough memory"):
        ask(memory, "b", 17, 1)
    assert memory.zones == {"a": 1}
    for nodes, kinds, strict, words in (
        (0, DRAM, False, "has no memory nodes"),
        (16, DRAM, False, "not found: 4"),
        (1, HBM, True, "hbm"),
    ):
        with pytest.raises(NoMemory, match=words):
            memory.offer(Request("c", 1, nodes, kinds, strict=strict))
    with pytest.raises(NoMemory, match="already"):
        ask(memory, "a", 1, 1)


def test_slow_memory_is_combined_with_normal_memory_for_unmovable_pages() -> None:
    assert ask(zones(), "a", 1, 2, PMEM).zone == 0b1010
    assert ask(zones(normal=4), "a", 1, 2, PMEM).zone == 0b1000
    with pytest.raises(NoMemory, match="unmovable pages"):
        zones().allocate(Request("a", 1, 2, PMEM, strict=True))


def test_an_offer_changes_no_zone_and_is_invalid_after_a_commit() -> None:
    memory = zones()
    first, second = memory.offer(Request("a", 3, 1)), memory.offer(Request("b", 3, 1))
    assert memory.zones == {}
    memory.commit(first)
    with pytest.raises(NoMemory, match="void"):
        memory.commit(second)
    assert memory.zones == {"a": 1}


def test_trials_leave_no_zone() -> None:
    """`trials_leave_no_zone`: in nri-plugins a tried zone can displace requests that fit."""
    results = []
    for forget in (True, False):
        memory = zones(forget)
        ask(memory, "a", 4, 1)
        memory.offer(Request("b", 4, 0b1111, DRAM | PMEM))
        memory.offer(Request("c", 4, 0b0101, DRAM | PMEM))
        results.append(memory.offer(Request("d", 4, 2, DRAM)).zone)
    assert results == [2, 2]


def test_a_zone_can_be_widened_and_restored() -> None:
    memory = zones()
    ask(memory, "a", 1, 1)
    saved = memory.saved()
    assert memory.widen("a", 0, 0) == (1, {})
    assert memory.widen("a", 0, PMEM) == (0b101, {})
    assert memory.begins_at("a", 1, DRAM | PMEM)
    memory.restore(saved)
    assert memory.zones == {"a": 1}
    assert memory.begins_at("a", 1, DRAM)
    with pytest.raises(NoMemory, match="no further memory nodes"):
        memory.widen("a", 0, HBM)


def test_a_zone_that_cannot_be_widened_is_unchanged() -> None:
    memory = zones()
    for user, nodes in (("a", 1), ("b", 2)):
        memory.allocate(Request(user, 4, nodes, DRAM, strict=True))
    memory.allocate(Request("c", 8, 0b1100, PMEM, 2))
    with pytest.raises(NoMemory, match="not enough"):
        memory.allocate(Request("d", 1, 0b11, DRAM, strict=True))
    assert memory.zones == {"a": 1, "b": 2, "c": 15}


def test_the_overcommitted_zone_with_most_users_is_first() -> None:
    memory = zones()
    for user, nodes in (("a", 1), ("b", 1), ("c", 2), ("d", 3)):
        ask(memory, user, 2, nodes, priority=0)
    assert ask(memory, "e", 4, 3, priority=2).moved == {"d": 15, "b": 15} or memory.free(3) >= 0


def test_kinds_are_read_in_any_case() -> None:
    assert parse_kinds(["DRAM", "hbm"]) == DRAM | HBM
    assert parse_kinds(["mixed"]) == DRAM | PMEM | HBM
    with pytest.raises(ValueError, match="'ram' is not a type of memory"):
        parse_kinds(["ram"])
