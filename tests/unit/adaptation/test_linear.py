"""Work is linear in its input: calls are counted for one size and for its double.

What a call costs inside C is not seen here: `python -m bench.linear` measures the same cases in processor time.
"""

from __future__ import annotations

import logging

import pytest

from tests.support.calls import calls
from tests.support.growing import creations, placements, records, services, texts, traces, updates
from tests.support.growing.big import Case

CASES = {
    **creations.CASES, **updates.CASES, **records.CASES, **services.CASES, **texts.CASES, **traces.CASES,
    **placements.CASES,
}  # fmt: skip
SIZE = 200


@pytest.mark.parametrize("name", CASES)
def test_double_input_needs_double_work(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    case: Case = CASES[name]
    case(SIZE)()  # imports
    entry, twice = calls(case(SIZE)), calls(case(2 * SIZE))
    assert twice <= 2.2 * entry + 200, f"{entry} calls, then {twice}"
