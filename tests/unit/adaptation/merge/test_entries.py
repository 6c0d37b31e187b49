"""Entries of a reply: in the table's order, with removals separate from settings."""

from __future__ import annotations

from typing import Any

from nri.adaptation.merge.entries import Entry, read
from nri.api.fields import TREE
from tests.unit.adaptation.merge.build import adjusts


def entries(**adjust: Any) -> list[Entry]:
    return read(adjusts(**adjust).adjust, TREE)


def test_fields_are_in_the_tables_order_and_not_by_number() -> None:
    matches = entries(
        args=["x"], linux={"resources": {"cpu": {"shares": {"value": "1"}}}}, annotations={"a": "b"}, hooks={},
        env=[{"key": "A"}],
    )  # fmt: skip
    ranks = [entry.row.rank for entry in matches]
    assert ranks == sorted(ranks)
    assert {entry.row.path for entry in matches} == {
        "args",
        "linux.resources.cpu.shares",
        "annotations",
        "hooks",
        "env",
    }


def test_a_message_that_sets_nothing_has_no_entries() -> None:
    assert entries(linux={"resources": {"memory": {}}}) == []


def test_removals_and_settings_of_a_list_are_separated_and_the_last_one_counts() -> None:
    (entry,) = entries(env=[{"key": "A", "value": "1"}, {"key": "-B"}, {"key": "A", "value": "2"}])
    assert {key: variable.value for key, variable in entry.sets.items()} == {"A": "2"}
    assert list(entry.removed) == ["B"]
    assert entry.marked and not entry.plain


def test_keys_of_a_map_are_sorted() -> None:
    (entry,) = entries(annotations={"c": "3", "-a": "", "b": "2"})
    assert entry.keys == ["-a", "b", "c"]
    assert (entry.sets, list(entry.removed)) == ({"b": "2", "c": "3"}, ["a"])


def test_a_removal_and_a_setting_of_the_same_key_are_paired() -> None:
    (entry,) = entries(annotations={"-a": "", "a": "1", "-b": ""})
    assert entry.unpaired == ["b"]


def test_without_a_removal_mark_nothing_is_removed() -> None:
    (entry,) = entries(env=[{"key": "A", "value": "1"}])
    assert (entry.removed, entry.unpaired, entry.plain) == ({}, [], True)


def test_a_duplicate_key_is_not_plain() -> None:
    (entry,) = entries(env=[{"key": "A"}, {"key": "A"}])
    assert not entry.plain


def test_a_dash_in_an_unremovable_field_is_part_of_the_name() -> None:
    (entry,) = entries(rlimits=[{"type": "-NOFILE"}])
    assert (entry.marked, list(entry.sets)) == (False, ["-NOFILE"])
