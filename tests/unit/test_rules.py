"""Each rule is off in reference mode, documented and tested."""

from collections import Counter
from dataclasses import fields
from itertools import combinations
from pathlib import Path

from nri.rules import Rules
from tests.support.deviation_rows import PAGES, deviation_rows

REPOSITORY = Path(__file__).parents[2]


def test_every_rule_has_a_row_in_the_documentation() -> None:
    rows = [row.strip("`") for row in deviation_rows() if row.startswith("`")]
    names = [field.name for field in fields(Rules)]
    assert sorted(rows) == sorted(names), f"rows and rules differ in {set(rows) ^ set(names)}"


def test_no_two_differences_have_the_same_text() -> None:
    """A row in the wrong place repeats most words of its neighbour."""
    lines = [line for page in PAGES for line in page.read_text().splitlines()]
    cells = [line.strip("| ").split(" | ")[1:] for line in lines if line.startswith("| ")]
    counter = Counter(pair for row in cells for pair in combinations(row, 2) if len("".join(pair)) > 40)
    assert len(counter) > 200
    assert [pair for pair, times in counter.items() if times > 1] == []


def test_every_rule_is_off_in_the_reference_and_on_by_default() -> None:
    for field in fields(Rules):
        assert getattr(Rules.DEFAULT, field.name) is True
        assert getattr(Rules.REFERENCE, field.name) is False


def test_every_rule_is_named_in_a_test() -> None:
    texts = [path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")]
    unnamed = [field.name for field in fields(Rules) if not any(field.name in text for text in texts)]
    assert not unnamed, f"no test names these rules: {unnamed}"
