"""Failed tests with real parts, processes or threads run once more, each alone; one that then passes is unsteady.

Rules: tests/conftest.py marks such a test in pytest's report; any other fails for good, because a second run of it
would only hide a defect. Two failures in a row fail the stage. So do more than `MOST` failures: that many are not
chance. An unsteady test counts as passed, and is listed below the table and, with all that its failure said, in
build/unsteady.txt, which only ever grows: each entry is to be mended, not forgotten. Next: `tools/check.py`.
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
#: So many failures of a stage may be chance.
MOST = 5
#: How the report names a test that may run again (tests/conftest.py).
PROPERTY = "may run again"
#: So much of a failure's output is kept, from its end.
_MOST_CHARACTERS = 100_000


@dataclass(frozen=True, slots=True)
class Failure:
    """A test that has failed; `test` is its name for pytest if it may run again, else empty."""

    test: str
    said: str


def failures(report: Path) -> list[Failure]:
    """The failed tests of pytest's XML report. A test that fails and cannot clean up either is one."""
    cases: dict[tuple[str | None, str | None], list[ET.Element]] = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        cases[case.get("classname"), case.get("name")].append(case)
    return [_failure(same) for same in cases.values() if any(_broken(case) for case in same)]


def _broken(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


def _failure(cases: Sequence[ET.Element]) -> Failure:
    parts = [part for case in cases for part in case if part.tag in ("failure", "error", "system-out", "system-err")]
    names = [each.get("value", "") for case in cases for each in case.iter("property") if each.get("name") == PROPERTY]
    return Failure(names[0] if names else "", "\n".join(part.text or "" for part in parts))


def try_again(failed: Sequence[Failure], run: Callable[[str], bool]) -> list[Failure]:
    """Those that pass when they run alone; `run` runs one by its name."""
    return [each for each in failed if each.test and run(each.test)] if len(failed) <= MOST else []


def record(stage: str, unsteady: Sequence[Failure]) -> None:
    """Add them to the file."""
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    when, argv = time.strftime("%Y-%m-%d %H:%M:%S"), ("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    commit = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    with RECORD.open("a", encoding="utf-8") as file:
        for each in unsteady:
            file.write(f"=== {each.test}\n{when}, stage {stage}, commit {commit}\n\n")
            file.write(each.said[-_MOST_CHARACTERS:] + "\n")
