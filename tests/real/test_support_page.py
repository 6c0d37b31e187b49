"""The documentation equals the tested table."""

from tests.real.support_page import PAGE, page


def test_the_documented_table_equals_the_tested_table() -> None:
    assert PAGE.exists(), f"{PAGE}: missing; run python -m tests.real.support_page --write"
    assert PAGE.read_text() == page(), f"{PAGE.name} differs; run python -m tests.real.support_page --write"
