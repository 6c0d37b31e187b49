"""The stages of `make test` and the table at their end."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tools import check, lanes
from tools.lanes import Outcome, Stage

FAILING = "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\ndef test_c(): pytest.skip('needs a thing')\n"


def pytest_on(folder: Path, text: str) -> Stage:
    """A stage that runs one test file outside of this project."""
    folder.joinpath("test_it.py").write_text(text)
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={folder}", "-c", "/dev/null")
    # Other people's plugins would be most of the time that it takes to start.
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return Stage("quick", "quick", argv, tests=(str(folder),), environment=alone)


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch coverage off: the stages of these tests do not run code of this project."""
    for name in [name for name in os.environ if name.startswith("COVERAGE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def no_pythons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking for other Pythons takes a second."""
    monkeypatch.setattr(check.pythons, "other_versions", list)


@pytest.fixture
def passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the passed stages, for a separate commit."""
    path = tmp_path / "build" / "passed.json"
    monkeypatch.setattr(check.Passed.__init__, "__defaults__", (path,))
    monkeypatch.setattr("tools.passed._commit", lambda: "c0ffee")
    return path


def ran_of(monkeypatch: pytest.MonkeyPatch, *failing: str) -> list[str]:
    """The names of the stages that are run from now on; nothing is run in truth."""
    ran: list[str] = []

    def run(stage: Stage, output: object = None) -> Outcome:
        ran.append(stage.name)
        if stage.name == "skipped":
            return Outcome(stage, skips=Counter(["no such tool"]))
        return Outcome(stage, code=int(stage.name in failing), passed=1)

    monkeypatch.setattr(lanes, "run", run)
    return ran


def test_the_complete_run_has_each_folder_of_tests_once(no_pythons: None) -> None:
    tests = check.ROOT / "tests"
    folders = {path.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")}
    rows = [
        row for row in check.selected(check.stages(), "all", []) if row.tests is not None and row.group != "compiled"
    ]
    rows = [row for row in rows if row.name not in ("container", "histories")]  # of these the same tests run elsewhere
    words = Counter(word for row in rows for word in (*row.argv, *row.tests))
    # A folder by its path, or by the name of its program.
    named = {word.replace("tests.", "tests/").split("/")[1] for word in words if re.match(r"tests[./]", word)}
    (quick_stage,) = (row for row in rows if row.group == "quick")
    ignored = {word.partition("=tests/")[2] for word in quick_stage.tests if word.startswith("--ignore")}

    assert named - {"unit"} <= ignored
    assert folders & ignored <= named
    assert {word: count for word, count in words.items() if word.startswith("tests/") and count > 1} == {
        "tests/real": 2,
        "tests/faults": 2,
    }
    halves = [row.tests[2] for row in rows if row.group in ("real", "faults")]
    older = check.OLDER
    assert sorted(halves) == sorted([f"not ({older})", older, "not slow", "slow"])


def test_the_parts_of_the_unit_tests_cover_all_folders() -> None:
    default_part, *parts = check.unit_parts().values()
    ignored = {word.removeprefix("--ignore=") for word in default_part if word.startswith("--ignore=")}
    folders = [folder for part in parts for folder in part]

    assert default_part[0] == "tests/unit"
    assert ignored == set(folders)
    assert len(set(folders)) == len(folders)
    assert all((check.ROOT / folder).is_dir() for folder in folders)


def test_the_table_counts_tests_and_lists_every_skip_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("CI", "NRI_NO_SKIP"):
        monkeypatch.delenv(name, raising=False)
    outcome = lanes.run(pytest_on(tmp_path, FAILING))
    check.print_table([outcome])

    printed = capfd.readouterr().out.splitlines()
    assert (outcome.passed, outcome.failed, outcome.code) == (1, 1, 1)
    assert printed[-4:-2] == ["skipped in quick: 1 x needs a thing", "quick failed:"]
    assert re.fullmatch(r"  FAILED \S*test_it.py::test_b.*", printed[-2])
    assert printed[-1] == "1 passed, 1 failed, 1 skipped"


def test_the_last_lines_of_a_failed_stage_are_below_the_table(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = "for number in range(100): print('row', number)\nprint('below the bound'); raise SystemExit(1)"
    passes = lanes.run(Stage("lint", "passes", (sys.executable, "-c", "print('good')")))
    check.print_table([lanes.run(Stage("covered", "covered", (sys.executable, "-c", program))), passes])

    printed = capfd.readouterr().out
    assert "row 0\n" in printed, "the stage's own output is printed as well"
    _, _, table = printed.partition("\nstage")
    assert table.splitlines()[-3:] == ["  row 99", "  below the bound", "0 passed, 1 failed, 0 skipped"]
    assert "row 71\n" in table
    assert "row 70\n" not in table
    assert "good" not in table


def test_a_process_that_outlives_its_stage_does_not_delay_the_run(
    capfd: pytest.CaptureFixture[str],
) -> None:
    outcome = lanes.run(Stage("lint", "ruff", ("sh", "-c", "sleep 60 & echo $!; exit 1")))

    os.kill(int(outcome.last_lines[0]), 9)
    assert outcome.seconds < 30
    assert capfd.readouterr().out.splitlines()[-1] == outcome.last_lines[0]


def test_a_pytest_without_a_summary_repeats_its_last_lines(tmp_path: Path) -> None:
    stage = pytest_on(tmp_path, "import os\ndef test_a(): os._exit(3)\n")
    broken = lanes.run(Stage("quick", "quick", (*stage.argv, "--nonsense"), tests=stage.tests))

    assert broken.code
    assert any("--nonsense" in line for line in broken.last_lines)


def test_the_temporary_folder_of_a_stage_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    outcome = lanes.run(pytest_on(tmp_path, text.format(str(scratch), str(scratch))))

    assert (outcome.passed, outcome.code) == (1, 0)
    assert list(scratch.iterdir()) == []


def test_stacks_are_printed_only_after_the_timeout_of_a_test() -> None:
    """faulthandler prints stacks even if the test then passes."""
    options = tomllib.loads((check.ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    sources = "".join(path.read_text() for path in (check.ROOT / "tests").rglob("*.py"))
    longest = max(int(number) for number in re.findall(r"mark\.timeout\((\d+)\)", sources))

    assert options["timeout"] < longest < options["faulthandler_timeout"]


def test_a_stage_without_tests_fails(tmp_path: Path) -> None:
    outcome = lanes.run(pytest_on(tmp_path, "def not_a_test(): ...\n"))

    assert outcome.code


def test_the_last_line_counts_a_failed_linter(capsys: pytest.CaptureFixture[str]) -> None:
    check.print_table([Outcome(Stage("lint", "ruff", ("ruff",)), code=1)])

    assert capsys.readouterr().out.endswith("0 passed, 1 failed, 0 skipped\n")


def test_in_ci_a_missing_python_is_listed_and_is_not_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(check.pythons, "other_versions", lambda: ["3.19"])

    assert check.main(["pythons"]) == 0
    *_, table, reason, last = capsys.readouterr().out.splitlines()
    assert table.split()[:2] == ["3.19", "skipped"]
    assert reason == "skipped in 3.19: 1 x no Python 3.19 on this machine"
    assert last.startswith("0 passed, 0 failed, 1 skipped in ")


def test_other_pythons_run_the_quick_suite(tmp_path: Path, passed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check.pythons, "other_versions", lambda: ["3.18", "3.19"])
    monkeypatch.setattr(check.pythons, "find", Path)
    rows = [row for row in check.stages() if row.group == "pythons"]
    units = list(check.unit_parts())

    assert [row.name for row in rows if row.since == "all"] == [f"3.19 {name}" for name in ("made", *units, "quick")]
    suites = ("made", *units, "quick", "faults", "packaging")
    assert [row.name for row in rows] == [f"{version} {name}" for version in ("3.18", "3.19") for name in suites]


def test_a_stage_without_its_requirement_is_skipped(tmp_path: Path) -> None:
    stage = Stage("b", "user", ("false",), after=("maker",), needs=tmp_path / "made")
    outcome = lanes.run(stage)

    assert (outcome.code, list(outcome.skips)) == (0, [f"{tmp_path}/made does not exist; see maker"])


def test_an_unknown_stage_is_an_error(no_pythons: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["qick"]) == 2
    assert "qick" in capsys.readouterr().err


def test_each_longer_run_includes_the_shorter_runs(
    no_pythons: None, passed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = ran_of(monkeypatch)
    monkeypatch.setattr(check.covered, "forget", lambda: None)
    runs: list[set[str]] = []
    for arguments in ([], ["--ci"], ["--all"]):
        passed.unlink(missing_ok=True)
        assert check.main(arguments) == 0
        runs.append(set(ran))
        ran.clear()

    assert runs[0] < runs[1] < runs[2]
    lines = capsys.readouterr().out.splitlines()
    (first, second, *_) = (line for line in lines if line.startswith(("CI adds", "make test-all adds")))
    assert "engine" in first
    assert "torture" in second
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped in \d+ min \d+ s, [\d.]+ min of processor time", lines[-1])


def test_unit_and_fault_tests_measure_coverage_on_request(no_pythons: None) -> None:
    rows = check.stages()
    measured = {row.group for row in check.selected(rows, "ci", []) if row.argv == check.MEASURED}
    (report,) = (row for row in rows if row.group == "covered")

    assert measured == {row.group for row in rows if row.name in report.after} == {"unit", "faults"}
    assert not any(row.argv == check.MEASURED for row in check.selected(rows, "test", []))


def two_lanes(monkeypatch: pytest.MonkeyPatch, rows: list[Stage], cores: int = 2) -> int:
    """The exit code of a run of these stages on `cores` cores."""
    monkeypatch.setattr(check, "stages", lambda: rows)
    monkeypatch.setattr(check.os, "cpu_count", lambda: cores)
    return check.main([])


def meets(folder: Path, name: str, other: str) -> tuple[str, ...]:
    """A command that ends when another one like it runs."""
    waits = f"import pathlib, time\npathlib.Path({str(folder / name)!r}).touch()\n"
    return (sys.executable, "-c", f"{waits}while not pathlib.Path({str(folder / other)!r}).exists(): time.sleep(0.01)")


def test_two_stages_run_at_the_same_time_and_all_failures_count(
    passed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        Stage("a", "first", meets(tmp_path, "one", "two")),
        Stage("b", "other", meets(tmp_path, "two", "one")),
        Stage("b", "broken", (sys.executable, "-c", "raise SystemExit('it is broken')")),
        Stage("b", "no program", ("/does/not/exist",)),
    ]
    assert two_lanes(monkeypatch, rows) == 1
    out = capsys.readouterr().out
    table = out[out.index("stage  ") :]
    assert [line.split()[1] for line in table.splitlines()[1:4]] == ["ok", "ok", "FAILED"]
    assert re.search(r"\nno program +FAILED", table)
    assert "it is broken" in table, "the last words of failures stand below the table"
    assert "2 failed" in table


def test_stages_with_real_parts_run_one_at_a_time(
    passed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = str(tmp_path / "alone")
    alone = f"import os, time; os.mkdir({place!r}); time.sleep(0.05); os.rmdir({place!r})"
    rows = [
        Stage("a", "a", (sys.executable, "-c", alone), real=True),
        Stage("b", "b", (sys.executable, "-c", alone), real=True),
        Stage("c", "c", ("true",)),
    ]
    assert two_lanes(monkeypatch, rows) == 0


def test_a_stage_waits_for_its_predecessors(passed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    marker = tmp_path / "made"
    rows = [
        Stage("a", "user", ("test", "-e", str(marker)), after=("maker",)),
        Stage("b", "maker", ("touch", str(marker))),
    ]
    assert two_lanes(monkeypatch, rows) == 0


def test_one_core_has_one_lane(
    passed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Stage("b", name, (sys.executable, "-c", f"print({name!r})")) for name in ("one", "two")]
    assert two_lanes(monkeypatch, rows, cores=1) == 0
    out = capsys.readouterr().out
    assert "begins" not in out
    assert out.index("\none\n") < out.index("\ntwo\n")


def stage_of_tests(name: str) -> Stage:
    return Stage("a", name, ("run", name), tests=())


def test_a_complete_run_continues_where_it_was_interrupted(
    passed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Stage("a", "bad", ("bad",), after=("build",), needs=Path("/"))
    rows = [stage_of_tests("good"), Stage("a", "build", ("make",)), bad, Stage("a", "skipped", ("no",))]
    monkeypatch.setattr(check, "stages", lambda: rows)
    ran = ran_of(monkeypatch, "bad")
    assert check.main(["--all"]) == 1
    assert sorted(ran) == ["bad", "build", "good", "skipped"]

    ran.clear()
    capsys.readouterr()
    assert check.main(["--all"]) == 1
    assert sorted(ran) == ["bad", "build", "skipped"], "a build stage runs again and checks its files itself"
    out = capsys.readouterr().out
    assert "1 of 4 stages have passed on this commit and are not run again" in out
    assert re.search(r"\ngood .* passed before on this commit; not run again\n", out)

    ran.clear()
    assert check.main([]) == 1
    assert sorted(ran) == ["bad", "build", "good", "skipped"], "only a run with --all continues"


def test_predecessors_of_a_failed_stage_run_again(passed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Stage("b", "report", ("report",), after=("measures",))
    monkeypatch.setattr(check, "stages", lambda: [stage_of_tests("measures"), report])
    ran_of(monkeypatch, "report")
    check.main(["--all"])
    ran = ran_of(monkeypatch)
    check.main(["--all"])

    assert ran == ["measures", "report"]


@pytest.mark.parametrize("change", ["commit", "changes", "skips", "failure"])
def test_a_named_stage_runs_again(change: str, passed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "stages", lambda: [stage_of_tests("good")])
    monkeypatch.delenv("CI", raising=False)
    ran = ran_of(monkeypatch)
    check.main(["--all"])
    if change == "skips":
        monkeypatch.setenv("CI", "true")
    elif change == "failure":
        ran_of(monkeypatch, "good")
        check.main([])
        ran = ran_of(monkeypatch)
    else:
        monkeypatch.setattr("tools.passed._commit", lambda: "beef" if change == "commit" else "")
    ran.clear()
    check.main(["--all"])
    assert ran == ["good"]


def test_ctrl_c_ends_all_stages_and_prints_the_table(tmp_path: Path) -> None:
    program = f"""
import sys
from tools import check, passed
check.Passed.__init__.__defaults__ = (check.Path({str(tmp_path)!r}, "passed.json"),)
sleeps = (sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()")
check.stages = lambda: [check.Stage("a", name, sleeps) for name in ("one", "two")]
check.os.cpu_count = lambda: 1
sys.exit(check.main([]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=check.ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "up\n":
                process.send_signal(signal.SIGINT)
                break
        output = process.stdout.read()
    assert process.returncode == 130
    assert re.search(r"\none +FAILED", output)
    assert "\nnot run: two\n" in output
