"""Tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

import pytest
import yaml

from nri.cli import output as printing
from nri.cli.errors import report
from nri.cli.output import Column, Output, PaintedText, age, cell, readable
from nri.cli.settings import Settings

COLUMNS = [Column("ID", "id", 4, mark=False), Column("NAME", "name"), Column("TAGS", "tags")]
ROWS = [{"id": "0123456789", "name": "web", "tags": ["a", "b"]}, {"id": "abc", "name": "", "tags": None}]


def output(**argument: object) -> Output:
    settings = Settings()
    for name, value in argument.items():
        setattr(settings, name, value)
    return Output(settings)


def test_a_table_cuts_ids_joins_lists_and_shows_a_dash_for_none(capsys: pytest.CaptureFixture[str]) -> None:
    output().table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "ID    NAME  TAGS\n0123  web   a,b\nabc   -     -\n"


def test_json_has_complete_ids(capsys: pytest.CaptureFixture[str]) -> None:
    output(output="json").table(COLUMNS, ROWS)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_quiet_prints_only_the_first_column_uncut(capsys: pytest.CaptureFixture[str]) -> None:
    output(quiet=True).table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "0123456789\nabc\n"


def test_an_empty_table_has_its_heading_and_empty_json_is_a_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output().table(COLUMNS, [])
    assert capsys.readouterr().out == "ID  NAME  TAGS\n"
    output(output="json").table(COLUMNS, [])
    assert json.loads(capsys.readouterr().out) == []


def test_streamed_values_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    out = output(output="json")
    out.stream({"a": "x\ny"})
    out.stream({"b": 2})
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"a": "x\ny"}, {"b": 2}]


def test_control_characters_of_names_are_escaped() -> None:
    assert cell("a\x1b]0;title\x07") == "a\\x1b]0;title\\a"


ODD = "a\x1b[2J\nb\x7f\x9b\u202e\u2028\U000e0041"


def test_printed_texts_are_escaped_and_colours_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    out = output(color="always")
    out.text(ODD, PaintedText(ODD, "red"))
    out.names([ODD])
    out.table([Column("A", "a")], [{"a": ODD}])
    out.note(ODD)
    captured = capsys.readouterr()
    shown = "a\\x1b[2J\\nb\\x7f\\u009b\\u202e\\u2028\\U000e0041"
    assert captured.out == f"{shown}\x1b[31m{shown}\x1b[0m\n{shown}\n\x1b[1mA\x1b[0m\n{shown}\n"
    assert captured.err == f"{shown}\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_are_exact_and_printable(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = output(output=form)
    out.document({ODD: [ODD, "grün"]})
    out.stream({ODD: ODD})
    text = capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    if form == "json":
        full, line = text.rsplit("\n", 2)[:2]
        assert (json.loads(full), json.loads(line)) == ({ODD: [ODD, "grün"]}, {ODD: ODD})
        assert "grün" in text
    else:
        assert list(yaml.safe_load_all(text)) == [{ODD: [ODD, "grün"]}, {ODD: ODD}]


def test_notes_go_to_standard_error_unless_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    output().note("hello")
    output(quiet=True).note("hello")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_cut_cells_end_with_dots_unless_a_prefix_suffices() -> None:
    assert [cell("0123456789", cut) for cut in (0, 10, 9)] == ["0123456789", "0123456789", "012345..."]
    assert cell("0123456789", 4, mark=False) == "0123"


@pytest.mark.parametrize(
    ("terminal", "wide", "line"),
    [(True, False, "a  bbbbbbb..."), (True, True, "a  bbbbbbbbbbbbbbbb"), (False, False, "a  bbbbbbbbbbbbbbbb")],
)
def test_tables_are_cut_to_the_terminal_width_unless_wide(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool, wide: bool, line: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "13")
    settings = Settings()
    settings.wide, settings.color = wide, "never"
    Output(settings).table([Column("A", "a"), Column("B", "b")], [{"a": "a", "b": "b" * 16}])
    assert capsys.readouterr().out.splitlines() == ["A  B", line]


def test_wide_tables_have_complete_texts_and_short_ids(capsys: pytest.CaptureFixture[str]) -> None:
    columns, row = [Column("ID", "id", 4, mark=False), Column("TEXT", "text", 9)], {"id": "0" * 20, "text": "x" * 20}
    for wide in (False, True):
        output(wide=wide).table(columns, [row])
    assert capsys.readouterr().out.splitlines()[1::2] == ["0000  xxxxxx...", f"0000  {'x' * 20}"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (0, [("letters", 25), ("\u4e2d\u6587" * 8, 0), ("e\u0301" * 16, 16), ("\uff21" * 9, 14)]),
        (15, [("letters", 5), ("\u4e2d\u6587" * 2 + "...", 1), ("e\u0301" * 9 + "...", 0), ("\uff21" * 4 + "...", 1)]),
    ],
)
def test_columns_are_aligned_for_wide_characters(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    columns: int,
    expected: list[tuple[str, int]],
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: columns > 0)
    monkeypatch.setenv("COLUMNS", str(columns or 80))
    words = ["letters", "\u4e2d\u6587" * 8, "e\u0301" * 16, "\uff21" * 9]
    output(color="never").table([Column("TEXT", "text"), Column("N", "n")], [{"text": word, "n": 7} for word in words])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [f"{text}{' ' * blanks}  7" for text, blanks in expected]
    output().pairs({"\u4e2d": "one", "name": "two"})
    assert capsys.readouterr().out == "\u4e2d    one\nname  two\n"


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (51, ["A     B                     C                     D", f"name  {'b' * 20}  {'c' * 20}  4"]),
        (47, ["A     B                   C                   D", f"name  {'b' * 15}...  {'c' * 15}...  4"]),
        (35, ["A     B             C             D", f"name  {'b' * 9}...  {'c' * 9}...  4"]),
        (30, ["A     B          C          D", f"name  {'b' * 6}...  {'c' * 6}...  4"]),
        (24, ["A     B         C    ...", f"name  {'b' * 5}...  ccccc..."]),
    ],
)
def test_the_widest_columns_are_cut_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, lines: list[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    row = {"a": "name", "b": "b" * 20, "c": "c" * 20, "d": 4}
    output(color="never").table([Column(key.upper(), key) for key in row], [row])
    captured = capsys.readouterr()
    assert captured.out.splitlines() == lines
    assert captured.err == (
        "" if "..." not in captured.out else f"(truncated to {columns} columns; -w shows everything)\n"
    )


def test_on_narrow_terminals_extra_columns_are_dropped_from_the_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    columns = [Column("A", "a", extra=True), Column("B", "b"), Column("C", "c", extra=True)]
    shown = []
    for width in ("100", "9", "6"):
        monkeypatch.setenv("COLUMNS", width)
        output(color="never").table(columns, [{"a": "aaa", "b": "bbb", "c": "ccc"}])
        shown.append(capsys.readouterr().out.splitlines()[1])
    assert shown == ["aaa  bbb  ccc", "aaa  bbb", "bbb"]


@pytest.mark.parametrize(
    ("columns", "line"),
    [(80, "2026-01-31T08:00  shop/web  cccccccccccccccccccc"), (40, "2026-01-31T08:00  shop/web  ccccccccc..."),
     (34, "shop/web  cccccccccccccccccccc"), (12, "shop/web ...")],
)  # fmt: skip
def test_an_extra_first_column_is_dropped_before_others_are_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, line: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    row = {"a": "2026-01-31T08:00", "b": "shop/web", "c": "c" * 20}
    output(color="never").table([Column("A", "a", extra=True), Column("B", "b"), Column("C", "c")], [row])
    assert capsys.readouterr().out.splitlines()[1] == line


def test_a_name_is_cut_after_other_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    output(color="never").table([Column("A", "a"), Column("B", "b")], [{"a": "a" * 60, "b": 1234}])
    assert capsys.readouterr().out.splitlines()[1] == f"{'a' * 31}...  1234"


def test_the_mode_of_a_file_is_octal() -> None:
    device = {"path": "/dev/x", "file_mode": 0o640}
    assert readable(device) == {"path": "/dev/x", "file_mode": "0640"}
    assert device["file_mode"] == 0o640
    assert readable("x") == "x"


def test_ages_have_their_largest_unit() -> None:
    assert [age(seconds) for seconds in (-3, 0.9, 5, 90, 7300, 200000)] == ["0s", "0s", "5s", "1m", "2h", "2d"]


def test_pairs_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output().pairs({"a": "one", "long": "two"}, indent=" ")
    assert capsys.readouterr().out == " a     one\n long  two\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A terminal of 30 columns at standard error, and what time it is there."""
    now = [100.0]
    monkeypatch.setattr(printing, "is_terminal", lambda stream: stream is sys.stderr)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(printing, "monotonic", lambda: now[0])
    return now


def lasting(clock: list[float], seconds: float, number: int = 3) -> Iterator[int]:
    """Items that take so long each."""
    for item in range(number):
        clock[0] += seconds
        yield item


def test_progress_is_a_line_that_disappears(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    out = output()
    assert list(out.counted(lasting(clock, 1), "event")) == [0, 1, 2]
    assert capsys.readouterr().err == "\r\x1b[K2 events ...\r\x1b[K3 events ...\r\x1b[K"
    assert len(list(out.counted(lasting(clock, 0.125, 15), "event"))) == 15
    assert capsys.readouterr().err == "", "a quick loop prints nothing"
    list(out.counted(lasting(clock, 0.125, 20), "event"))
    assert capsys.readouterr().err.count("...") == 3, "a slow loop does not print at each item"


@pytest.mark.parametrize(
    ("printed", "captured"),
    [(Output.text, ""), (Output.note, "x\n"), (Output.stream, "")],
    ids=["text", "note", "stream"],
)
def test_printed_output_replaces_the_progress_line(
    clock: list[float], capsys: pytest.CaptureFixture[str], printed: Callable[[Output, str], None], captured: str
) -> None:
    out = output(output="json")
    out.progress("at work on a name that is too long\n")
    printed(out, "x")
    printed(out, "x")
    assert capsys.readouterr().err == f"\r\x1b[Kat work on a name that is ...\r\x1b[K{captured}{captured}"


def test_errors_and_interrupts_remove_the_progress_line(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for error, captured in ((KeyboardInterrupt(), ""), (ValueError("x"), "\x1b[31merror:\x1b[0m ValueError: x")):
        output().progress("at work")
        report(error, Settings())
        assert capsys.readouterr().err.startswith(f"\r\x1b[Kat work\r\x1b[K{captured}")


@pytest.mark.parametrize(
    ("terminal", "kind", "quiet"), [(False, "xterm", False), (True, "dumb", False), (True, "xterm", True)]
)
def test_without_a_terminal_there_is_no_progress_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: bool, kind: str, quiet: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    monkeypatch.setenv("TERM", kind)
    monkeypatch.setattr(printing, "COUNT_FROM_S", 0.0)
    out = output(quiet=quiet)
    assert list(out.counted(range(3), "event")) == [0, 1, 2]
    out.progress("at work")
    out.text("x")
    assert capsys.readouterr() == ("x\n", "")


def test_a_fitted_table_has_120_columns_in_a_pipe_unless_wide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = {"a": "name", "b": "b" * 200}
    for out in (output(color="never"), output(color="never", wide=True)):
        out.fit()
        out.table([Column("A", "a"), Column("B", "b")], [row])
    lines = capsys.readouterr().out.splitlines()
    assert [len(lines[1]), len(lines[3])] == [120, 206]
