"""Which lines and branches are run: what is told of a file that has too few, and of exceptions that are not needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import covered
from tools.covered import File, complaints


def test_a_file_below_the_bound_is_told_with_what_is_not_run() -> None:
    files = [File("a.py", 100.0, 89.9, "12, 15-17"), File("b.py", 90.0, 90.0, "3")]
    assert complaints(files, 90.0, {}) == ["src/nri/a.py: lines 100 %, branches 90 %; not run: 12, 15-17"]


def test_lines_count_as_branches_do() -> None:
    assert File("a.py", 10.0, 100.0, "").covered == 10.0


def test_an_exception_is_not_told_as_long_as_it_is_needed() -> None:
    assert complaints([File("a.py", 0.0, 100.0, "1-9")], 90.0, {"a.py": "why"}) == []
    assert complaints([File("interfaces.py", 100.0, 100.0, "")], 90.0, {"interfaces.py": "it has no test file"}) == []
    (told,) = complaints([File("stream.py", 95.0, 95.0, "")], 90.0, {"stream.py": "why"})
    assert told == "src/nri/stream.py: it is covered, and needs no exception in pyproject.toml"


def test_a_file_is_read_from_what_coverage_tells() -> None:
    summary = {"covered_lines": 8, "num_statements": 12, "covered_branches": 1, "num_branches": 4}
    row = {"summary": summary, "missing_lines": [3, 4, 5, 9], "missing_branches": [[2, 3], [7, 10], [11, -1]]}
    found = covered.file_of("a.py", row)
    assert (round(found.lines), found.branches) == (67, 25.0)
    assert found.missing == "3-5, 9, 7->10, 11->end", "a branch to a line that is told already says nothing new"


def test_a_file_without_branches_has_all_of_them() -> None:
    summary = {"covered_lines": 0, "num_statements": 0, "covered_branches": 0, "num_branches": 0}
    assert covered.file_of("a.py", {"summary": summary, "missing_lines": [], "missing_branches": []}).covered == 100.0


def test_where_nothing_was_measured_it_says_how_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(covered, "FOLDER", covered.ROOT / "build" / "nothing-here")
    assert covered.main([]) == 2
    assert "python tools/check.py unit faults covered measures" in capsys.readouterr().err
