"""The destination of a process's log is chosen before the first line and created once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.stub.program.process import make_log_if_due
from nri.stub.support import log_destination, logs
from nri.stub.support.log_destination import Destination
from tests.unit.stub.support.test_logs import new_root


@pytest.fixture(autouse=True)
def nothing_chosen_afterwards() -> Iterator[None]:
    yield
    log_destination.take()


def test_the_first_line_creates_the_chosen_log(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with new_root():
        log_destination.choose(Destination(file=str(file)))
        assert not file.exists(), "no line yet"
        logs.adapter("pin").info("first")
    assert file.read_text().endswith("nri.plugin.pin: first\n")
    assert log_destination.take() is None


def test_if_logging_is_imported_the_log_is_created_at_once(tmp_path: Path) -> None:
    with new_root() as root:
        log_destination.choose(Destination("WARNING", file=str(tmp_path / "log")))
        make_log_if_due()
        assert [type(handler) for handler in root.handlers] == [logging.FileHandler]
        assert root.level == logging.WARNING


def test_without_a_choice_no_log_is_created() -> None:
    with new_root() as root:
        make_log_if_due()
        logs.adapter("pin").debug("a guest's line")
        assert root.handlers == []


def test_a_log_file_that_cannot_be_opened_is_a_warning_in_the_other_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with new_root():
        log_destination.choose(Destination(file=str(tmp_path / "none" / "log")))
        logs.adapter("pin").info("all the same")
    err = capfd.readouterr().err
    assert f"cannot log to {tmp_path}/none/log: No such file or directory" in err and "all the same" in err
