"""Where a process logs is chosen before there is a line, and used once."""

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


def test_the_first_line_makes_the_log_that_was_chosen(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with new_root():
        log_destination.choose(Destination(file=str(file)))
        assert not file.exists(), "no line yet"
        logs.adapter("pin").info("first")
    assert file.read_text().endswith("nri.plugin.pin: first\n")
    assert log_destination.take() is None


def test_a_process_that_has_loaded_logging_gets_its_log_at_once(tmp_path: Path) -> None:
    with new_root() as root:
        log_destination.choose(Destination("WARNING", file=str(tmp_path / "log")))
        make_log_if_due()
        assert [type(handler) for handler in root.handlers] == [logging.FileHandler]
        assert root.level == logging.WARNING


def test_where_nothing_was_chosen_nothing_is_made() -> None:
    with new_root() as root:
        make_log_if_due()
        logs.adapter("pin").debug("a guest's line")
        assert root.handlers == []


def test_a_file_that_cannot_be_opened_is_a_warning_where_the_log_goes_instead(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with new_root():
        log_destination.choose(Destination(file=str(tmp_path / "none" / "log")))
        logs.adapter("pin").info("all the same")
    err = capfd.readouterr().err
    assert f"cannot log to {tmp_path}/none/log: No such file or directory" in err and "all the same" in err
