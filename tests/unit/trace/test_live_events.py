"""Live events from a real runtime's admin socket, and their summary."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import nri
from nri.adaptation.admin import ask, follow
from nri.errors import ConflictError, DeadlineExceeded, NriError, RemoteProtocolError, RuntimeUnavailable
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.live_events import MAX_ROWS, Live
from tests.support.made_plugins import plugin
from tests.support.waiting import wait_for


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="nri-live-", dir="/tmp") as folder:
        yield f"{folder}/admin.sock"


def sets(value: str) -> Any:
    return plugin("sets", create_container=lambda *_: nri.Adjustment().add_env("A", value))


def live_of(path: str) -> Live:
    return Live(lambda method, request: ask(path, method, request), lambda request: follow(path, request))


def test_each_plugin_has_a_row_with_calls_conflicts_and_health(path: str) -> None:
    with FakeRuntime(admin_socket=path) as runtime:
        runtime.add(sets("1"), "10").add(sets("2"), "20")
        with live_of(path) as live:
            for name in ("one", "two"):
                with pytest.raises(ConflictError):
                    runtime.create_container(make_pod(), make_container(name=name))
            live.wait(1, 60.0)
            assert [row["n"] for row in live.rows()] == [1, 2]
            assert [row["container"] for row in live.rows(1)] == ["two"] and live.rows(2) == []
            summary = live.summary()
    assert (summary["events"], summary["failed"], summary["unread"]) == (2, 2, 0)
    assert summary["events_per_s"] > 0 and summary["p99_ms"] >= summary["p50_ms"] > 0
    first, second = summary["plugins"]
    assert (first["plugin"], first["state"], first["calls"], first["refused"]) == ("10-sets", "active", 2, 0)
    assert (second["plugin"], second["calls"], second["refused"], second["conflicts"]) == ("20-sets", 2, 2, 2)


def test_a_lost_runtime_is_reported_and_read_again_after_its_restart(path: str) -> None:
    def missed() -> bool:
        try:
            live.summary()
        except NriError:
            return True
        return False

    with FakeRuntime(admin_socket=path) as runtime:
        live = live_of(path)
        live.start()
        runtime.create_container(make_pod(), make_container())
        live.wait(0, 60.0)
    with contextlib.closing(live):
        wait_for(missed, "that it has gone")
        with FakeRuntime(admin_socket=path) as runtime:
            wait_for(lambda: not missed(), "that it is back")

            def is_restored() -> bool:
                runtime.create_container(make_pod(), make_container(name="later"))
                return any(row["container"] == "later" for row in live.rows(1))

            wait_for(is_restored, "an event of the new one")


def test_without_a_runtime_the_start_raises(path: str) -> None:
    with pytest.raises(RuntimeUnavailable):
        live_of(path).start()


def test_a_silent_runtime_is_awaited_for_the_given_time() -> None:
    over = threading.Event()

    def silent(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        over.wait(60.0)
        yield from ()

    try:
        with pytest.raises(DeadlineExceeded, match=r"waiting for the first reading \(0.05 s\)"):
            Live(lambda *_: {}, silent, first_s=0.05).start()
    finally:
        over.set()


def rows(begin: int, end: int, time_ms: float = 0.0) -> list[dict[str, Any]]:
    row = {"event": "StopContainer", "duration_ms": 1.0, "error": "", "steps": [], "time_ms": time_ms}
    return [{**row, "n": number} for number in range(begin, end)]


def reading(**fields: Any) -> dict[str, Any]:
    return {"run": "a", "next": 0, "more": False, "missed": 0, "rows": [], **fields}


def live_after(*readings: dict[str, Any], now: float = 1100.0) -> Live:
    """A `Live` after these readings, which a runtime would send only after thousands of events."""
    live = Live(lambda *_: {"plugins": []}, lambda _: iter(()), clock=lambda: now)
    for reading_ in readings:
        live.take(reading_)
    return live


def test_missed_events_are_counted() -> None:
    live = live_after(reading(rows=rows(1, 3), next=2), reading(rows=rows(8, 9), next=8, missed=5))
    assert live.summary()["unread"] == 5


def test_numbers_continue_after_a_restart_of_the_runtime_and_rows_are_bounded() -> None:
    live = live_after(reading(rows=rows(1, 3), next=2), reading(run="b", rows=rows(1, MAX_ROWS + 1), next=MAX_ROWS))
    stored = live.rows()
    assert (len(stored), stored[0]["n"], stored[-1]["n"]) == (MAX_ROWS, 3, MAX_ROWS + 2)
    assert [row["n"] for row in live.rows(MAX_ROWS + 1)] == [MAX_ROWS + 2]


def test_the_summary_covers_the_last_minute() -> None:
    summary = live_after(reading(rows=rows(1, 3, 1000e3)), reading(rows=rows(3, 4, 1090e3))).summary()
    assert (summary["seconds"], summary["events"], summary["events_per_s"]) == (60, 1, 0.02)


def test_the_rate_is_computed_from_the_rows_in_memory() -> None:
    summary = live_after(reading(rows=rows(1, MAX_ROWS + 2, 1080e3))).summary()
    assert (summary["seconds"], summary["events"], summary["events_per_s"]) == (20, MAX_ROWS, 500)


@pytest.mark.parametrize(
    ("row", "health"),
    [({"n": 1}, []), ({"time_ms": 0, "steps": [{}], "duration_ms": 1.0}, []), ({}, []), ({}, [{}]), ({}, [5]), ({}, 7)],
)
def test_rows_in_another_format_are_an_error(row: dict[str, Any], health: Any) -> None:
    live = Live(lambda *_: {"plugins": health}, lambda _: iter(()), clock=lambda: 0.0)
    live.take(reading(rows=[row]))
    with pytest.raises(RemoteProtocolError, match="invalid rows of plugins or events"):
        live.summary()
