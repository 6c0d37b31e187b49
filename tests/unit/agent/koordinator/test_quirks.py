"""Deviations from the original: each is off in reference mode, and documented."""

from dataclasses import fields
from pathlib import Path

from nri.agent.koordinator.quirks import Quirks
from tests.support.deviation_rows import deviation_rows


def test_every_quirk_is_a_row_of_the_deviations() -> None:
    rows = [row for row in deviation_rows("Koordinator") if row.startswith("`")]
    assert sorted(rows) == sorted(f"`{field.name}`" for field in fields(Quirks))


def test_every_quirk_is_off_in_the_reference_and_on_by_default() -> None:
    assert not any(getattr(Quirks.REFERENCE, field.name) for field in fields(Quirks))
    assert all(getattr(Quirks.DEFAULT, field.name) for field in fields(Quirks))


def test_every_quirk_is_used_and_named_by_a_test() -> None:
    root = Path(__file__).parents[4]
    source = "".join(path.read_text() for path in (root / "src" / "nri").rglob("*.py") if path.name != "quirks.py")
    tests = "".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    for field in fields(Quirks):
        assert f"quirks.{field.name}" in source, field.name
        assert field.name in tests, field.name
