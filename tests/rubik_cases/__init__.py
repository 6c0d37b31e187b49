"""Recorded outcomes of openEuler's rubik, run against the decisions of this project.

A case that comes out otherwise for a reason is counted apart, under the name of its row in docs/deviations.md. Run them
with `python -m tests.rubik_cases FILE`. Next: `tests.rubik_cases.frame`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.rubik_cases import evict, frame, limits, turbo
from tests.rubik_cases.deviations import DEVIATIONS, deviation
from tests.strategy_cases.tree import differences
from tests.support.case_program import Result

__all__ = ["DEVIATIONS", "run_case"]

Json = dict[str, Any]
_ALL: Final = ({"frame": frame.STAGES}, frame.CONFIGS, limits.STAGES, turbo.STAGES, evict.STAGES)
_STAGES: Final[Mapping[tuple[str, str], Callable[[Json], Json]]] = {
    (service, name): run for table in _ALL for service, stages in table.items() for name, run in stages.items()
}


def run_case(case: Json) -> Result:
    """Run one case. Any exception is a failure of that case."""
    given, expected = copy.deepcopy(case), case["expect"]
    run = _STAGES.get((case["service"], case["stage"]), _nothing)
    try:
        found = run(given["input"])
    except Exception as error:
        return Result(f"{type(error).__name__}: {error}")
    if "victim_any_of" in expected and found.get("victim") in expected["victim_any_of"]:
        expected = {
            **{key: value for key, value in expected.items() if key != "victim_any_of"},
            "victim": found["victim"],
        }
    if _same(found, expected, given.get("tolerance") or 0.0):
        return Result()
    try:
        row = deviation(case, found)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        row = ""  # an outcome of another form is none that a row is known by
    return Result(deviation=row) if row else Result(differences(found, expected))


def _nothing(given: Json) -> Json:
    """A stage that there is none of here."""
    return {}


def _same(found: Any, expected: Any, tolerance: float) -> bool:
    """Whether an outcome is the recorded one; numbers within the tolerance, absolute and for greater ones relative."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_same(found[key], expected[key], tolerance) for key in found)
    if isinstance(found, (list, tuple)) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected, [tolerance] * len(found)))
    if tolerance and isinstance(found, str) and isinstance(expected, str) and _number(found) and _number(expected):
        return abs(int(found) - int(expected)) <= tolerance
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (found, expected))
    if tolerance and numbers:
        relative = tolerance if tolerance < 1 else 0.0
        return math.isclose(found, expected, rel_tol=relative, abs_tol=tolerance)
    return bool(found == expected) or found is expected


def _number(text: str) -> bool:
    return text.lstrip("-").isdecimal()
