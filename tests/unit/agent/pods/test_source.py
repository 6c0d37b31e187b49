"""What sources of pods share."""

import pytest

from nri.agent.pods.source import Known, KnownPods


def test_changed_pods_are_told_and_equal_ones_are_not() -> None:
    known_entry, calls = Known(), []
    known_entry.subscribe(lambda: calls.append(known_entry.pods()))
    known_entry.replace([])
    known_entry.replace([{"metadata": {"uid": "1"}}])
    known_entry.replace([{"metadata": {"uid": "1"}}])
    assert calls == [[], [{"metadata": {"uid": "1"}}]]
    assert known_entry.synced


def test_an_error_keeps_what_is_known_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    known_entry = Known()
    known_entry.replace([{"metadata": {}}])
    known_entry.failed("gone")
    known_entry.failed("gone")
    assert (known_entry.problem, len(known_entry.pods()), known_entry.synced) == ("gone", 1, True)
    assert len(caplog.records) == 1
    known_entry.failed("")
    assert (known_entry.problem, len(caplog.records)) == ("", 1)


def test_a_source_answers_by_what_it_knows() -> None:
    known_entry, calls = Known(), []
    source = KnownPods(known_entry)
    source.subscribe(lambda: calls.append(1))
    assert (source.pods(), source.synced, source.problem) == ([], False, "")
    known_entry.replace([{"metadata": {}}])
    known_entry.failed("old")
    assert (source.pods(), source.synced, source.problem, calls) == ([{"metadata": {}}], True, "old", [1])


def test_the_list_is_the_callers_own() -> None:
    known_entry = Known()
    known_entry.replace([{"metadata": {}}])
    known_entry.pods().clear()
    assert len(known_entry.pods()) == 1


def test_a_listener_that_fails_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    known_entry, calls = Known(), []
    known_entry.subscribe(lambda: 1 / 0)
    known_entry.subscribe(lambda: calls.append(1))
    known_entry.replace([])
    assert calls == [1]
    assert "a listener of changed pods failed" in caplog.text
