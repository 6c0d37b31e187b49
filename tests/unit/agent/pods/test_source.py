"""Common parts of the sources of pods."""

import pytest

from nri.agent.pods.source import KnownPods, PodList


def test_subscribers_are_notified_of_changed_pods_only() -> None:
    known_entry, calls = PodList(), []
    known_entry.subscribe(lambda: calls.append(known_entry.pods()))
    known_entry.replace([])
    known_entry.replace([{"metadata": {"uid": "1"}}])
    known_entry.replace([{"metadata": {"uid": "1"}}])
    assert calls == [[], [{"metadata": {"uid": "1"}}]]
    assert known_entry.synced


def test_an_error_keeps_the_known_pods_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    known_entry = PodList()
    known_entry.replace([{"metadata": {}}])
    known_entry.failed("gone")
    known_entry.failed("gone")
    assert (known_entry.problem, len(known_entry.pods()), known_entry.synced) == ("gone", 1, True)
    assert len(caplog.records) == 1
    known_entry.failed("")
    assert (known_entry.problem, len(caplog.records)) == ("", 1)


def test_a_source_returns_the_known_pods_and_state() -> None:
    known_entry, calls = PodList(), []
    source = KnownPods(known_entry)
    source.subscribe(lambda: calls.append(1))
    assert (source.pods(), source.synced, source.problem) == ([], False, "")
    known_entry.replace([{"metadata": {}}])
    known_entry.failed("old")
    assert (source.pods(), source.synced, source.problem, calls) == ([{"metadata": {}}], True, "old", [1])


def test_the_returned_list_is_a_copy() -> None:
    known_entry = PodList()
    known_entry.replace([{"metadata": {}}])
    known_entry.pods().clear()
    assert len(known_entry.pods()) == 1


def test_a_failed_listener_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    known_entry, calls = PodList(), []
    known_entry.subscribe(lambda: 1 / 0)
    known_entry.subscribe(lambda: calls.append(1))
    known_entry.replace([])
    assert calls == [1]
    assert "a listener of changed pods failed" in caplog.text
