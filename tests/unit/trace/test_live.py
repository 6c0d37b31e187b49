"""What happens now, read from a real runtime's admin socket and summed up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

import nri
from nri.adaptation.admin import ask
from nri.errors import ConflictError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.live import MOST_ROWS, Live
from tests.support.made_plugins import plugin


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="nri-live-", dir="/tmp") as folder:
        yield f"{folder}/admin.sock"


def sets(value: str) -> Any:
    return plugin("sets", create_container=lambda *_: nri.Adjustment().add_env("A", value))


def test_calls_conflicts_and_the_health_of_the_chain_are_a_row_for_each_plugin(path: str) -> None:
    live = Live(lambda method, request: ask(path, method, request))
    with FakeRuntime(admin_socket=path) as runtime:
        runtime.add(sets("1"), "10").add(sets("2"), "20")
        assert live.poll() == 0
        for name in ("one", "two"):
            with pytest.raises(ConflictError):
                runtime.create_container(make_pod(), make_container(name=name))
        assert live.poll() == 2
        assert live.poll() == 0
    summary = live.summary()
    assert (summary["events"], summary["failed"], summary["unread"]) == (2, 2, 0)
    assert summary["events_per_s"] > 0 and summary["p99_ms"] >= summary["p50_ms"] > 0
    first, second = summary["plugins"]
    assert (first["plugin"], first["state"], first["calls"], first["refused"]) == ("10-sets", "active", 2, 0)
    assert (second["plugin"], second["calls"], second["refused"], second["conflicts"]) == ("20-sets", 2, 2, 2)


class Socket:
    """An admin socket that answers as it is told: what a real one does only after thousands of events."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, method: str, request: dict[str, Any]) -> dict[str, Any]:
        if method == "Plugins":
            return {"plugins": []}
        self.asked.append(request)
        return self.answers.pop(0)


def rows(begin: int, end: int, time_ms: float = 0.0) -> list[dict[str, Any]]:
    row = {"event": "StopContainer", "duration_ms": 1.0, "error": "", "steps": [], "time_ms": time_ms}
    return [{**row, "n": number} for number in range(begin, end)]


def answer(**given: Any) -> dict[str, Any]:
    return {"run": "a", "next": 0, "more": False, "missed": 0, "rows": [], **given}


def test_a_poll_reads_on_until_there_is_no_more_and_counts_what_it_has_missed() -> None:
    socket = Socket(answer(rows=rows(1, 3), next=2, more=True), answer(rows=rows(8, 9), next=8, missed=5))
    live = Live(socket)
    assert live.poll() == 3
    assert [request["after"] for request in socket.asked] == [0, 2]
    assert live.summary()["unread"] == 5


def test_numbers_go_on_where_a_runtime_begins_anew_and_rows_are_bounded() -> None:
    live = Live(Socket(answer(rows=rows(1, 3), next=2), answer(run="b", rows=rows(1, MOST_ROWS + 1), next=MOST_ROWS)))
    live.poll()
    live.poll()
    assert (len(live.rows), live.rows[0]["n"], live.rows[-1]["n"]) == (MOST_ROWS, 3, MOST_ROWS + 2)


def test_only_the_last_minute_counts() -> None:
    now = [1000.0]
    live = Live(Socket(answer(rows=rows(1, 3, 1000e3)), answer(rows=rows(3, 4, 1090e3))), clock=lambda: now[0])
    live.poll()
    now[0] = 1100.0
    live.poll()
    summary = live.summary()
    assert (summary["seconds"], summary["events"], summary["events_per_s"]) == (60, 1, 0.02)
