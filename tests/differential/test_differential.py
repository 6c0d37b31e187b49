"""Our merge in reference mode and the released reference give the same answers to random cases."""

import dataclasses
import json
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nri.rules import Rules
from tests.differential.__main__ import cases
from tests.differential.compare import differs, find
from tests.differential.generate import draw_case
from tests.differential.oracle import Expect, Oracle
from tests.differential.shrink import shrink

#: Rules of the fold whose effect an outcome shows. (It has no evictions; the other rules are not part of the merge.)
MERGE_RULES = [
    "removals_reach_reply",
    "last_word_wins",
    "removal_frees_key",
    "same_plugin_may_repeat",
    "literal_marks_refused",
    "limits_replace",
    "args_reset_shows_original",
    "rdt_removal_kept",
    "rdt_only_when_asked",
    "later_plugins_see_all",
    "pids_in_updates",
    "ignored_update_rolls_back",
    "absent_containers_left_out",
    "ignore_failure_covers_self_update",
    "empty_updates_change_nothing",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as process:
        yield process


@pytest.fixture(scope="module")
def answered(oracle: Oracle) -> list[tuple[dict[str, object], Expect]]:
    """The cases of one seed with the reference's answers."""
    return list(oracle.stream(cases(seed=1, count=2500)))


def report(oracle: Oracle, case: dict[str, object]) -> str:
    """A finding for a reader: small, with its diff, and as a line for the file of regressions."""
    small = shrink(case, lambda candidate: find(oracle, candidate, 8) is not None)
    matches = find(oracle, small) or find(oracle, case)
    return f"{matches.diff}\nas a line: {json.dumps(matches.case)}" if matches else f"seldom: {json.dumps(case)}"


# Hypothesis would shrink the choices behind a case; `shrink` works on the case itself and gets further.
@settings(
    max_examples=1000,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.randoms(note_method_calls=False, use_true_random=False))
def test_cases_drawn_by_hypothesis_have_the_outcome_of_the_reference(oracle: Oracle, source: random.Random) -> None:
    case = draw_case(source, "drawn")
    if find(oracle, case) is not None:
        pytest.fail(report(oracle, case), pytrace=False)


def test_seeded_cases_have_the_outcome_of_the_reference(
    oracle: Oracle, answered: list[tuple[dict[str, object], Expect]]
) -> None:
    for case, expect in answered:
        if differs(case, expect) and find(oracle, case) is not None:
            pytest.fail(report(oracle, case), pytrace=False)


@pytest.mark.parametrize("rule", MERGE_RULES)
def test_a_changed_merge_rule_is_detected_with_a_small_example(
    oracle: Oracle,
    answered: list[tuple[dict[str, object], Expect]],
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Checks the test itself: random cases detect a changed merge rule."""
    monkeypatch.setattr(Rules, "REFERENCE", dataclasses.replace(Rules.REFERENCE, **{rule: True}))
    entry = next((case for case, expect in answered if differs(case, expect) and find(oracle, case, 4)), None)
    assert entry is not None, f"no case shows {rule}"
    small = shrink(entry, lambda candidate: find(oracle, candidate, 4) is not None)
    assert len(json.dumps(small)) < 600, f"a finding should be small: {json.dumps(small)}"


def test_equal_seeds_draw_equal_cases() -> None:
    assert list(cases(7, 50)) == list(cases(7, 50))


def test_cases_reach_every_operation_and_most_plugins(answered: list[tuple[dict[str, object], Expect]]) -> None:
    succeeded = [case for case, expect in answered if "error" not in expect]
    assert {case["op"] for case in succeeded} == {"create", "update", "stop"}
    assert len(succeeded) > len(answered) / 3, "too many cases end in an error"
    assert {len(case["plugins"]) for case in succeeded} >= {1, 2, 3, 4, 5}  # type: ignore[arg-type]
