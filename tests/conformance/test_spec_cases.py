"""In reference mode every spec has the recorded outcome of the reference."""

from pathlib import Path
from typing import Any

import pytest

from nri.conformance.cases import read_cases, run_spec_case

DATA = Path(__file__).parent / "data"
#: Recorded in the manner of real plugins; and drawn at random, with the reference's answers (python -m
#: tests.differential --only spec --write FILE).
FILES = {"spec.jsonl.xz": 585, "spec-drawn.jsonl.xz": 250}


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_spec_has_the_same_outcome(name: str) -> None:
    cases: list[dict[str, Any]] = [case for case in read_cases(DATA / name) if case["op"] == "spec"]
    failures = [failure for case in cases if (failure := run_spec_case(case)) is not None]
    assert not failures, f"{len(failures)} of {len(cases)} differ; the first: {failures[0]}"
    assert len(cases) == FILES[name]
