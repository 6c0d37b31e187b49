"""Log lines that others can cause: a few of each kind per minute, then a count."""

from __future__ import annotations

import logging

import pytest

from nri.adaptation.audit import bounded_log
from nri.adaptation.audit.bounded_log import MAX_LINES, BoundedLog

LOG = logging.getLogger("nri.adaptation")


def take_messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return messages


@pytest.mark.pure
def test_a_flood_logs_some_lines_and_the_number_of_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(bounded_log, "monotonic", lambda: clock[0])
    lines = BoundedLog(LOG)
    for number in range(5000):
        lines.line("refused", logging.WARNING, "refused %d", number)
    lines.line("other", logging.WARNING, "another kind")
    assert take_messages(caplog) == [f"refused {number}" for number in range(MAX_LINES)] + ["another kind"]
    clock[0] += 30
    lines.flush()
    assert take_messages(caplog) == [], "its minute is not over"
    clock[0] += 31
    lines.flush()
    assert take_messages(caplog) == [f"refused: {5000 - MAX_LINES} more in the last minute"]
    lines.flush()
    lines.line("refused", logging.WARNING, "refused again")
    assert take_messages(caplog) == ["refused again"]


@pytest.mark.pure
def test_without_a_flush_the_number_is_logged_with_the_next_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(bounded_log, "monotonic", lambda: clock[0])
    lines = BoundedLog(LOG)
    for _ in range(MAX_LINES + 7):
        lines.line("refused", logging.WARNING, "refused")
    take_messages(caplog)
    clock[0] += 61
    lines.line("refused", logging.WARNING, "refused again")
    assert take_messages(caplog) == ["refused: 7 more in the last minute", "refused again"]
    for _ in range(MAX_LINES + 1):
        lines.line("refused", logging.WARNING, "and again")
    assert take_messages(caplog) == ["and again"] * (MAX_LINES - 1), "these lines begin another minute"
    clock[0] += 61
    lines.flush()
    assert take_messages(caplog) == ["refused: 2 more in the last minute"]
