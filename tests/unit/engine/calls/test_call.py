"""Parts of streams, and filters of lists."""

from __future__ import annotations

from nri.engine.calls.call import MAX_ITEMS, chunks, has_labels, matches_id


def test_a_stream_has_bounded_parts_and_at_least_one() -> None:
    assert [*chunks([])] == [[]]
    assert [len(part) for part in chunks([1] * (2 * MAX_ITEMS + 1))] == [MAX_ITEMS, MAX_ITEMS, 1]
    assert [len(part) for part in chunks([1] * MAX_ITEMS)] == [MAX_ITEMS]


def test_an_id_matches_its_prefix_and_the_empty_filter_matches_all() -> None:
    assert matches_id("abcdef", "abc") and matches_id("abcdef", "") and matches_id("abcdef", "abcdef")
    assert not matches_id("abcdef", "bc") and not matches_id("abc", "abcdef")


def test_all_labels_of_a_selector_must_match() -> None:
    labels = {"app": "x", "tier": "1"}
    assert has_labels(labels, {}) and has_labels(labels, {"app": "x"}) and has_labels(labels, labels)
    assert not has_labels(labels, {"app": "y"}) and not has_labels(labels, {"app": "x", "zone": "1"})
