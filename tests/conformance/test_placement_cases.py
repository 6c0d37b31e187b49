"""Recorded placements of nri-plugins: equal in reference mode, and different by default only for named choices."""

import pytest

from nri.placement.recorded.cases import run_file
from tests.support.placement import DATA

#: Pure computing, 20 s of a core that nobody else uses.
pytestmark = pytest.mark.timeout(900)

FILES = ("placement.json.xz", "placement-sequences.jsonl.xz")
#: Choices that give some cases a different outcome by default; each has a row in the deviations.
ON_PURPOSE = {
    "placement.json.xz": {"composites_keep_their_least", "memory_follows_cpus"},
    "placement-sequences.jsonl.xz": {
        "balloons_follow_resizes",
        "balloons_keep_their_limit",
        "failure_changes_nothing",
        "freed_cpus_are_shared",
        "memory_follows_cpus",
    },
}
COUNTS = {"placement.json.xz": (76, 6), "placement-sequences.jsonl.xz": (449, 96)}


@pytest.mark.parametrize("name", FILES)
def test_in_reference_mode_every_placement_is_equal(name: str) -> None:
    outcomes = list(run_file(DATA / name, reference=True))
    assert [str(outcome) for outcome in outcomes if outcome.differences] == []
    assert len(outcomes) == COUNTS[name][0]


@pytest.mark.parametrize("name", FILES)
def test_by_default_every_difference_has_a_named_choice(name: str) -> None:
    differing = [outcome for outcome in run_file(DATA / name) if outcome.differences]
    assert [str(outcome) for outcome in differing if not outcome.choices] == []
    assert {choice for outcome in differing for choice in outcome.choices} == ON_PURPOSE[name]
    assert len(differing) == COUNTS[name][1]
