"""Order of two updates, field by field. Random histories are in tests/property/test_answer_order.py."""

from __future__ import annotations

import nri
from nri.adaptation import FieldOrder, OrderedUpdates, SequenceNumbers, UpdateResult
from nri.adaptation.containers.update_result import field_names
from nri.api import messages as m

EARLIER = (
    nri.Update("c").set_cpu_shares(2).set_memory_limit(2).add_unified("k", "3").add_hugepage_limit("2MB", 4).message
)


def put(order: FieldOrder, update: m.ContainerUpdate, numbers: SequenceNumbers) -> UpdateResult:
    """Apply an update as a runtime does, and return its result."""
    result = UpdateResult(update)
    order.newest(update.linux.resources, numbers, result)
    order.note(result, numbers)
    return result


def test_fields_set_by_a_later_answer_are_left_out_and_reported() -> None:
    order = FieldOrder()
    later = nri.Update("c").set_cpu_shares(9).add_unified("k", "9").add_hugepage_limit("2MB", 9).message
    assert not put(order, later, SequenceNumbers(8)).failed
    result = UpdateResult(EARLIER)
    expected = order.newest(EARLIER.linux.resources, SequenceNumbers(7), result)
    assert field_names(expected) == ["memory.limit"] and expected.memory.limit.value == 2
    assert {row.field: row.outcome for row in result.fields} == {
        "cpu.shares": "stale", "memory.limit": "applied", "unified[k]": "stale", "hugepage_limits[2MB]": "stale"
    }  # fmt: skip


def test_the_newest_answer_is_passed_on_without_a_copy() -> None:
    order = FieldOrder()
    put(order, EARLIER, SequenceNumbers(7))
    resources = EARLIER.linux.resources
    assert order.newest(resources, SequenceNumbers(7)) is resources, "no copy is made"
    assert not put(order, EARLIER, SequenceNumbers(8)).failed


def test_a_failed_field_does_not_block_an_earlier_answer() -> None:
    order, result = FieldOrder(), UpdateResult(EARLIER)
    order.note(result.mark_unsupported("cpu.shares", "why not"), SequenceNumbers(8))
    assert (order.last("cpu.shares"), order.last("memory.limit")) == (0, 8)


def test_a_container_starts_with_the_answers_to_its_creation() -> None:
    order = FieldOrder(EARLIER.linux.resources, SequenceNumbers(5, {"cpu.shares": 8}))
    assert (order.last("cpu.shares"), order.last("unified[k]"), order.last("cpu.quota")) == (8, 5, 0)


def test_an_undone_field_yields_to_newer_values_only() -> None:
    order = FieldOrder(EARLIER.linux.resources, SequenceNumbers(8, {"memory.limit": 9}))
    back = SequenceNumbers(0, {"cpu.shares": 3}, over={"cpu.shares": 8, "memory.limit": 8})
    restoring = nri.Update("c").set_cpu_shares(5).set_memory_limit(5).message
    result = put(order, restoring, back)
    assert [row.field for row in result.fields if row.outcome == "stale"] == ["memory.limit"]
    assert (order.last("cpu.shares"), order.last("memory.limit")) == (3, 9)


def test_updates_passed_on_separately_keep_their_numbers() -> None:
    other = m.ContainerUpdate(container_id="d")
    updates = OrderedUpdates([EARLIER, other], SequenceNumbers(3), {"c": SequenceNumbers(4)})
    assert [updates.only(update).numbers(update).number("any") for update in updates] == [4, 3]
