"""Portions of streams."""

from __future__ import annotations

from nri.engine.calls.call import MAX_ITEMS, chunks, has_labels, matches_id


def test_a_stream_has_portions_of_bounded_length_and_one_if_there_is_nothing() -> None:
    assert [*chunks([])] == [[]]
    assert [len(part) for part in chunks([1] * (2 * MAX_ITEMS + 1))] == [MAX_ITEMS, MAX_ITEMS, 1]
    assert [len(part) for part in chunks([1] * MAX_ITEMS)] == [MAX_ITEMS]


def test_an_id_is_found_by_its_beginning_and_everything_by_nothing() -> None:
    assert matches_id("abcdef", "abc") and matches_id("abcdef", "") and matches_id("abcdef", "abcdef")
    assert not matches_id("abcdef", "bc") and not matches_id("abc", "abcdef")


def test_all_labels_of_a_selector_have_to_be_there() -> None:
    labels = {"app": "x", "tier": "1"}
    assert has_labels(labels, {}) and has_labels(labels, {"app": "x"}) and has_labels(labels, labels)
    assert not has_labels(labels, {"app": "y"}) and not has_labels(labels, {"app": "x", "zone": "1"})
