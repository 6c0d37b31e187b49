"""The stages of `make test` and the table at their end."""

import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from tools import check

FAILING = "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pytest.skip('needs a thing')\n"


def pytest_on(folder: Path, text: str) -> check.Stage:
    """A stage that runs one test file outside of this project."""
    folder.joinpath("test_it.py").write_text(text)
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", str(folder))
    # Other people's plugins would be most of the time that it takes to start.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return check.Stage("quick", "quick", (*argv, "-c", "/dev/null"), tests=True, environment=alone)


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a stage runs here is none of this project, and need not be measured with it."""
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        monkeypatch.delenv(name)


def test_every_folder_of_tests_is_run_by_exactly_one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check.pythons, "others", list)
    tests = check.ROOT / "tests"
    folders = {path.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")}
    stages = [row for row in check.stages() if row.tests]
    (quick,) = (row for row in stages if row.group == "quick")
    # A folder by its path, or by the name of its program.
    words = (word.replace("tests.", "tests/") for row in stages for word in row.argv)
    named = {word.removeprefix("tests/") for word in words if word.startswith("tests/")}
    ignored = {word.removeprefix("--ignore=tests/") for word in quick.argv if word.startswith("--ignore=tests/")}

    assert folders & ignored <= named
    assert not named & (folders - ignored)


def test_the_table_counts_tests_and_lists_every_skip_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("CI", "NRI_NO_SKIP"):
        monkeypatch.delenv(name, raising=False)
    outcome = check.run(pytest_on(tmp_path, FAILING))
    check.print_table([outcome])

    printed = capfd.readouterr().out.splitlines()
    assert (outcome.passed, outcome.failed, outcome.code) == (1, 1, 1)
    assert printed[-4:-2] == ["skipped in quick: 1 x needs a thing", "quick failed:"]
    assert re.fullmatch(r"  FAILED \S*test_it.py::test_b.*", printed[-2])
    assert printed[-1] == "1 passed, 1 failed, 1 skipped"


def test_the_last_lines_of_a_failed_stage_without_tests_stand_below_the_table(
    capfd: pytest.CaptureFixture[str],
) -> None:
    says = "for number in range(100): print('row', number)\nprint('below the bound'); raise SystemExit(1)"
    passes = check.run(check.Stage("lint", "passes", (sys.executable, "-c", "print('good')")))
    check.print_table([check.run(check.Stage("covered", "covered", (sys.executable, "-c", says))), passes])

    printed = capfd.readouterr().out
    assert "row 0\n" in printed, "the stage's own output is printed as well"
    _, _, table = printed.partition("\nstage")
    assert table.splitlines()[-3:] == ["  row 99", "  below the bound", "0 passed, 1 failed, 0 skipped"]
    assert "row 71\n" in table
    assert "row 70\n" not in table
    assert "good" not in table


def test_a_process_that_outlives_its_stage_and_holds_its_output_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check.last_words, "_GRACE_S", 0.1)
    outcome = check.run(check.Stage("lint", "ruff", ("sh", "-c", "sleep 60 & echo $!; exit 1")))

    os.kill(int(outcome.said[0]), 9)
    assert outcome.seconds < 30
    assert capfd.readouterr().out.splitlines()[-1] == outcome.said[0]


def test_a_pytest_that_comes_to_no_summary_says_its_last_lines_again(tmp_path: Path) -> None:
    stage = pytest_on(tmp_path, "import os\ndef test_a(): os._exit(3)\n")
    broken = check.run(check.Stage("quick", "quick", (*stage.argv, "--nonsense"), tests=True))

    assert broken.code
    assert any("--nonsense" in line for line in broken.said)


def test_what_a_stage_leaves_in_the_temporary_folder_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    text = """
import tempfile

def test_it(tmp_path):
    tempfile.mkdtemp()
    (tmp_path / "a").touch()
    assert tempfile.gettempdir().startswith({!r}) and str(tmp_path).startswith({!r})
"""
    outcome = check.run(pytest_on(tmp_path, text.format(str(scratch), str(scratch))))

    assert (outcome.passed, outcome.code) == (1, 0)
    assert list(scratch.iterdir()) == []


def test_no_stacks_are_printed_while_a_test_still_has_time() -> None:
    """faulthandler prints them whether or not the test then passes."""
    options = tomllib.loads((check.ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    sources = "".join(path.read_text() for path in (check.ROOT / "tests").rglob("*.py"))
    longest = max(int(number) for number in re.findall(r"mark\.timeout\((\d+)\)", sources))

    assert options["timeout"] < longest < options["faulthandler_timeout"]


def test_a_stage_that_runs_no_test_has_failed(tmp_path: Path) -> None:
    outcome = check.run(pytest_on(tmp_path, "def not_a_test(): ...\n"))

    assert outcome.code


def test_a_failed_linter_counts_in_the_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    check.print_table([check.Outcome(check.Stage("lint", "ruff", ("ruff",)), code=1)])

    assert capsys.readouterr().out.endswith("0 passed, 1 failed, 0 skipped\n")


def test_a_python_that_is_not_there_is_named_and_is_no_failure_not_even_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(check.pythons, "others", lambda: ["3.19"])

    assert check.main(["pythons"]) == 0
    *_, table, reason, last = capsys.readouterr().out.splitlines()
    assert table.split()[:2] == ["3.19", "skipped"]
    assert (reason, last) == (
        "skipped in 3.19: 1 x no Python 3.19 on this machine", "0 passed, 0 failed, 1 skipped",
    )  # fmt: skip


def test_other_pythons_run_the_quick_suite_and_all_of_them_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(check.pythons, "others", lambda: ["3.19"])
    monkeypatch.setattr(check.pythons, "find", Path)
    monkeypatch.setattr(check.pythons, "place", lambda version: tmp_path / "python")
    monkeypatch.setattr(check, "run", lambda stage, output=None: ran.append(stage.name) or check.Outcome(stage))

    assert check.main(["pythons"]) == 0
    assert ran == ["3.19 made"]  # and nothing made it

    tmp_path.joinpath("python").touch()
    ran.clear()
    assert check.main(["pythons"]) == 0
    assert ran == ["3.19 made", "3.19 quick", "3.19 faults", "3.19 packaging"]

    ran.clear()
    assert check.main([]) == 0
    assert [name for name in ran if name.startswith("3.19")] == ["3.19 made", "3.19 quick"]


def test_an_unknown_stage_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check.pythons, "others", list)  # looking for them takes a second
    assert check.main(["qick"]) == 2
    assert "qick" in capsys.readouterr().err


def test_the_unit_and_fault_tests_are_measured_and_what_they_miss_is_a_stage_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(check.pythons, "others", list)
    rows = [row for row in check.stages() if "tools/covered.py" in row.argv]
    assert [(row.name, row.argv[2:3]) for row in rows] == [("unit", ("run",)), ("faults", ("add",)), ("covered", ())]


def test_the_second_lane_runs_beside_the_others_and_its_failures_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    met = tmp_path / "met"
    waits = f"import time\nwhile not __import__('os').path.exists({str(met)!r}): time.sleep(0.01)\n"
    rows = [
        check.Stage("a", "first", (sys.executable, "-c", waits)),
        check.Stage("b", "other", (sys.executable, "-c", f"print('hello'); open({str(met)!r}, 'w')"), beside=True),
        check.Stage("b", "broken", (sys.executable, "-c", "raise SystemExit('it is broken')"), beside=True),
        check.Stage("b", "no program", ("/does/not/exist",), beside=True),
    ]
    monkeypatch.setattr(check, "stages", lambda: rows)
    monkeypatch.setattr(check.os, "cpu_count", lambda: 2)
    assert check.main([]) == 1
    out = capsys.readouterr().out
    assert "hello" in out
    table = out[out.index("stage  ") :]
    assert [line.split()[1] for line in table.splitlines()[1:4]] == ["ok", "ok", "FAILED"]
    assert "no program      FAILED" in table
    assert "it is broken" in table, "the last words of the lane's failures stand below the table"
    assert "2 failed" in table


def test_one_core_has_one_lane(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        check.Stage("b", "beside", (sys.executable, "-c", "print('one')"), beside=True),
        check.Stage("a", "last", (sys.executable, "-c", "print('two')")),
    ]
    monkeypatch.setattr(check, "stages", lambda: rows)
    monkeypatch.setattr(check.os, "cpu_count", lambda: 1)
    assert check.main([]) == 0
    out = capsys.readouterr().out
    assert out.index("one") < out.index("two")
