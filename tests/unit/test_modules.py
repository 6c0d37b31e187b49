"""Every module has its tests where one looks for them, but for a few with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import covered

BOUND, EXCEPTIONS = covered.settings()
MODULES = sorted(
    path.relative_to(covered.SOURCE).as_posix()
    for path in covered.SOURCE.rglob("*.py")
    # A face holds no behaviour of its own beyond names, and what is generated is protoc's.
    if path.name != "__init__.py" and path.parent.name != "pb"
)


def test_every_module_has_a_test_file_at_its_place() -> None:
    missing = [path for path in MODULES if path not in EXCEPTIONS and not covered.test_file(path).exists()]
    assert not missing, f"write tests/unit/<same folder>/test_<module>.py for {missing}"


def test_exceptions_are_few_and_each_has_its_reason() -> None:
    reasons = [*EXCEPTIONS.values(), *covered.unmeasured().values()]
    assert len(reasons) <= 10
    assert all(len(reason.split()) > 3 for reason in reasons)


@pytest.mark.parametrize("path", EXCEPTIONS)
def test_an_exception_is_of_a_module_that_is_there(path: str) -> None:
    assert path in MODULES


def test_every_test_file_holds_a_test() -> None:
    folder = covered.ROOT / "tests" / "unit"
    files: list[Path] = sorted(folder.rglob("test_*.py"))
    empty = [file.relative_to(folder).as_posix() for file in files if "def test_" not in file.read_text()]
    assert not empty
