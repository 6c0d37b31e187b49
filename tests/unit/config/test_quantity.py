"""Kubernetes quantities in configuration."""

from fractions import Fraction

import pytest

from nri.config.quantity import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", Fraction(1, 2)), ("2", 2), (2, 2), ("1.5Gi", 3 << 29), ("10k", 10_000), ("1e3", 1000), ("5Ei", 5 << 60)],
)
def test_a_quantity_is_read_exactly(text: object, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("text", ["", "x", "1 M", "1KB", True, "1e999", "0x10", "nan"])
def test_an_invalid_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a quantity; write, for example"):
        parse(text)


def test_a_long_row_of_digits_is_refused_at_once() -> None:
    """With two ways to read them, a million digits would take hours."""
    with pytest.raises(ValueError, match="is not a quantity") as refused:
        parse("9" * 1_000_000 + "y")
    assert len(str(refused.value)) < 300
