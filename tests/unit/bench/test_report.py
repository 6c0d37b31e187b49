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


def test_the_table_of_goals_has_the_figures_of_an_older_revision() -> None:
    document = report.Document(1, "1234567")
    names = ("nri plugin", "old nri plugin", "Go plugin")
    document.memory({f"{name}, idle": [float(kb)] for name, kb in zip(names, (200, 300, 100), strict=True)})
    head, _, row = (line.split("|") for line in document.goals().splitlines()[2:5])
    cells = {title.strip(): cell.strip() for title, cell in zip(head, row, strict=True)}
    assert cells["measured (middle half)"] == "2.00 (2.00-2.00)"
    assert (cells["old"], cells["pure Python"]) == ("3.00", "")
