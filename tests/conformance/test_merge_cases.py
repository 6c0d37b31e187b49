"""Every recorded merge outcome of the reference comes out the same here, in reference mode."""

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
def test_every_recorded_merge_comes_out_the_same(op: str) -> None:
    cases = [case for case in read_cases(CASES) if case["op"] == op]
    failures = [failure for case in cases if (failure := run_merge_case(case)) is not None]
    assert not failures, f"{len(failures)} of {len(cases)} differ; the first: {failures[0]}"
    assert len(cases) == COUNTS[op]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in read_cases(REGRESSIONS)])
def test_what_surprised_once_comes_out_as_in_the_reference(case: dict[str, Any]) -> None:
    assert (failure := run_merge_case(case)) is None, str(failure)
