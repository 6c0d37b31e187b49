"""`make release-check`: built wheels work on other machines, and problems are reported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import release_check
from tools.release_check import CheckError, Release, repair, try_out

pytestmark = pytest.mark.timeout(900)


def test_a_compiled_wheel_is_repaired_for_other_machines_and_works(compiled_wheel: Path, tmp_path: Path) -> None:
    wheel = repair(compiled_wheel, tmp_path)
    assert "-manylinux" in wheel.name
    assert try_out(wheel, Path(sys.executable), is_compiled=True).startswith("compiled yes, Python 3.")


def test_a_pure_wheel_works_and_is_not_reported_as_compiled(wheel: Path) -> None:
    assert try_out(wheel, Path(sys.executable), is_compiled=False).startswith("compiled no")
    with pytest.raises(CheckError, match="compiled is no, expected yes"):
        try_out(wheel, Path(sys.executable), is_compiled=True)


def test_a_pure_wheel_cannot_be_repaired(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckError):
        repair(wheel, tmp_path)


def test_a_failed_command_is_an_error_with_its_last_output() -> None:
    with pytest.raises(CheckError, match=r"ended with 3:\nno such thing"):
        release_check.run(sys.executable, "-c", "print('no such thing'); raise SystemExit(3)")


def test_the_table_has_every_step_and_a_failed_step_fails_the_release(capsys: pytest.CaptureFixture[str]) -> None:
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
