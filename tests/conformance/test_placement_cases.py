"""Every recorded placement of nri-plugins is the same in reference mode, and by default but for named choices."""

import pytest

from nri.placement.recorded.cases import run_file
from tests.support.placement import DATA

#: Pure computing, 20 s of a core that nobody else uses.
pytestmark = pytest.mark.timeout(900)

FILES = ("placement.json.xz", "placement-sequences.jsonl.xz")
#: Cases that come out otherwise by default, by the choices that make the difference; each has a row in deviations.
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
def test_all_are_exact_in_reference_mode(name: str) -> None:
    outcomes = list(run_file(DATA / name, reference=True))
    assert [str(outcome) for outcome in outcomes if outcome.differences] == []
    assert len(outcomes) == COUNTS[name][0]


@pytest.mark.parametrize("name", FILES)
def test_by_default_what_differs_does_so_on_purpose(name: str) -> None:
    differing = [outcome for outcome in run_file(DATA / name) if outcome.differences]
    assert [str(outcome) for outcome in differing if not outcome.choices] == []
    assert {choice for outcome in differing for choice in outcome.choices} == ON_PURPOSE[name]
    assert len(differing) == COUNTS[name][1]
