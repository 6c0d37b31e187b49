"""Reports as tables, JSON and HTML, and comparison with an earlier report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.verbs.conformance import show_report
from nri.conformance.report import Report, read_rows
from nri.errors import ConfigError

ATTACK = "<script>alert(1)</script>\x1b[31m"


def report(outcome: str = "applied") -> Report:
    report = Report("What it does", {"runtime": f"one {ATTACK}"})
    first = report.section("Fields")
    first.add("add_env", outcome, "inside")
    first.add(ATTACK, "ignored", "", ATTACK)
    report.section("Nothing")
    return report


def test_a_table_has_all_rows_with_escaped_texts(capsys: pytest.CaptureFixture[str]) -> None:
    show_report(Output(Settings()), report())
    output = capsys.readouterr().out
    assert "add_env" in output and "inside" in output and "\x1b" not in output
    assert "Nothing" not in output, "a section without rows is not printed"


def test_a_page_escapes_foreign_texts() -> None:
    text = report().html().decode()
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "default-src 'none'" in text and 'class="good">applied' in text and 'class="bad">ignored' in text


def test_only_differences_from_the_earlier_report_are_listed(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text(json.dumps(report().to_json()))
    before = read_rows(str(file))
    assert report().differences(before) == []
    now = report("ignored")
    now.section("More").add("new", "yes")
    assert now.differences(before) == [
        "Fields: add_env: before applied; now ignored",
        "More: new: before missing; now yes",
    ]


def test_reasons_that_change_in_each_run_are_not_differences() -> None:
    before = {("Fields", "add_env"): "refused: container 1a2b", ("Fields", ATTACK[:-5] + r"\x1b[31m"): "ignored"}
    assert report("refused: container 3c4d").differences(before) == []
    assert report("applied").differences(before) == ["Fields: add_env: before refused: container 1a2b; now applied"]


def test_an_outcome_that_starts_with_no_is_marked_as_bad() -> None:
    assert 'class="bad">no, but A, B' in report("no, but A, B").html().decode()
    assert 'class="bad">refused</td><td>inside</td><td>it</td>' in report("refused: it").html().decode()


def test_reasons_are_notes_and_empty_columns_are_omitted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report("What it does")
    report.section("Events").add("StartContainer", "yes")
    more = report.section("Adjustments")
    more.add("set_rdt_class", "refused: no such class", "OCI spec", "once")
    more.add("add_env", "applied", "inside")
    show_report(Output(Settings()), report)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "Events",
        "WHAT            OUTCOME",
        "StartContainer  yes",
        "",
        "Adjustments",
        "WHAT           OUTCOME  READ FROM  NOTE",
        "set_rdt_class  refused  OCI spec   no such class; once",
        "add_env        applied  inside     -",
    ]
    page = report.html().decode()
    assert '<th scope="col">Outcome</th></tr>' in page, "of events there is nothing else to say"
    assert "<td>OCI spec</td><td>no such class; once</td>" in page


def test_the_page_supports_light_and_dark() -> None:
    assert ":root{color-scheme:light dark}" in report().html().decode()


@pytest.mark.parametrize("text", ["", "[]", '{"sections": [{"title": 1}]}', '{"sections": 3}'])
def test_an_invalid_report_is_an_error_with_the_next_step(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"other\.json"):
        read_rows(str(file))
    with pytest.raises(ConfigError, match="nowhere"):
        read_rows(str(tmp_path / "nowhere"))
