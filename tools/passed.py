"""The stages that have passed on this very commit, so that a long run goes on where it was interrupted.

Rules: kept in build/passed.json, of one commit at a time; with uncommitted changes nothing is kept or found. A stage is
known by its whole command and by whether tools may be missing. Next: `tools/lanes.py`, which runs stages.
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
    """How many tests of a stage passed, and which were skipped."""

    passed: int
    skips: Counter[str]


class Passed:
    """The commands of stages that passed on the present commit."""

    def __init__(self, path: Path = RECORD) -> None:
        self._path = path
        self._commit = _commit()
        self._stages: dict[str, dict[str, Any]] = {}
        try:
            kept = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        if self._commit and kept.get("commit") == self._commit:
            self._stages = kept["stages"]

    def find(self, command: str) -> Counts | None:
        """What the command came to; None if it has not passed."""
        kept = self._stages.get(_key(command))
        return Counts(kept["passed"], Counter(kept["skips"])) if kept else None

    def keep(self, command: str, passed: int, skips: Mapping[str, int]) -> None:
        """Note that a command has passed."""
        self._stages[_key(command)] = {"passed": passed, "skips": dict(skips)}
        self._save()

    def forget(self, command: str) -> None:
        """Note that a command has failed."""
        if self._stages.pop(_key(command), None):
            self._save()

    def _save(self) -> None:
        if self._commit and self._commit == _commit():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps({"commit": self._commit, "stages": self._stages}, indent=1))


def _key(command: str) -> str:
    return f"{'no skips' if no_skip() else 'skips allowed'}: {command}"


def _commit() -> str:
    """The commit that is checked out; empty with changes beside it, or where there is no git."""
    commit, changes = (
        subprocess.run(("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=False)
        for words in (("rev-parse", "HEAD"), ("status", "--porcelain"))
    )
    return "" if commit.returncode or changes.returncode or changes.stdout else commit.stdout.strip()
