"""The end of what a plugin wrote."""

from __future__ import annotations

from nri.adaptation.launch.stderr_tail import MAX_LINE_BYTES, MAX_LINES, StderrTail


def test_the_last_lines_are_kept_and_the_one_that_has_no_end() -> None:
    words = StderrTail()
    for number in range(2 * MAX_LINES):
        words.add(b"line %d\n" % number)
    words.add(b"and")
    words.add(b" so on")
    parts = words.text.split("\n")
    assert parts[-2:] == [f"line {2 * MAX_LINES - 1}", "and so on"]
    assert len(parts) == MAX_LINES + 1


def test_a_long_line_is_cut_and_shows_it() -> None:
    words = StderrTail()
    words.add(b"x" * 10 * MAX_LINE_BYTES)
    assert words.text == "x" * (MAX_LINE_BYTES - 3) + "..."


def test_what_steers_a_terminal_is_escaped() -> None:
    words = StderrTail()
    words.add(b"\x1b[31mred\n\xff\n")
    assert words.text == "\\x1b[31mred\n�"
