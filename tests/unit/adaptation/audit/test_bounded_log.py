"""Lines that others can cause: some of each kind a minute, then a number."""

from __future__ import annotations

import logging

import pytest

from nri.adaptation.audit import bounded_log
from nri.adaptation.audit.bounded_log import MAX_LINES, BoundedLog

LOG = logging.getLogger("nri.adaptation")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    matches = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return matches


@pytest.mark.pure
def test_a_flood_is_some_lines_and_one_with_the_number_of_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(bounded_log, "monotonic", lambda: clock[0])
    lines = BoundedLog(LOG)
    for number in range(5000):
        lines.line("refused", logging.WARNING, "refused %d", number)
    lines.line("other", logging.WARNING, "another kind")
    assert told(caplog) == [f"refused {number}" for number in range(MAX_LINES)] + ["another kind"]
    clock[0] += 30
    lines.flush()
    assert told(caplog) == [], "its minute is not over"
    clock[0] += 31
    lines.flush()
    assert told(caplog) == [f"refused: {5000 - MAX_LINES} more in the last minute"]
    lines.flush()
    lines.line("refused", logging.WARNING, "refused again")
    assert told(caplog) == ["refused again"]


@pytest.mark.pure
def test_the_number_is_told_with_the_next_line_where_nobody_flushes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(bounded_log, "monotonic", lambda: clock[0])
    lines = BoundedLog(LOG)
    for _ in range(MAX_LINES + 7):
        lines.line("refused", logging.WARNING, "refused")
    told(caplog)
    clock[0] += 61
    lines.line("refused", logging.WARNING, "refused again")
    assert told(caplog) == ["refused: 7 more in the last minute", "refused again"]
    for _ in range(MAX_LINES + 1):
        lines.line("refused", logging.WARNING, "and again")
    assert told(caplog) == ["and again"] * (MAX_LINES - 1), "it begins a minute of its own"
    clock[0] += 61
    lines.flush()
    assert told(caplog) == ["refused: 2 more in the last minute"]
