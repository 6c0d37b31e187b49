"""What sources of pods share."""

import pytest

from nri.agent.pods.source import Known, KnownPods


def test_changed_pods_are_told_and_equal_ones_are_not() -> None:
    known, calls = Known(), []
    known.subscribe(lambda: calls.append(known.pods()))
    known.replace([])
    known.replace([{"metadata": {"uid": "1"}}])
    known.replace([{"metadata": {"uid": "1"}}])
    assert calls == [[], [{"metadata": {"uid": "1"}}]]
    assert known.synced


def test_an_error_keeps_what_is_known_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    known = Known()
    known.replace([{"metadata": {}}])
    known.failed("gone")
    known.failed("gone")
    assert (known.problem, len(known.pods()), known.synced) == ("gone", 1, True)
    assert len(caplog.records) == 1
    known.failed("")
    assert (known.problem, len(caplog.records)) == ("", 1)


def test_a_source_answers_by_what_it_knows() -> None:
    known, calls = Known(), []
    source = KnownPods(known)
    source.subscribe(lambda: calls.append(1))
    assert (source.pods(), source.synced, source.problem) == ([], False, "")
    known.replace([{"metadata": {}}])
    known.failed("old")
    assert (source.pods(), source.synced, source.problem, calls) == ([{"metadata": {}}], True, "old", [1])


def test_the_list_is_the_callers_own() -> None:
    known = Known()
    known.replace([{"metadata": {}}])
    known.pods().clear()
    assert len(known.pods()) == 1


def test_a_listener_that_fails_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    known, calls = Known(), []
    known.subscribe(lambda: 1 / 0)
    known.subscribe(lambda: calls.append(1))
    known.replace([])
    assert calls == [1]
    assert "could not be looked at" in caplog.text
