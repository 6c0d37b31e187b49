"""Idle connections are watched, and calls in quick succession are not slowed down."""

from __future__ import annotations

import time

import pytest

from nri.ttrpc import Endpoint, Monitor
from nri.ttrpc.link import Link
from nri.ttrpc.monitor import IdleWatcher
from tests.support.endpoints import soon
from tests.support.waiting import wait_for


def test_a_monitor_serves_requests_between_calls(pairs) -> None:
    monitor = Monitor()
    try:
        pair = pairs(near_request=lambda r: b"served by the monitor")
        monitor.add(pair.near)
        for _ in range(5):
            assert pair.far.start("t", "m", b"", soon(), lambda r: None) is None
            assert pair.call(b"x") == b"x"
        replies: list[object] = []
        pair.far.start("t", "m", b"", soon(), replies.append)
        until = soon()
        while not replies and time.monotonic() < until:
            time.sleep(0.001)
        assert replies[0].payload == b"served by the monitor"
    finally:
        monitor.stop()


def test_requests_of_the_peer_after_a_burst_of_calls_are_served(pairs) -> None:
    monitor = Monitor()
    try:
        pair = pairs(near_request=lambda r: r.payload)
        monitor.add(pair.near)
        for n in range(5):
            for _ in range(10):
                pair.call()
            assert pair.far.call("t", "m", b"%d" % n, deadline=soon()) == b"%d" % n
    finally:
        monitor.stop()


@pytest.mark.pure
def test_the_monitor_rests_after_a_connection_ends(pairs) -> None:
    looks: list[object] = []

    class Counting(Monitor):
        def _look(self, last_s: float | None) -> float | None:
            looks.append(last_s)
            return super()._look(last_s)

    monitor = Counting()
    try:
        pair = pairs()
        monitor.add(pair.near)
        for _ in range(5):
            pair.call()
        pair.near.close()
        time.sleep(0.3)
        assert len(looks) < 30, "the monitor is notified of the end again and again"
    finally:
        monitor.stop()


@pytest.mark.pure
def test_between_calls_in_quick_succession_the_connection_is_not_watched(
    pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri.ttrpc.monitor.CLOSE_S", 60.0)
    messages: list[int] = []

    class Counting(Monitor):
        def modify(self, link: Link, events: int) -> None:
            messages.append(events)
            super().modify(link, events)

    monitor = Counting()
    try:
        pair = pairs()
        monkeypatch.setattr("nri.ttrpc.monitor.CHECK_INTERVAL_S", 60.0)
        monitor.add(pair.near)
        for _ in range(100):
            pair.call()
        assert len(messages) <= 3, "it is watched, or said to be read, at every call"
    finally:
        monitor.stop()


def test_calls_work_after_the_monitor_is_stopped(pairs) -> None:
    monitor = Monitor()
    pair = pairs()
    monitor.add(pair.near)
    for _ in range(5):
        pair.call()
    monitor.stop()
    for _ in range(5):
        assert pair.call(b"on") == b"on"


@pytest.mark.parametrize("calls", [1, 5], ids=["one call", "a burst of calls"])
def test_a_monitor_notices_a_disconnect_between_calls(pairs, calls: int) -> None:
    monitor = Monitor()
    try:
        pair = pairs()
        monitor.add(pair.near)
        for _ in range(calls):
            pair.call()
        pair.far.close()
        until = soon()
        while not pair.closed and time.monotonic() < until:
            time.sleep(0.001)
        assert pair.closed == ["closed"]
    finally:
        monitor.stop()


@pytest.mark.pure
def test_an_unreadable_connection_is_closed_and_others_are_served(
    pairs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = Monitor()
    try:
        broken, sound = pairs(), pairs(near_request=lambda r: b"served")
        poll = Endpoint.poll

        def fail(endpoint: Endpoint) -> bool:
            if endpoint is broken.near:
                raise ZeroDivisionError("in the endpoint")
            return poll(endpoint)

        monkeypatch.setattr(Endpoint, "poll", fail)
        for pair in (broken, sound):
            monitor.add(pair.near)
        broken.far.start("t", "m", b"", soon(), lambda response: None)
        assert sound.far.call("t", "m", b"", deadline=soon()) == b"served"
        wait_for(lambda: broken.closed == ["closed (it could not be read)"], "it is closed")
    finally:
        monitor.stop()
    assert "failed to read a connection; it is closed" in caplog.text


def test_removing_and_stopping_twice_has_no_effect(pairs) -> None:
    monitor = Monitor()
    pair = pairs()
    monitor.add(pair.near)
    for _ in range(2):
        monitor.remove(pair.near)
    for _ in range(2):
        monitor.stop()
    assert pair.call(b"x") == b"x"


def test_a_connection_with_a_closed_descriptor_is_removed_without_an_error(pairs) -> None:
    monitor = Monitor()
    try:
        pair = pairs()
        monitor.add(pair.near)
        monitor.epoll.unregister(pair.near.fileno())
        monitor.modify(pair.near.link, 0)
        monitor.remove(pair.near)
        assert pair.call(b"x") == b"x"
    finally:
        monitor.stop()


class Noted:
    """A monitor that notes what a watcher asks of it, and does nothing."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def modify(self, _: object, events: int) -> None:
        self.asked.append(events)

    def add_resting(self, watch: object) -> None:
        self.asked.append("rest")


@pytest.mark.pure
def test_a_watcher_requests_a_change_once(pairs) -> None:
    noted = Noted()
    watch = IdleWatcher(noted, pairs().near.link)
    watch.busy()
    watch.busy()
    assert len(noted.asked) == 1
    watch.release(100.0)
    watch.release(100.0)
    watch.release(100.0)
    assert noted.asked[2:] == ["rest"], "calls that follow each other closely rest, once"
    assert not watch.settled(100.0)
    assert watch.resting, "a caller came just now"
    assert watch.settled(200.0)
    assert not watch.resting


def test_a_stopped_monitor_watches_no_connection(pairs) -> None:
    monitor, pair = Monitor(), pairs()
    monitor.stop()
    monitor.add(pair.near)
    assert pair.near.link.watch is None
    watch = IdleWatcher(monitor, pair.near.link)
    monitor.add_resting(watch)
    monitor.modify(pair.near.link, 0)
    assert pair.call(b"x") == b"x"


def test_a_handler_can_stop_its_monitor(pairs) -> None:
    monitor = Monitor()
    stopped: list[bool] = []

    def stop(request) -> bytes:
        monitor.stop()
        stopped.append(True)
        return b"stopped"

    pair = pairs(near_request=stop)
    monitor.add(pair.near)
    assert pair.far.call("t", "m", b"", deadline=soon()) == b"stopped"
    assert stopped == [True]
