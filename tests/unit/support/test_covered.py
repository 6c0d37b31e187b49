"""Coverage of each file: what is reported for a file below the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import covered
from tools.covered import File, complaints


def test_a_file_below_the_bound_is_reported_with_its_missing_lines() -> None:
    files = [File("a.py", 100.0, 89.9, "12, 15-17"), File("b.py", 90.0, 90.0, "3")]
    assert complaints(files, 90.0) == ["src/nri/a.py: lines 100 %, branches 90 %; not run: 12, 15-17"]


def test_coverage_is_the_smaller_share_of_lines_and_branches() -> None:
    assert File("a.py", 10.0, 100.0, "").covered == 10.0


def test_a_row_covers_a_file_or_a_folder() -> None:
    assert covered.lies_in("interfaces.py", ["engine", "interfaces.py"])
    assert covered.lies_in("engine/state/store.py", ["engine"])
    assert not covered.lies_in("engines.py", ["engine"])


def test_a_file_is_read_from_the_coverage_report() -> None:
    summary = {"covered_lines": 8, "num_statements": 12, "covered_branches": 1, "num_branches": 4}
    row = {"summary": summary, "missing_lines": [3, 4, 5, 9], "missing_branches": [[2, 3], [7, 10], [11, -1]]}
    file = covered.file_of("a.py", row)
    assert (round(file.lines), file.branches) == (67, 25.0)
    assert file.missing == "3-5, 9, 7->10, 11->end", "a branch to a missing line is not reported again"


def test_a_file_without_branches_has_full_branch_coverage() -> None:
    summary = {"covered_lines": 0, "num_statements": 0, "covered_branches": 0, "num_branches": 0}
    assert covered.file_of("a.py", {"summary": summary, "missing_lines": [], "missing_branches": []}).covered == 100.0


def test_without_a_measurement_the_error_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(covered, "FOLDER", covered.ROOT / "build" / "nothing-here")
    assert covered.main([]) == 2
    assert "python tools/check.py unit faults covered measures" in capsys.readouterr().err
