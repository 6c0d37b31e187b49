"""Filters of lists."""

from __future__ import annotations

from nri.engine.services.selection import begins, labelled


def test_an_id_is_found_by_its_beginning_and_everything_by_nothing() -> None:
    assert begins("abcdef", "abc") and begins("abcdef", "") and begins("abcdef", "abcdef")
    assert not begins("abcdef", "bc") and not begins("abc", "abcdef")


def test_all_labels_of_a_selector_have_to_be_there() -> None:
    labels = {"app": "x", "tier": "1"}
    assert labelled(labels, {}) and labelled(labels, {"app": "x"}) and labelled(labels, labels)
    assert not labelled(labels, {"app": "y"}) and not labelled(labels, {"app": "x", "zone": "1"})
