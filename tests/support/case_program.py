"""The command over recorded outcomes of a system: runs the cases of a file and counts those that differ on purpose."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nri.config.json_lines import read_json_lines

__all__ = ["Result", "differences", "main"]

_MOST_SHOWN = 1000
_ABSENT = "absent"


class Result(NamedTuple):
    """The result of one case, passed if both are empty: `wrong` is the difference, `deviation` its row."""

    wrong: str = ""
    deviation: str = ""


def main(program: str, about: str, system: str, run_case: Callable[[Any], Result], keys: tuple[str, ...]) -> int:
    """Run the cases of a file; return 1 if an outcome differs from the recorded one and no row explains it.

    Args:
        program: the name of the package, for --help.
        about: the description of the program, for --help.
        system: the name of the recorded system, as in the headings of docs/deviations-agent.md.
        run_case: runs one case.
        keys: the keys that a case must have.
    """

    def wrong(case: object) -> str:
        missing_keys = [key for key in keys if not isinstance(case, dict) or key not in case]
        return f"it has no {', '.join(missing_keys)}" if missing_keys else ""

    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("file", type=Path, help="JSON lines, may be compressed with xz")
    parser.add_argument("--stage", default="", help="only cases whose id begins so")
    arguments = parser.parse_args()
    passed = failed = 0
    apart: Counter[str] = Counter()
    for case in read_json_lines(arguments.file, wrong):
        if not case["id"].startswith(arguments.stage):
            continue
        result = run_case(case)
        passed += not (result.wrong or result.deviation)
        if result.wrong:
            failed += 1
            print(f"FAILED {case['id']}: {result.wrong}"[:_MOST_SHOWN])
        elif result.deviation:
            apart[result.deviation] += 1
    for name, count in sorted(apart.items()):
        print(f"{count} differ on purpose: {system}, {name}")
    print(f"{passed} passed, {failed} failed, {sum(apart.values())} differ on purpose")
    return 1 if failed else 0


def differences(outcome: Any, expected: Any) -> str:
    """Name each place where an outcome differs from the expected one."""
    return "; ".join(_differences(outcome, expected, ""))


def _differences(outcome: Any, expected: Any, place: str) -> Iterator[str]:
    if isinstance(outcome, dict) and isinstance(expected, dict):
        for key in sorted({*outcome, *expected}):
            if outcome.get(key, _ABSENT) != expected.get(key, _ABSENT):
                yield from _differences(outcome.get(key, _ABSENT), expected.get(key, _ABSENT), f"{place}/{key}")
    elif isinstance(outcome, list) and isinstance(expected, list) and len(outcome) == len(expected):
        for number, (one, other) in enumerate(zip(outcome, expected, strict=True)):
            if one != other:
                yield from _differences(one, other, f"{place}[{number}]")
    else:
        yield f"{place} is {outcome!r}, expected is {expected!r}"
