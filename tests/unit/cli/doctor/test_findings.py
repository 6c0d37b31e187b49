"""Findings: values with a level."""

from __future__ import annotations

from nri.cli.doctor.findings import LEVELS, Finding


def test_levels_go_from_good_to_bad_and_end_with_the_one_that_counts() -> None:
    assert LEVELS == ("ok", "note", "warning", "problem")


def test_a_finding_without_a_next_step_has_an_empty_one() -> None:
    assert Finding("ok", "a runtime listens", "/nri.sock").next == ""
