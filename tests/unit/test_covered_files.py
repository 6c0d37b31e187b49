"""Files that need not be covered by unit tests are few, exist, and have a reason; each test file has a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import covered


def test_few_files_are_unmeasured_and_each_has_a_reason() -> None:
    reasons = covered.unmeasured().values()
    assert len(reasons) <= 10
    assert all(len(reason.split()) > 3 for reason in reasons)


@pytest.mark.parametrize("place", covered.unmeasured())
def test_unmeasured_files_exist(place: str) -> None:
    assert (covered.SOURCE / place).exists()


def test_every_test_file_has_a_test() -> None:
    folder = covered.ROOT / "tests" / "unit"
    files: list[Path] = sorted(folder.rglob("test_*.py"))
    empty = [file.relative_to(folder).as_posix() for file in files if "def test_" not in file.read_text()]
    assert not empty
