"""The command over recorded outcomes of a system: runs the cases of a file and counts those that differ on purpose."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nri.conformance.cases import read_cases

__all__ = ["Result", "main"]

_MOST_SHOWN = 1000


class Result(NamedTuple):
    """The result of one case: passed if both are empty; `wrong` is what came out, `deviation` why that is meant so."""

    wrong: str = ""
    deviation: str = ""


def main(program: str, about: str, system: str, run_case: Callable[[Any], Result], keys: tuple[str, ...]) -> int:
    """Run the cases of a file; return 1 if one came out otherwise than recorded, and no row says why.

    Args:
        program: the package that is run.
        about: what it says of itself.
        system: whose outcomes they are, as the headings of docs/deviations.md have it.
        run_case: runs one.
        keys: what a case must have.
    """

    def wrong(case: object) -> str:
        lacking = [key for key in keys if not isinstance(case, dict) or key not in case]
        return f"it has no {', '.join(lacking)}" if lacking else ""

    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("file", type=Path, help="JSON lines, may be compressed with xz")
    parser.add_argument("--stage", default="", help="only cases whose id begins so")
    arguments = parser.parse_args()
    passed = failed = 0
    apart: Counter[str] = Counter()
    for case in read_cases(arguments.file, wrong):
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
