"""The stages that have passed on this commit, so that a long run continues where it was interrupted.

build/passed.json has them for one commit. With uncommitted changes nothing is recorded or used. A stage is identified
by its command line and by whether tools may be missing.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.needs import no_skip

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "build" / "passed.json"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many tests of a stage passed, and the reasons of its skips."""

    passed: int
    skips: Counter[str]


class Passed:
    """The stages that passed on the present commit."""

    def __init__(self, path: Path = RECORD) -> None:
        self._path = path
        self._commit = _commit()
        self._stages: dict[str, dict[str, Any]] = {}
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        if self._commit and record.get("commit") == self._commit:
            self._stages = record["stages"]

    def find(self, command_line: str) -> Counts | None:
        """The counts of a stage that passed; None if it has not passed."""
        entry = self._stages.get(_key(command_line))
        return Counts(entry["passed"], Counter(entry["skips"])) if entry else None

    def keep(self, command_line: str, passed: int, skips: Mapping[str, int]) -> None:
        """Record that a stage passed."""
        self._stages[_key(command_line)] = {"passed": passed, "skips": dict(skips)}
        self._save()

    def forget(self, command_line: str) -> None:
        """Record that a stage failed."""
        if self._stages.pop(_key(command_line), None):
            self._save()

    def _save(self) -> None:
        if self._commit and self._commit == _commit():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"commit": self._commit, "stages": self._stages}, indent=1))


def _key(command_line: str) -> str:
    return f"{'no skips' if no_skip() else 'skips allowed'}: {command_line}"


def _commit() -> str:
    """The checked-out commit; empty with uncommitted changes, or without git."""
    commit, changes = (
        subprocess.run(("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=False)
        for words in (("rev-parse", "HEAD"), ("status", "--porcelain"))
    )
    return "" if commit.returncode or changes.returncode or changes.stdout else commit.stdout.strip()
