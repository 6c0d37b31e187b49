"""The latest finished events: read by number, bounded, and kept only while there is a reader."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.adaptation.adaptation import parts_of
from nri.adaptation.admin import follow
from nri.adaptation.audit.recent import Bounds, Recent
from nri.adaptation.audit.reporting import Reporting
from nri.adaptation.dispatch.event import Event
from nri.adaptation.dispatch.observation import RecordedInvoker
from nri.api import messages as m
from nri.errors import ConflictError, PluginTimeout
from nri.inspector.sources import Recording
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace.recorder import Recorder
from tests.support.made_plugins import plugin

REQUEST = m.CreateContainerRequest(pod=make_pod(name="web"), container=make_container(name="app")).SerializeToString()


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="nri-recent-", dir="/tmp") as folder:
        yield f"{folder}/admin.sock"


def happens(reporting: Reporting, serial: int, request: bytes = REQUEST, plugins: int = 0) -> None:
    """Report a whole event, if a viewer is connected."""
    reporting.event_begins("CreateContainer", serial, request)
    for number in range(plugins):
        reporting.plugin_asked(f"{number:02}-p", "CreateContainer", serial, request)
        reporting.plugin_answered(f"{number:02}-p", "CreateContainer", serial, b"", 0.0)
    reporting.event_ends("CreateContainer", serial, b"", None, 0.0)


@pytest.fixture
def reporting() -> Reporting:
    return Reporting()


def reading(reporting: Reporting, **bounds: Any) -> Recent:
    """One that is being read."""
    recent = Recent(reporting, Bounds(**bounds))
    recent.read("", 0)
    return recent


@pytest.fixture
def recent(reporting: Reporting) -> Recent:
    return reading(reporting)


def read_all(recent: Recent, limit: int = 500) -> list[dict[str, Any]]:
    """Everything, in as many readings as it takes."""
    answer = recent.read("", 0, limit)
    rows: list[dict[str, Any]] = answer["rows"]
    while answer["more"]:
        answer = recent.read(answer["run"], answer["next"], limit)
        rows += answer["rows"]
    return rows


@pytest.mark.parametrize("adjusts", [True, False])
def test_a_validated_creation_is_one_event_with_all_steps(adjusts: bool) -> None:
    with FakeRuntime() as runtime:
        if adjusts:
            runtime.add(plugin("a", create_container=lambda *_: None), idx="10")
        for index in ("90", "91"):
            runtime.add(plugin("v", validate_container_adjustment=lambda *_: None), idx=index)
        recent = reading(parts_of(runtime.adaptation).reporting)
        runtime.create_container()
        (row,) = read_all(recent)
    assert row["event"] == "CreateContainer"
    steps = sorted((step["plugin"], step["event"]) for step in row["steps"])
    validators = [(name, "ValidateContainerAdjustment") for name in ("90-v", "91-v")]
    assert steps == [("10-a", "CreateContainer")][: int(adjusts)] + validators


def env(value: str) -> Any:
    return lambda *_: nri.Adjustment().add_env("A", value)


def test_a_conflict_is_reported_over_the_admin_socket_with_both_steps(path: str) -> None:
    with FakeRuntime(admin_socket=path) as runtime:
        runtime.add(plugin("first", create_container=env("1")), idx="10")
        runtime.add(plugin("second", create_container=env("2")), idx="20")
        begun = next(follow(path, {}))
        with pytest.raises(ConflictError):
            runtime.create_container(make_pod(name="web", namespace="prod"), make_container(name="app", id="c1"))
        answer = next(follow(path, {"run": begun["run"], "after": begun["next"]}))
    (row,) = [row for row in answer["rows"] if row.get("event") == "CreateContainer"]
    assert (row["pod"], row["container"], row["container_id"]) == ("prod/web", "app", "c1")
    first, second = row["steps"]
    assert (first["plugin"], first["refused"], first["conflict"]) == ("10-first", "", False)
    assert (second["plugin"], second["conflict"]) == ("20-second", True)
    assert "10-first" in second["refused"] and "20-second" in row["error"]
    assert second["at_ms"] >= first["at_ms"] >= 0 and row["duration_ms"] > 0


def test_a_plugins_request_time_is_never_before_the_previous_reply(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin_asked = RecordedInvoker.plugin_asked

    def late(invoker: RecordedInvoker, peer: Any, event: Event) -> None:
        if not event.reported:  # the first report of an event comes after its first request
            time.sleep(0.02)
        plugin_asked(invoker, peer, event)

    monkeypatch.setattr(RecordedInvoker, "plugin_asked", late)
    with Recorder(tmp_path) as recorder, FakeRuntime(admin_socket=path, reporters=[recorder]) as runtime:
        for index in ("10", "20", "30"):
            runtime.add(plugin("slow", create_container=lambda *_: time.sleep(0.03)), idx=index)
        begun = next(follow(path, {}))
        runtime.create_container(make_pod(), make_container())
        answer = next(follow(path, {"run": begun["run"], "after": begun["next"]}))
    live = [row for row in answer["rows"] if row.get("event") == "CreateContainer"]
    source = Recording(str(tmp_path))
    source.read()
    recorded = [row for row in source.events()["rows"] if row["event"] == "CreateContainer"]
    for row in (*live, *recorded):
        bars = [(step["at_ms"], step["at_ms"] + step["duration_ms"]) for step in row["steps"]]
        assert len(bars) == 3 and bars[0][0] >= 0
        assert all(begins >= ended - 0.001 for (_, ended), (begins, _) in pairwise(bars)), bars
    assert len(live) == len(recorded) == 1
    assert (
        max(at + took for at, took in [(s["at_ms"], s["duration_ms"]) for s in live[0]["steps"]])
        <= (live[0]["duration_ms"])
    ), "no bar ends after its event"


@pytest.mark.parametrize("fails", [False, True])
def test_an_event_and_its_steps_start_their_duration_before_their_end(
    reporting: Reporting, recent: Recent, fails: bool
) -> None:
    begun, taken_s = time.time(), 0.05
    time.sleep(taken_s)
    reporting.event_begins("CreateContainer", 1, REQUEST)
    reporting.plugin_asked("10-p", "CreateContainer", 1, REQUEST)
    if fails:
        reporting.plugin_failed("10-p", "CreateContainer", 1, PluginTimeout("10-p", "no answer"), taken_s)
    else:
        reporting.plugin_answered("10-p", "CreateContainer", 1, b"", taken_s)
    reporting.event_ends("CreateContainer", 1, b"", None, taken_s)
    (row,) = read_all(recent)
    assert begun <= row["time_ms"] / 1e3 <= time.time() - taken_s
    assert row["steps"][0]["at_ms"] == 0.0, "not before its event, though it has ended before that"


def test_a_connecting_plugin_is_a_row(path: str) -> None:
    with FakeRuntime(admin_socket=path) as runtime:
        next(follow(path, {}))
        runtime.add(plugin("guest", create_container=env("1")), idx="10")
        rows = next(follow(path, {}))["rows"]
    assert ("10-guest", "active") in [(row["plugin"], row["state"]) for row in rows if "state" in row]


def test_a_timeout_is_a_miss_and_a_plugins_text_is_one_line(reporting: Reporting, recent: Recent) -> None:
    reporting.event_begins("CreateContainer", 1, REQUEST)
    reporting.plugin_asked("10-a", "CreateContainer", 1, REQUEST)
    reporting.plugin_failed("10-a", "CreateContainer", 1, PluginTimeout("10-a", "too\nlate" * 1000), 2.0)
    reporting.event_ends("CreateContainer", 1, b"", None, 0.0)
    (row,) = read_all(recent)
    (step,) = row["steps"]
    assert step["missed"] and step["duration_ms"] == 2000
    assert "\n" not in step["error"] and len(step["error"]) <= 500


def test_readers_of_any_speed_read_every_row_once_in_order(reporting: Reporting, recent: Recent) -> None:
    for serial in range(20):
        happens(reporting, serial)
    for number in (1, 7, 500):
        assert [row["serial"] for row in read_all(recent, number)] == list(range(20))


def test_a_slow_reader_learns_the_number_of_missed_rows(reporting: Reporting) -> None:
    recent = reading(reporting, rows=10)
    happens(reporting, 0)
    answer = recent.read("", 0)
    for serial in range(1, 31):
        happens(reporting, serial)
    answer = recent.read(answer["run"], answer["next"])
    assert answer["missed"] == 20
    assert [row["serial"] for row in answer["rows"]] == list(range(21, 31))


@pytest.mark.parametrize("bounds", [{"steps": 30}, {"request_bytes": 10 * len(REQUEST)}], ids=str)
def test_steps_and_bytes_are_limited(reporting: Reporting, bounds: dict[str, int]) -> None:
    recent = reading(reporting, **bounds)
    for serial in range(100):
        happens(reporting, serial, plugins=2)
    assert [row["serial"] for row in read_all(recent)] == list(range(90, 100))


def test_unfinished_events_and_endless_plugins_are_limited(reporting: Reporting) -> None:
    recent = reading(reporting, open=5, plugins=3)
    for serial in range(10):
        reporting.event_begins("CreateContainer", serial, REQUEST)
    for serial in range(10):
        for number in range(5):
            reporting.plugin_asked(f"{number:02}-p", "CreateContainer", serial, REQUEST)
        reporting.event_ends("CreateContainer", serial, b"", None, 0.0)
    assert [(row["serial"], len(row["steps"])) for row in read_all(recent)] == [(serial, 3) for serial in range(5, 10)]


@pytest.mark.parametrize(("read_bytes", "rows"), [(1, 1), (8000, 2), (1 << 20, 5)])
def test_a_reading_has_a_byte_limit_and_at_least_one_row(reporting: Reporting, read_bytes: int, rows: int) -> None:
    recent = reading(reporting, read_bytes=read_bytes)
    for serial in range(5):
        happens(reporting, serial, plugins=20)
    assert [len(recent.read("", 0)["rows"]), len(read_all(recent))] == [rows, 5]


@pytest.mark.parametrize("request_", [b"\xff\xff", b"", b"\0" * ((1 << 20) + 1)])
def test_an_unreadable_or_oversized_request_is_a_row_without_names(
    reporting: Reporting, recent: Recent, request_: bytes
) -> None:
    happens(reporting, 1, request_)
    (row,) = read_all(recent)
    assert (row["pod"], row["container"]) == ("", "")


def test_an_event_that_began_before_the_first_reading_is_left_out(reporting: Reporting, recent: Recent) -> None:
    reporting.event_begins("CreateContainer", 1, REQUEST)
    reporting.event_ends("CreateContainer", 1, b"", None, 3600.0)
    reporting.event_ends("CreateContainer", 2, b"", None, 0.0)
    assert read_all(recent) == []


def test_rows_are_kept_only_between_the_first_and_the_last_reading(reporting: Reporting) -> None:
    unread = Recent(reporting, Bounds(unread_s=0.0))
    assert not reporting.watched
    begun = unread.read("", 0)
    assert reporting.recorded
    happens(reporting, 1)
    assert not reporting.recorded and not reporting.watched
    content = unread.read(begun["run"], begun["next"])
    assert content["rows"] == [] and content["run"] != begun["run"]
    assert reporting.recorded


def test_replies_in_any_order_belong_to_their_plugin(reporting: Reporting, recent: Recent) -> None:
    reporting.event_begins("CreateContainer", 1, REQUEST)
    for plugin_name in ("10-a", "20-b"):
        reporting.plugin_asked(plugin_name, "CreateContainer", 1, REQUEST)
    for plugin_name, duration_s in (("10-a", 0.001), ("30-never-asked", 7.0), ("20-b", 0.002)):
        reporting.plugin_answered(plugin_name, "CreateContainer", 1, b"", duration_s)
    reporting.event_ends("CreateContainer", 1, b"", None, 0.0)
    reporting.plugin_answered("10-a", "CreateContainer", 1, b"", 9.0)
    (row,) = read_all(recent)
    assert [(step["plugin"], step["duration_ms"]) for step in row["steps"]] == [("10-a", 1.0), ("20-b", 2.0)]


@pytest.mark.parametrize(
    ("event", "request_bytes", "names"),
    [
        ("Synchronize", m.SynchronizeRequest(pods=[make_pod()]).SerializeToString(), ("", "")),
        ("RunPodSandbox", m.RunPodSandboxRequest(pod=m.PodSandbox(name="web")).SerializeToString(), ("web", "")),
        ("CreateContainer", b"\xff", ("", "")),
        ("NewerThanThis", b"\x00", ("", "")),
    ],
)
def test_an_event_has_the_names_of_its_request(
    reporting: Reporting, recent: Recent, event: str, request_bytes: bytes, names: tuple[str, str]
) -> None:
    reporting.event_begins(event, 1, request_bytes)
    reporting.event_ends(event, 1, b"", None, 0.0)
    assert [(row["pod"], row["container"]) for row in read_all(recent)] == [names]
