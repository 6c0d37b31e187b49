"""Failed tests that may be unsteady run a second time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import check, lanes, unsteady
from tools.lanes import Outcome, Stage

#: A test notes each run of it in a file, and passes from the second one on.
SECOND_TIME = """
import pathlib, subprocess, sys, threading
runs = pathlib.Path({folder!r}, "runs")

def test_it():
    {starts}
    with runs.open("a") as file:
        file.write("x")
    print("it says this")
    assert runs.read_text() {condition}
"""
CHILD = "subprocess.run([sys.executable, '-c', ''])"
THREAD = "threading.Thread(target=int).start()"
#: As pytest has it where an object of an earlier test ends in this one.
GARBAGE = "== 'xx' or exec('raise __import__(\"pytest\").PytestUnraisableExceptionWarning')"
ROOT = check.ROOT


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of unsteady tests, for a separate project that runs without coverage."""
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    monkeypatch.setattr(unsteady, "RECORD", tmp_path / "build" / "unsteady.txt")
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "build" / "unsteady.txt"


def outcome_of(folder: Path, text: str) -> Outcome:
    """What a stage with this test file comes to."""
    folder.joinpath("test_it.py").write_text(text)
    options = ("-p", "no:cacheprovider", f"--rootdir={folder}", "-c", "/dev/null", "-o", "junit_logging=all")
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", *options)
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    return lanes.run(Stage("real", "real", argv, tests=(str(folder),), environment=environment))


def runs_of(folder: Path) -> int:
    return len((folder / "runs").read_text())


@pytest.mark.parametrize(
    ("starts", "condition"),
    [(CHILD, "== 'xx'"), (THREAD, "== 'xx'"), ("pass", GARBAGE)],
    ids=["a process", "a thread", "an earlier test's garbage"],
)
def test_a_test_that_passes_alone_is_listed_as_unsteady(
    starts: str, condition: str, tmp_path: Path, record: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = SECOND_TIME.format(folder=str(tmp_path), starts=starts, condition=condition)
    outcome = outcome_of(tmp_path, text + "\ndef test_other(): pass\n")
    check.print_table([outcome])

    assert (outcome.code, outcome.passed, outcome.failed, runs_of(tmp_path)) == (0, 2, 0, 2)
    warning, last = capfd.readouterr().out.splitlines()[-2:]
    assert warning.startswith("unsteady in real: test_it.py::test_it failed, then passed alone; see ")
    assert last == "2 passed, 0 failed, 0 skipped, 1 unsteady"
    assert "test_it.py::test_it\n" in record.read_text()
    assert "it says this" in record.read_text()


@pytest.mark.parametrize(
    ("starts", "condition", "runs"),
    [(CHILD, "is None", 2), ("pass", "== 'xx'", 1)],
    ids=["twice in a row", "without processes or threads"],
)
def test_a_test_that_fails_again_is_a_failure(
    starts: str, condition: str, runs: int, tmp_path: Path, record: Path
) -> None:
    outcome = outcome_of(tmp_path, SECOND_TIME.format(folder=str(tmp_path), starts=starts, condition=condition))

    assert (outcome.code, outcome.failed, runs_of(tmp_path)) == (1, 1, runs)
    assert not record.exists()


def test_an_unsteady_test_is_listed_if_another_one_fails(tmp_path: Path, record: Path) -> None:
    text = SECOND_TIME.format(folder=str(tmp_path), starts=CHILD, condition="== 'xx'")
    outcome = outcome_of(tmp_path, text + "\ndef test_broken(): raise OSError\n")

    assert (outcome.code, outcome.passed, outcome.failed) == (1, 1, 1)
    assert "test_it.py::test_it\n" in record.read_text()


def test_a_test_with_a_failed_teardown_is_listed_once(tmp_path: Path, record: Path) -> None:
    text = SECOND_TIME.format(folder=str(tmp_path), starts=CHILD, condition="== 'xx'")
    outcome = outcome_of(tmp_path, text + "\ndef teardown_function(): assert runs.read_text() == 'xx'\n")

    assert (outcome.code, outcome.passed, outcome.failed, len(outcome.unsteady)) == (0, 1, 0, 1)


def test_many_failures_are_not_run_again() -> None:
    failures = [unsteady.Failure(f"test_{number}", "") for number in range(unsteady.MAX_RERUNS + 1)]
    tried: list[str] = []

    assert unsteady.run_again(failures, lambda test: bool(tried.append(test))) == []
    assert tried == []


def test_a_test_with_a_failed_teardown_counts_as_one_failure(tmp_path: Path) -> None:
    text = "<s><testcase classname='a' name='b'><failure>one</failure></testcase>{}</s>"
    properties = f"<properties><property name='{unsteady.PROPERTY}' value='a.py::b'/></properties>"
    second = f"<testcase classname='a' name='b'>{properties}<error>two</error></testcase>"
    (tmp_path / "report.xml").write_text(text.format(second))

    assert unsteady.failures(tmp_path / "report.xml") == [unsteady.Failure("a.py::b", "one\ntwo")]
