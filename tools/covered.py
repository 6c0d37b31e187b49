"""Which lines and branches of each file the tests run, and whether that is enough: 90 % of either.

    python tools/covered.py run -q tests/unit   pytest with these arguments, measured; forgets what was measured before
    python tools/covered.py add -q tests/faults the same, added to earlier measurements
    python tools/covered.py                     the files below the bound, with what is not run; exit code 1 if any
    python tools/covered.py --all stub          the same of all files whose path has `stub` in it, good or not

Each file is measured separately, so that a good one does not make up for another. The bound, and the files for which it
is not required, each with its reason, are in `pyproject.toml` (`tool.nri.tests`).
`python -m coverage html -d build/coverage/html` shows the same as pages.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import coverage

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "nri"
FOLDER = ROOT / "build" / "coverage"


@dataclass(frozen=True, slots=True)
class File:
    """One file as the tests ran it.

    Attributes:
        path: below src/nri.
        lines, branches: how many of a hundred are run; a file without any has 100.
        missing: what is not run, as `12, 15-17, 20->25`.
    """

    path: str
    lines: float
    branches: float
    missing: str

    @property
    def covered(self) -> float:
        """The worse of both."""
        return min(self.lines, self.branches)


def bound_percent() -> float:
    """The share of lines and branches of each file that must run."""
    return float(_table()["covered_percent"])


def unmeasured() -> dict[str, str]:
    """The files and folders below src/nri for which the bound is not required, with their reasons."""
    return dict(_table()["unmeasured"])


def lies_in(path: str, places: Iterable[str]) -> bool:
    """Whether a file is one of these files or lies in one of these folders; all paths are below src/nri."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _table() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["nri"]["tests"]
    return table


def forget() -> None:
    """Forget what was measured before."""
    shutil.rmtree(FOLDER, ignore_errors=True)


def run(arguments: list[str], *, add: bool) -> NoReturn:
    """Become a pytest with these arguments that is measured."""
    if not add:
        forget()
    FOLDER.mkdir(parents=True, exist_ok=True)
    os.execv(sys.executable, (sys.executable, "-m", "coverage", "run", "-m", "pytest", *arguments))


def measured() -> list[File]:
    """All files of the package, by path. FileNotFoundError if nothing was measured."""
    if not any(FOLDER.glob("data*")):
        raise FileNotFoundError(
            f"{FOLDER.relative_to(ROOT)} holds nothing: python tools/check.py unit faults covered measures"
        )
    data = coverage.Coverage(config_file=str(ROOT / "pyproject.toml"))
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        data.load()  # what was combined before
        data.combine()  # every process of the tests has left a file
        data.save()
        report = Path(folder, "report.json")
        data.json_report(outfile=str(report), include=[f"{SOURCE}/*"], ignore_errors=True)
        report_files = json.loads(report.read_text())["files"]
    left_out = unmeasured()
    rows = {(ROOT / name).relative_to(SOURCE).as_posix(): row for name, row in report_files.items()}
    return [file_of(path, row) for path, row in sorted(rows.items()) if not lies_in(path, left_out)]


def file_of(path: str, row: dict[str, Any]) -> File:
    summary = row["summary"]
    lines = _percent(summary["covered_lines"], summary["num_statements"])
    branches = _percent(summary["covered_branches"], summary["num_branches"])
    missing = _ranges(row["missing_lines"])
    unseen = set(row["missing_lines"])
    missing += [
        f"{start}->{'end' if end < 0 else end}" for start, end in row["missing_branches"] if not {start, end} & unseen
    ]
    return File(path, lines, branches, ", ".join(missing))


def _percent(count: int, total: int) -> float:
    return 100.0 * count / total if total else 100.0


def _ranges(numbers: Iterable[int]) -> list[str]:
    """Numbers as `12` and `15-17`."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return [f"{row[0]}-{row[-1]}" if len(row) > 1 else str(row[0]) for row in rows]


def complaints(files: Iterable[File], bound: float) -> list[str]:
    """A line for each file below the bound."""
    return [
        f"src/nri/{file.path}: lines {file.lines:.0f} %, branches {file.branches:.0f} %; not run: {file.missing}"
        for file in files
        if file.covered < bound
    ]


def main(arguments: list[str]) -> int:
    """Measure, or report."""
    if arguments[:1] in (["run"], ["add"]):
        run(arguments[1:], add=arguments[0] == "add")
    bound = bound_percent()
    try:
        files = measured()
    except FileNotFoundError as error:
        print(f"covered: error: {error}", file=sys.stderr)
        return 2
    if arguments[:1] == ["--all"]:
        for file in files:
            if all(word in file.path for word in arguments[1:]):
                print(f"{file.lines:4.0f} {file.branches:4.0f}  {file.path}  {file.missing}")
        return 0
    lines = complaints(files, bound)
    for line in lines:
        print(line)
    for place, reason in unmeasured().items():
        print(f"not measured: src/nri/{place}: {reason}")
    print(f"{len(files)} files, {len(lines)} below {bound:g} % of their lines or branches")
    return int(bool(lines))


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
