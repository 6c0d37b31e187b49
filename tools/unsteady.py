"""Unsteady tests: tests with real parts, processes or threads that failed, and then passed alone.

tests/conftest.py marks the tests that may run again in pytest's report; a second run of any other test would hide a
defect. An unsteady test counts as passed. It is listed below the table and, with its output, in build/unsteady.txt;
each entry is a fault to fix.
"""

from __future__ import annotations

import subprocess
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "build" / "unsteady.txt"
#: With more failures in a stage, none of them runs again: they are not chance.
MAX_RERUNS = 5
#: The property in the report of a test that may run again (tests/conftest.py).
PROPERTY = "may run again"
_MAX_OUTPUT_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed test; `test` is its name for pytest if it may run again, else empty."""

    test: str
    output: str


def failures(report: Path) -> list[Failure]:
    """The failed tests of pytest's XML report. A test whose teardown fails too is one failure."""
    cases: dict[tuple[str | None, str | None], list[ET.Element]] = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        cases[case.get("classname"), case.get("name")].append(case)
    return [_failure(same_test) for same_test in cases.values() if any(map(_is_broken, same_test))]


def _is_broken(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _failure(cases: Sequence[ET.Element]) -> Failure:
    parts = [part for case in cases for part in case if part.tag in ("failure", "error", "system-out", "system-err")]
    names = [tag.get("value", "") for case in cases for tag in case.iter("property") if tag.get("name") == PROPERTY]
    return Failure(names[0] if names else "", "\n".join(part.text or "" for part in parts))


def run_again(failed: Sequence[Failure], run: Callable[[str], bool]) -> list[Failure]:
    """The failures whose tests pass alone; `run` runs the test of a name and returns whether it passed."""
    return [failure for failure in failed if failure.test and run(failure.test)] if len(failed) <= MAX_RERUNS else []


def record(stage: str, unsteady: Sequence[Failure]) -> None:
    """Append the failures of unsteady tests to the record."""
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    date, argv = time.strftime("%Y-%m-%d %H:%M:%S"), ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    commit = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    with RECORD.open("a", encoding="utf-8") as file:
        for failure in unsteady:
            file.write(f"=== {failure.test}\n{date}, stage {stage}, commit {commit}\n\n")
            file.write(failure.output[-_MAX_OUTPUT_CHARACTERS:] + "\n")
