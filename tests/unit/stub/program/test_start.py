"""From a command line to a running program: help, versions, wrong usage."""

from __future__ import annotations

import sys

import pytest

import nri
from nri.stub.program import start
from nri.stub.program.options import Options


class Small(nri.Plugin):
    """Does little."""

    def run_pod_sandbox(self, pod): ...


@pytest.fixture(autouse=True)
def name_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/small.py"])


def test_help_is_the_class_its_flags_and_exit_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(Small, ["--help"]) == 0
    assert capsys.readouterr().out.startswith("Does little.\n\nExamples:\n  python small.py --idx 10")


def test_version_names_the_plugin_and_what_it_runs_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(Small, ["--version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("small: nri ") and f"Python {sys.version.split()[0]}" in out


def test_wrong_usage_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert start.main(Small, ["--idx", "1"]) == 2
    assert capsys.readouterr().err == 'error: command line: --idx: invalid plugin index "1", must be 2 digits\n'


def test_run_makes_the_plugin_and_gives_it_to_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    class Program:
        def __init__(self, plugin: object, options: Options, *, reporter: object) -> None:
            given.extend((type(plugin), options, reporter))

        def run(self) -> int:
            return 42

    monkeypatch.setattr(start, "Program", Program)
    options, reporter = Options(), object()
    assert start.run(Small, options, reporter=reporter) == 42
    assert given == [Small, options, reporter]


def test_main_runs_the_plugin_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[type, str]] = []
    monkeypatch.setattr(start, "run", lambda plugin_class, options: given.append((plugin_class, options.index)) or 7)
    assert start.main(Small, ["--idx", "42"]) == 7
    assert given == [(Small, "42")]
