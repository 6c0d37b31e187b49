"""Foreign texts become one short line without control characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri.errors import Conflict, UpdateError
from nri.text import LINE_LENGTH, count, cut, escape, lines, nearest, plain, quote, size

_ANY = st.text(st.characters())  # halves of surrogates, too


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-1 (grün) 日本", "web-1 (grün) 日本"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\a"),
        ("\x7f\x9b31m\x00", "\\x7f\\u009b31m\\x00"),
        ("one\u2028two\u2029three\x85", "one\\u2028two\\u2029three\\u0085"),
        ("gnp\u202e.exe\u2066\u200f\ufeff", "gnp\\u202e.exe\\u2066\\u200f\\ufeff"),
        ("\udcff", "\\udcff"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert escape(text) == plain(text) == shown


@given(_ANY, st.integers(40, 80))
def test_plain_text_is_printable_short_and_stable(text: str, length: int) -> None:
    entry = plain(text, length)
    assert entry.isprintable()
    assert len(entry) <= length
    assert plain(entry, length) == entry
    entry.encode()


def test_a_long_text_is_cut_and_shows_its_length() -> None:
    shown = plain("x" * 4_000_000)
    assert len(shown) == LINE_LENGTH
    assert shown.startswith("xxx")
    assert shown.endswith("... (cut: 4000000 characters)")
    assert cut("x" * 4_000_000) == shown
    assert cut("x" * LINE_LENGTH) == "x" * LINE_LENGTH


def test_escaped_text_stays_within_the_limit() -> None:
    shown = plain("\x1b" * 1000)
    assert len(shown) == LINE_LENGTH
    assert shown.endswith("... (cut: 1000 characters)")


def test_newlines_are_kept_and_each_line_is_escaped() -> None:
    assert lines("one\x1b[2J\ntwo\rthree") == "one\\x1b[2J\ntwo\\rthree"


@pytest.mark.parametrize(
    ("text", "quoted"), [("web", '"web"'), ('a"b\\', '"a\\"b\\\\"'), ("a\nb\u202e", '"a\\nb\\u202e"')]
)
def test_quoting_equals_the_references(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_an_error_contains_only_the_start_of_long_keys_and_ids() -> None:
    long = "k" * (2 << 20)
    assert len(str(Conflict("c", 1, "Annotations", long, "10-a", "20-b"))) < 2 * LINE_LENGTH
    assert len(str(UpdateError("10-a", long, "it is not there"))) < 2 * LINE_LENGTH


def test_sizes_are_short() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 12 << 30: "12 GiB", -(3 << 30): "-3 GiB", 1 << 70: "1024 EiB"}
    assert {number: size(number) for number in sizes} == sizes


def test_the_count_one_is_singular() -> None:
    assert [count(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]


@pytest.mark.parametrize(
    ("name", "suggestion", "foreign_suggestion"),
    [
        ("Cpu_Set", "cpu-set", "cpu-set"),
        ("memory-limt", "memory-limit", "memory-limit"),
        ("memory-list", "memory-limit", ""),
        ("memory", "memory-limit", ""),
        ("network", "", ""),
        ("", "", ""),
        ("memory-limit" * 100_000, "", ""),
    ],
)
def test_the_most_similar_name_is_suggested(name: str, suggestion: str, foreign_suggestion: str) -> None:
    choices = ("memory-limit", "cpu-set")
    assert nearest(name, choices) == suggestion
    assert nearest(name, choices, may_be_foreign=True) == foreign_suggestion
