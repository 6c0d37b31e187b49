"""What the pages tell a contributor to run and to look into is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/README.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_exist(page: Path) -> None:
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text()))
    named = re.findall(r"(?:`|^    |^\$ )make ([a-z][a-z0-9-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


def test_the_kinds_of_tests_are_the_folders_of_the_tests() -> None:
    sentence = (ROOT / "CONTRIBUTING.md").read_text().partition("The folder says the kind:")[2].partition(".\n")[0]
    there = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/test_*.py")}
    assert sorted(re.findall(r"`([a-z]+)`", sentence)) == sorted(there - {"support"})
