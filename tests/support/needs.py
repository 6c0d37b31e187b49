"""What a test needs from the machine, and what happens when that is missing.

A missing tool skips the test and names it. Where nothing may be skipped (``CI=true`` or ``NRI_NO_SKIP=1``) the same
call fails the test: CI installs everything, so a missing tool there is a hole in its installation.
Only :func:`need_machine` skips everywhere: it is for facts of the kernel or the hardware that nothing can install.
``tests/conftest.py`` holds plain ``pytest.skip`` calls to the same rule.
"""

import os
import shutil
from typing import NoReturn

import pytest

FALSE_WORDS = ("", "0", "false", "no", "off")
MACHINE_MARK = "this machine has no "


def no_skip() -> bool:
    """Whether a skip for a missing tool counts as a failure."""
    return any(os.environ.get(name, "").lower() not in FALSE_WORDS for name in ("CI", "NRI_NO_SKIP"))


def need(condition: object, what: str) -> None:
    """Go on only if `condition` holds; `what` completes the sentence "needs ...".

    May be called in a test, in a fixture, or at the top of a test module.
    """
    if not condition:
        _missing(what)


def need_tool(name: str) -> str:
    """Go on only if the program `name` is on PATH (sbin folders included); returns its path."""
    path = shutil.which(name, path=_search_path())
    if path is None:
        _missing(f"the program {name!r}")
    return path


def need_root() -> None:
    """Go on only as root."""
    need(os.geteuid() == 0, "root")


def need_module(name: str) -> None:
    """Go on only if the Python module `name` can be imported."""
    try:
        __import__(name)
    except ImportError:
        _missing(f"the Python module {name!r}")


def need_machine(condition: object, what: str) -> None:
    """Go on only if the kernel or hardware has `what`; skips even where other skips fail."""
    if not condition:
        pytest.skip(MACHINE_MARK + what, allow_module_level=True)


def _missing(what: str) -> NoReturn:
    if no_skip():
        pytest.fail(f"needs {what}, and nothing may be skipped here (CI or NRI_NO_SKIP is set)", pytrace=False)
    pytest.skip(f"needs {what}", allow_module_level=True)


def _search_path() -> str:
    path = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([path, "/usr/local/sbin", "/usr/sbin", "/sbin"])
