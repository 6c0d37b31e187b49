"""Portions of streams."""

from __future__ import annotations

from nri.engine.calls.call import CHUNK, begins, chunks, labelled


def test_a_stream_has_portions_of_bounded_length_and_one_if_there_is_nothing() -> None:
    assert [*chunks([])] == [[]]
    assert [len(part) for part in chunks([1] * (2 * CHUNK + 1))] == [CHUNK, CHUNK, 1]
    assert [len(part) for part in chunks([1] * CHUNK)] == [CHUNK]


def test_an_id_is_found_by_its_beginning_and_everything_by_nothing() -> None:
    assert begins("abcdef", "abc") and begins("abcdef", "") and begins("abcdef", "abcdef")
    assert not begins("abcdef", "bc") and not begins("abc", "abcdef")


def test_all_labels_of_a_selector_have_to_be_there() -> None:
    labels = {"app": "x", "tier": "1"}
    assert labelled(labels, {}) and labelled(labels, {"app": "x"}) and labelled(labels, labels)
    assert not labelled(labels, {"app": "y"}) and not labelled(labels, {"app": "x", "zone": "1"})
