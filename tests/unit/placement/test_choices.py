"""Each choice is off in reference mode, documented, used and tested."""

from dataclasses import fields
from pathlib import Path

from nri.placement.choices import Choices
from tests.support.deviation_rows import deviation_rows

ROOT = Path(__file__).parents[3]


def test_every_choice_has_a_row_in_the_deviations() -> None:
    rows = [row for row in deviation_rows("nri-plugins") if row.startswith("`")]
    assert sorted(rows) == sorted(f"`{choice.name}`" for choice in fields(Choices))


def test_every_choice_is_off_in_the_reference_and_on_by_default() -> None:
    assert not any(getattr(Choices.REFERENCE, choice.name) for choice in fields(Choices))
    assert all(getattr(Choices.DEFAULT, choice.name) for choice in fields(Choices))


def test_every_choice_is_used_and_named_in_a_test() -> None:
    source = "".join(path.read_text() for path in (ROOT / "src" / "nri").rglob("*.py") if path.name != "choices.py")
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for choice in fields(Choices):
        assert f"choices.{choice.name}" in source, choice.name
        assert choice.name in tests, choice.name
