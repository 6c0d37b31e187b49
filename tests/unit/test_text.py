"""Texts of others are cut where they come in, and say so."""

from nri.errors import Conflict, UpdateError
from nri.text import LINE_LENGTH, cut


def test_a_short_text_stays_as_it_is() -> None:
    assert cut("x" * LINE_LENGTH) == "x" * LINE_LENGTH
    assert cut("abc", 3) == "abc"


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    text = cut("x" * (4 << 20))
    assert text.endswith("xxx... (cut: 4194304 characters)")
    assert len(text) == LINE_LENGTH
    assert cut(text) == text


def test_an_error_never_holds_a_whole_key_or_id_of_a_plugin() -> None:
    long = "k" * (2 << 20)
    assert len(str(Conflict("c", 1, "Annotations", long, "10-a", "20-b"))) < 2 * LINE_LENGTH
    assert len(str(UpdateError("10-a", long, "it is not there"))) < 2 * LINE_LENGTH
