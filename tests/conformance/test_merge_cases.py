"""In reference mode every merge has the recorded outcome of the reference."""

from pathlib import Path
from typing import Any

import pytest

from nri.conformance.cases import MERGE_OPS, read_cases, run_merge_case

DATA = Path(__file__).parent / "data"
CASES = DATA / "merge.jsonl.xz"
#: Small ones with a name: what surprises about the reference, and what comparing random cases has found.
REGRESSIONS = DATA / "regressions.jsonl"
#: How many there are, so that a file that lost some does not pass.
COUNTS = {"create": 1727, "update": 350, "stop": 169}


@pytest.mark.parametrize("op", sorted(MERGE_OPS))
def test_every_recorded_merge_has_the_same_outcome(op: str) -> None:
    cases = [case for case in read_cases(CASES) if case["op"] == op]
    failures = [failure for case in cases if (failure := run_merge_case(case)) is not None]
    assert not failures, f"{len(failures)} of {len(cases)} differ; the first: {failures[0]}"
    assert len(cases) == COUNTS[op]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in read_cases(REGRESSIONS)])
def test_surprising_cases_have_the_outcome_of_the_reference(case: dict[str, Any]) -> None:
    assert (failure := run_merge_case(case)) is None, str(failure)
