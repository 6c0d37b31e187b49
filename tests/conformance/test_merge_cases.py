"""Every recorded merge outcome of the reference comes out the same here, in reference mode."""

from pathlib import Path

import pytest

from nri.testing.conformance import MERGE_OPS, read_cases, run_merge_case

CASES = Path(__file__).parent / "data" / "merge.jsonl.xz"
#: How many there are, so that a file that lost some does not pass.
COUNTS = {"create": 1727, "update": 350, "stop": 169}


@pytest.mark.parametrize("op", sorted(MERGE_OPS))
def test_every_recorded_merge_comes_out_the_same(op: str) -> None:
    cases = [case for case in read_cases(CASES) if case["op"] == op]
    failures = [failure for case in cases if (failure := run_merge_case(case)) is not None]
    assert not failures, f"{len(failures)} of {len(cases)} differ; the first: {failures[0]}"
    assert len(cases) == COUNTS[op]
