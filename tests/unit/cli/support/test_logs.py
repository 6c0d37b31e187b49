"""The log level of a daemon."""

from __future__ import annotations

import logging

import pytest

from nri.cli.settings import Settings
from nri.cli.support.logs import log_to


@pytest.fixture
def quiet_root() -> logging.Logger:
    """The root logger as a new process has it."""
    root = logging.getLogger()
    saved, level = root.handlers[:], root.level
    root.handlers.clear()
    yield root
    root.handlers[:] = saved
    root.setLevel(level)


@pytest.mark.parametrize(
    ("verbose", "quiet", "level"), [(0, False, "ERROR"), (1, False, "DEBUG"), (0, True, "WARNING")]
)
def test_flags_override_the_level_of_the_settings(quiet_root, verbose: int, quiet: bool, level: str) -> None:
    settings = Settings()
    settings.verbose, settings.quiet = verbose, quiet
    log_to(settings, "error")
    assert logging.getLevelName(quiet_root.level) == level
