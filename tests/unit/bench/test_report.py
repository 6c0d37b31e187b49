"""Insertion of results into the page of benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import report


def test_a_text_replaces_the_part_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "HERE", tmp_path)
    page = tmp_path / "RESULTS.md"
    page.write_text("a\n<!-- modes -->\nold\n<!-- end of modes -->\nb\n")
    report.put("modes", "new")
    assert page.read_text() == "a\n<!-- modes -->\nnew\n<!-- end of modes -->\nb\n"
    with pytest.raises(ValueError, match="no <!-- other -->"):
        report.put("other", "text")


def test_the_page_has_the_marks_of_every_benchmark() -> None:
    page = (report.HERE / "RESULTS.md").read_text()
    for name in ("apiserver", "engine", "modes"):
        assert page.count(f"<!-- {name} -->") == page.count(f"<!-- end of {name} -->") == 1
