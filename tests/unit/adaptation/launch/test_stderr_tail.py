"""The last lines of a plugin's stderr."""

from __future__ import annotations

from nri.adaptation.launch.stderr_tail import MAX_LINE_BYTES, MAX_LINES, StderrTail


def test_the_last_lines_and_an_unfinished_line_are_kept() -> None:
    words = StderrTail()
    for number in range(2 * MAX_LINES):
        words.add(b"line %d\n" % number)
    words.add(b"and")
    words.add(b" so on")
    parts = words.text.split("\n")
    assert parts[-2:] == [f"line {2 * MAX_LINES - 1}", "and so on"]
    assert len(parts) == MAX_LINES + 1


def test_a_long_line_is_shortened_and_ends_with_dots() -> None:
    words = StderrTail()
    words.add(b"x" * 10 * MAX_LINE_BYTES)
    assert words.text == "x" * (MAX_LINE_BYTES - 3) + "..."


def test_control_characters_are_escaped() -> None:
    words = StderrTail()
    words.add(b"\x1b[31mred\n\xff\n")
    assert words.text == "\\x1b[31mred\n�"
