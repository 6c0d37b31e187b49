"""Recorded outcomes of openEuler's rubik, run through the agent's own hooks and services.

A stage prepares a machine of files, runs the agent's rounds on it, and reads the resulting files; stages that only
compute call the same functions as the services. A case that differs on purpose is counted separately, under its row in
docs/deviations-agent.md, which states the expected outcome. Run them with
`python -m tests.rubik_cases FILE`.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.rubik_cases import evict, frame, limits, turbo
from tests.rubik_cases.deviations import DEVIATIONS, deviation
from tests.rubik_cases.expected import comparable
from tests.rubik_cases.world import Json
from tests.support.case_program import Result, differences

__all__ = ["DEVIATIONS", "run_case", "same"]

_Stage = Callable[[Path, Json, Json], Json]
_ALL: Final = ({"frame": frame.STAGES}, frame.CONFIGS, limits.STAGES, turbo.STAGES, evict.STAGES)
_STAGES: Final[Mapping[tuple[str, str], _Stage]] = {
    (service, name): run for table in _ALL for service, stages in table.items() for name, run in stages.items()
}


def run_case(case: Json) -> Result:
    """Run one case. Any exception is a failure of that case."""
    case_input, expected = copy.deepcopy(case["input"]), comparable(case)
    try:
        with tempfile.TemporaryDirectory(prefix="rubik-") as folder:
            actual = _STAGES[case["service"], case["stage"]](Path(folder), case_input, case["expect"])
        actual = comparable({**case, "expect": actual}, own_rows=True)
    except Exception as error:
        return Result(f"{type(error).__name__}: {error}")
    tolerance = case.get("tolerance") or 0.0
    if _any_of(actual, expected) or same(actual, expected, tolerance):
        return Result()
    for row, stated in deviation(case, expected):
        if same(actual, stated, tolerance):
            return Result(deviation=row)
    return Result(differences(actual, expected))


def _any_of(actual: Json, expected: Json) -> bool:
    """Whether the victim is one of several that the order of a map decides between."""
    if "victim_any_of" not in expected:
        return False
    remaining = {key: value for key, value in expected.items() if key != "victim_any_of"}
    victims = expected["victim_any_of"]
    return actual.get("victim") in victims and actual == {**remaining, "victim": actual["victim"]}


def same(actual: Any, expected: Any, tolerance: float) -> bool:
    """Whether an outcome is the recorded one; numbers within the tolerance, absolute and for greater ones relative."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(same(actual[key], expected[key], tolerance) for key in actual)
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(actual) == len(expected) and all(map(same, actual, expected, [tolerance] * len(actual)))
    if tolerance and isinstance(actual, str) and isinstance(expected, str) and _number(actual) and _number(expected):
        return abs(int(actual) - int(expected)) <= tolerance
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (actual, expected))
    if tolerance and numbers:
        relative = tolerance if tolerance < 1 else 0.0
        return math.isclose(actual, expected, rel_tol=relative, abs_tol=tolerance)
    return bool(actual == expected) or actual is expected


def _number(text: str) -> bool:
    return text.lstrip("-").isdecimal()
