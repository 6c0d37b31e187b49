"""Evictions: each container once, with a limit of concurrent evictions."""

from __future__ import annotations

import logging
import threading
from functools import partial

import pytest

from nri.cri import evictions
from nri.cri.evictions import Evictions
from nri.errors import NriError
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for


@pytest.fixture
def evictions_(caplog: pytest.LogCaptureFixture) -> Evictions:
    caplog.set_level("INFO")
    return Evictions("evicting", logging.getLogger("nri.test"))


def test_repeated_evictions_end_a_container_once(evictions_: Evictions) -> None:
    ended, go = list[int](), threading.Event()

    def end() -> None:
        assert go.wait(20)
        ended.append(1)

    for _ in range(100):
        evictions_.begin("c", "a\nb", end)
    go.set()
    evictions_.wait()
    evictions_.begin("c", "again", end)
    evictions_.wait()
    assert len(ended) == 2


def test_evictions_above_the_limit_are_logged_once(
    evictions_: Evictions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(evictions, "MAX_EVICTIONS", 2)
    ended = list[str]()
    for turn in range(2):
        go = threading.Event()

        def end(name: str, go: threading.Event = go) -> None:
            assert go.wait(20)
            ended.append(name)

        for name in "abcdef":
            evictions_.begin(f"{name}{turn}", "no room", partial(end, name))
        go.set()
        evictions_.wait()
    assert sorted(ended) == ["a", "a", "b", "b"]
    assert [text for text in caplog.messages if "in progress" in text] == [
        f"container c{turn} and others are not evicted: 2 evictions are in progress" for turn in range(2)
    ]


def test_a_failed_eviction_is_logged_and_can_be_repeated(
    evictions_: Evictions, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise NriError("gone already")

    with no_threads():
        evictions_.begin("c", "no room", fail)
    evictions_.begin("c", "no room", fail)
    evictions_.wait()
    wait_for(lambda: caplog.messages[-1] == "container c could not be evicted: gone already", "the second complaint")
    assert "container c could not be evicted: can't start new thread" in caplog.messages


def test_an_unexpected_error_of_an_eviction_is_logged_and_the_container_can_be_evicted_again(
    evictions_: Evictions, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise LookupError("no such zone")

    finished = threading.Event()
    evictions_.begin("c1", "why", broken)
    evictions_.wait()
    assert "container c1 could not be evicted: no such zone" in caplog.text
    evictions_.begin("c1", "why", finished.set)
    assert finished.wait(20)
