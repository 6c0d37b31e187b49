"""`make release-check`: what it builds can be used elsewhere, and what is not as it should be is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import release_check
from tools.release_check import CheckError, Release, repair, try_out

pytestmark = pytest.mark.timeout(900)


def test_a_compiled_wheel_is_made_fit_for_other_machines_and_used_there(compiled_wheel: Path, tmp_path: Path) -> None:
    wheel = repair(compiled_wheel, tmp_path)
    assert "-manylinux" in wheel.name
    assert try_out(wheel, Path(sys.executable), is_compiled=True).startswith("compiled yes, Python 3.")


def test_a_pure_wheel_is_used_and_is_not_taken_for_a_compiled_one(wheel: Path) -> None:
    assert try_out(wheel, Path(sys.executable), is_compiled=False).startswith("compiled no")
    with pytest.raises(CheckError, match="compiled is no, expected yes"):
        try_out(wheel, Path(sys.executable), is_compiled=True)


def test_a_pure_wheel_has_nothing_to_be_made_fit(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckError):
        repair(wheel, tmp_path)


def test_a_command_that_fails_says_its_last_words() -> None:
    with pytest.raises(CheckError, match=r"ended with 3:\nno such thing"):
        release_check.run(sys.executable, "-c", "print('no such thing'); raise SystemExit(3)")


def test_the_table_has_every_step_and_one_that_failed_fails_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> str:
        raise CheckError("it is not there\nat all")

    report = Release()
    report.step("try: pure wheel", "3.11", lambda: "compiled no")
    assert not report.failed
    report.step("try: archive", "3.12", fail)
    assert report.failed
    lines = report.table().splitlines()[1:]
    assert [line.split()[:4] for line in lines] == [
        ["try:", "pure", "wheel", "3.11"],
        ["try:", "archive", "3.12", "FAILED"],
    ]
    assert lines[1].endswith("it is not there")
    assert "at all" in capsys.readouterr().err
