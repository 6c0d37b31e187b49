"""Work grows with its input and not with its square: calls are counted, of a size and of twice that, not time.

What a call costs inside C is not seen here: `python -m bench.linear` measures the same cases in processor time.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.growing import creations, records, services, texts, traces, updates
from tests.support.growing.big import Case

CASES = {
    **creations.CASES, **updates.CASES, **records.CASES, **services.CASES, **texts.CASES, **traces.CASES,
}  # fmt: skip
SIZE = 200


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's."""
    count = 0

    def count_call(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", CASES)
def test_twice_the_input_is_twice_the_work(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    case: Case = CASES[name]
    case(SIZE)()  # imports
    once, twice = calls(case(SIZE)), calls(case(2 * SIZE))
    assert twice <= 2.2 * once + 200, f"{once} calls, then {twice}"
