"""Cases of the parts of placement without snapshots."""

import pytest

from nri.config.json_lines import read_json_lines
from nri.placement.choices import Choices
from nri.placement.recorded.machines import Machines
from nri.placement.recorded.parts import RUNNERS
from tests.support.placement import DATA

WHOLE = next(read_json_lines(DATA / "placement.json.xz", lambda _case: ""))
MACHINES = Machines(WHOLE["topologies"], DATA)


@pytest.mark.parametrize("group", RUNNERS)
def test_the_recorded_cases_of_a_part_pass(group: str) -> None:
    listed = WHOLE[group] if isinstance(WHOLE[group], list) else [WHOLE[group]]
    for case in listed:
        assert list(RUNNERS[group](case, MACHINES, Choices.DEFAULT)) == []


def test_a_different_outcome_is_reported_as_a_line() -> None:
    case = {"cases": [{"fn": "cpu-hint", "hint_cpus": "1", "pool_cpus": "1", "score": 0.5}]}
    assert list(RUNNERS["hint_score_cases"](case, MACHINES, Choices.DEFAULT)) == ["hint 0: expected 0.5, got 1.0"]
