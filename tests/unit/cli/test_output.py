"""Tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json

import pytest

from nri.cli.output import Column, Output, cell
from nri.cli.settings import Settings
from nri.text import escape

COLUMNS = [Column("ID", "id", 4), Column("NAME", "name"), Column("TAGS", "tags")]
ROWS = [{"id": "0123456789", "name": "web", "tags": ["a", "b"]}, {"id": "abc", "name": "", "tags": None}]


def output(**given: object) -> Output:
    settings = Settings()
    for name, value in given.items():
        setattr(settings, name, value)
    return Output(settings)


def test_a_table_cuts_ids_joins_lists_and_shows_nothing_as_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    output().table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "ID    NAME  TAGS\n0123  web   a,b\nabc   -     -\n"


def test_json_has_ids_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    output(output="json").table(COLUMNS, ROWS)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_quiet_prints_the_first_column_alone_and_uncut(capsys: pytest.CaptureFixture[str]) -> None:
    output(quiet=True).table(COLUMNS, ROWS)
    assert capsys.readouterr().out == "0123456789\nabc\n"


def test_an_empty_table_still_has_its_heading_and_an_empty_document_is_a_list(
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


def test_names_cannot_steer_the_terminal() -> None:
    assert escape("a\x1b[31mb\n") == "a\\x1b[31mb\\x0a"
    assert cell("a\x1b]0;title\x07") == "a\\x1b]0;title\\x07"


def test_notes_go_to_standard_error_and_not_at_all_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    output().note("hello")
    output(quiet=True).note("hello")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")
