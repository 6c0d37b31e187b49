"""Data of the page, from a live runtime and from a recording."""

from __future__ import annotations

import json
import threading
import tracemalloc
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.admin import follow
from nri.errors import ConfigError
from nri.inspector.filters import OUTCOMES, Filter
from nri.inspector.sources import Recording, Running, Source, SourceUnavailable
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace import blocks
from nri.trace.history import Trace
from nri.trace.live_events import Live
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Recorder
from nri.wire import bytes_field
from tests.support.made_plugins import plugin
from tests.support.odd_blocks import odd_block
from tests.support.waiting import wait_for
from tests.unit.inspector.conftest import Node


@pytest.fixture(params=["running", "recording"])
def source(request: pytest.FixtureRequest) -> Source:
    """Both kinds."""
    fixture: Source = request.getfixturevalue(request.param)
    if request.param == "running":
        until_seen(fixture)
    return fixture


def until_seen(source: Source) -> None:
    """Wait until a runtime's rows are read anew: it is asked only now and then."""
    wait_for(lambda: len(created(source)) >= 3, "three events are seen")


def created(source: Source) -> list[dict[str, object]]:
    """The creations, the oldest first."""
    rows: list[dict[str, object]] = source.events("", Filter(event="CreateContainer"))["rows"]
    return rows[::-1]


def test_the_overview_has_figures_and_a_row_per_plugin(source: Source) -> None:
    overview = source.overview()
    assert overview["failed"] == 2 and overview["events"] >= 3 and overview["p99_ms"] >= overview["p50_ms"] > 0
    rows = [(row["plugin"], row["calls"] >= 3, row["conflicts"], row["errors"]) for row in overview["plugins"]]
    assert rows == [("10-sets", True, 0, 0), ("20-other", True, 1, 1)]
    json.dumps(overview)


def test_events_are_rows_with_the_time_of_each_plugin_and_the_outcome(source: Source) -> None:
    fine, fight, bad = created(source)
    assert [row["container"] for row in (fine, fight, bad)] == ["app", "fight", "bad"]
    assert [step["plugin"] for step in fine["steps"]] == ["10-sets", "20-other"]  # type: ignore[attr-defined]
    assert fight["steps"][1]["conflict"] and "both tried to set" in str(fight["error"])  # type: ignore[index]
    assert "not this one" in bad["steps"][1]["error"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "number"),
    [("APP", ["app"]), ("both tried", ["fight"]), ("c3", ["bad"]), ("20-OTHER", ["app", "fight", "bad"]), ("zzz", [])],
)
def test_a_search_finds_names_ids_plugins_and_errors(source: Source, text: str, number: list[str]) -> None:
    rows = source.events("", Filter(text))["rows"]
    assert [row["container"] for row in rows if row["event"] == "CreateContainer"] == number[::-1]


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (Filter(plugin="10-sets"), ["bad", "fight", "app"]),
        (Filter(plugin="sets"), []),
        (Filter(outcome="ok"), ["app"]),
        (Filter(outcome="problem"), ["bad", "fight"]),
        (Filter(outcome="failed", text="app"), []),
        (Filter(outcome="conflict"), ["fight"]),
        (Filter(outcome="refused"), ["fight"]),
        (Filter(outcome="missed"), []),
        (Filter(outcome="nonsense"), []),
        (Filter(event="StopContainer"), []),
        (Filter(min_ms=1e6), []),
    ],
)
def test_filters_select_events_by_plugin_event_outcome_and_duration(
    source: Source, chosen: Filter, names: list[str]
) -> None:
    if not chosen.event:
        chosen = chosen._replace(event="CreateContainer")
    assert [row["container"] for row in source.events("", chosen)["rows"]] == names


def test_a_filter_is_read_from_a_request_and_invalid_durations_select_all() -> None:
    parameters = {"q": "x" * 999, "plugin": "10-a", "event": "StopContainer", "outcome": "ok", "min": "10"}
    assert Filter.of(parameters) == ("x" * 256, "10-a", "StopContainer", "ok", 10.0)
    assert [Filter.of({"min": text}).min_ms for text in ("", "-1", "1e9", "nan", "٣", "9" * 99)] == [0] * 5 + [99999999]


def test_the_overview_has_choices_for_filters_and_each_plugins_calls_over_time(source: Source) -> None:
    overview = source.overview()
    assert "CreateContainer" in overview["choices"]["events"] and overview["choices"]["outcomes"] == [*OUTCOMES]
    series = overview["series"]
    assert sum(series["plugins"]["10-sets"]["calls"]) == overview["plugins"][0]["calls"]
    assert {len(row) for plugin in series["plugins"].values() for row in plugin.values()} == {60}
    longest = max(value or 0 for value in series["plugins"]["20-other"]["p99_ms"])
    assert overview["plugins"][1]["p99_ms"] <= longest * 1.001 <= overview["plugins"][1]["p99_ms"] * 1.1


def test_a_running_source_names_the_runtime_and_its_version(running: Running) -> None:
    runtime = running.overview()["runtime"]
    assert (runtime["name"], runtime["version"]) == ("fake", "v1.0.0") and runtime["protocol"].startswith("v0.")


def test_an_event_is_found_by_its_key(source: Source) -> None:
    for row in created(source):
        event = source.event(str(row["key"]))
        assert event is not None and event["serial"] == row["serial"]
    for key in ("", "x", "9" * 60, "-", "1-2-3", "٣"):
        assert source.event(key) is None


def test_events_can_be_read_page_by_page(source: Source) -> None:
    begin = source.events("", Filter(), 1)
    keys = [begin["rows"][0]["key"]]
    while begin["more"]:
        begin = source.events(begin["next"], Filter(), 1)
        keys += [row["key"] for row in begin["rows"]]
    assert len(keys) == len(set(keys)) >= 3
    assert [row["key"] for row in created(source)][::-1] == keys[:3]


def test_events_can_be_read_from_a_time_backwards(source: Source) -> None:
    fine, fight, _ = created(source)
    begin = str(int(fight["time_ms"] * 1e6) + 10**6 // 2)  # type: ignore[operator]
    rows = source.events(begin, Filter(event="CreateContainer"))["rows"]
    assert [row["key"] for row in rows][-1] == fine["key"] and len(rows) < 3 + 1
    assert source.events("1000000000")["rows"] == []


def written(path: Path, *times_s: int) -> Recording:
    """A recording with an event at each of these times. Each event has its own block and ends in the next block."""
    data, begun = [blocks.MAGIC], [t.Record(kind=t.OPENED, about={"recording": "one"}, time_ns=times_s[0] * 10**9)]
    for serial, time_s in enumerate(times_s, 1):
        at = {"serial": serial, "event": "StartContainer", "time_ns": time_s * 10**9}
        records = [*begun, t.Record(kind=t.BEGINS, **at)]
        raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
        times = sorted(record.time_ns for record in records)
        data.append(blocks.pack(raw, len(records), times[0], times[-1]))
        begun = [t.Record(kind=t.ENDS, **{**at, "time_ns": (time_s + 1) * 10**9})]
    (path / "a.nritrace").write_bytes(b"".join(data))
    source = Recording(str(path / "a.nritrace"))
    source.read()
    return source


@pytest.mark.parametrize("times", [(1000, 1001, 1002, 1003), (2000, 2010, 1000, 1010, 1020), (1000, 2000, 500, 1500)])
def test_pages_have_all_events_once_and_in_order_even_after_a_clock_change(
    tmp_path: Path, times: tuple[int, ...]
) -> None:
    source = written(tmp_path, *times)
    rows = list(source.rows(100, 0))
    one_by_one: list[dict[str, Any]] = []
    answer = source.events("", Filter(), 1)
    while answer["more"] and len(one_by_one) < 100:
        one_by_one += answer["rows"]
        answer = source.events(answer["next"], Filter(), 1)
    assert rows == one_by_one + answer["rows"]
    assert [row["serial"] for row in rows] == list(range(len(times), 0, -1))
    assert [row["whole"] for row in rows] == [False] + [True] * (len(times) - 1)
    keys = [row["key"] for row in rows]
    assert [number and number["key"] for number in map(source.event, keys)] == keys


def test_events_with_equal_keys_are_not_read_endlessly(tmp_path: Path) -> None:
    at = {"serial": 7, "event": "StartContainer", "time_ns": 1}
    records = [t.Record(kind=kind, **at) for _ in range(700) for kind in (t.BEGINS, t.ENDS)]
    raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
    path = tmp_path / "a.nritrace"
    path.write_bytes(blocks.MAGIC + blocks.pack(raw, len(records), 1, 1))
    source = Recording(str(path))
    source.read()
    assert 0 < len(list(source.rows(5000, 0))) <= 1000
    answer, pages = source.events(), 1
    while answer["more"]:
        answer, pages = source.events(answer["next"]), pages + 1
    assert pages < 10


def test_the_page_ends_where_a_file_was_removed(tmp_path: Path) -> None:
    source = written(tmp_path, 1000, 2000, 3000)
    (tmp_path / "a.nritrace").write_bytes(blocks.MAGIC)
    answer = source.events()
    assert (answer["rows"], answer["more"]) == ([], False)


@pytest.mark.parametrize("key", ["x", "7.", ".7", "9" * 60, "-", "1-2-3", "٣.٣"])
def test_invalid_positions_are_answered_with_events_or_none(source: Source, key: str) -> None:
    assert len(source.events(key)["rows"]) <= len(source.events()["rows"])


def test_a_container_has_its_chain_of_changes(source: Source) -> None:
    assert {"c1"} <= {row["id"] for row in source.containers()["containers"]}
    chain = source.container("c1")
    assert chain is not None
    assert [(step["plugin"], step["key"], step["before"], step["after"]) for step in chain["steps"]] == [
        ("10-sets", "A", "0", "1")
    ]
    assert chain["state"].startswith(("created", "present")) and chain["image"]["name"] == "docker.io/app:1"
    values = {(row["field"], row["key"]): (row["value"], row["plugin"]) for row in chain["values"]}
    assert values["Env", "A"] == ("1", "10-sets") and values["Args", ""] == (["/app"], "(request)")
    assert source.container("nothing") is None


def test_a_recorded_event_has_request_and_answers(recording: Recording) -> None:
    row = recording.event(str(created(recording)[0]["key"]))
    assert row is not None
    assert row["request"]["container"]["name"] == "app"
    assert row["steps"][0]["reply"]["adjust"]["env"] == [{"key": "A", "value": "1"}]


def test_a_recorded_row_starts_with_the_first_step_of_its_event(recording: Recording, recorded: str) -> None:
    rows = recording.events()["rows"][::-1]
    events = list(Trace(recorded).events())
    assert [row["time_ms"] for row in rows] == [event.first_ns / 1e6 for event in events] != []
    begins = [[row["time_ms"] + step["at_ms"] for step in row["steps"]] for row in rows]
    assert begins == [pytest.approx([step.time_ns / 1e6 for step in event.steps], abs=0.002) for event in events]


def test_a_recording_answers_before_it_is_read_and_reports_damage(broken: str) -> None:
    source = Recording(broken)
    overview = source.overview()
    assert (overview["done"], overview["events"]) == (False, 0)
    assert "truncated" in overview["problems"][0]
    source.close()
    source.read()
    assert not source.overview()["done"], "it has read on"


def test_a_recording_is_read_by_a_thread(recorded: str) -> None:
    source = Recording(recorded)
    source.start()
    wait_for(lambda: source.overview()["done"], "all of it is read")
    assert source.overview()["failed"] == 2


def test_a_missing_recording_is_an_error(tmp_path: object) -> None:
    with pytest.raises(ConfigError, match="no trace"):
        Recording(str(tmp_path))


def test_a_lost_runtime_is_an_error_with_the_reason(node: Node, running: Running) -> None:
    node.runtime.close()

    def reason() -> str:
        try:
            running.overview()
        except SourceUnavailable as error:
            return str(error)
        return ""

    wait_for(reason, "the runtime is missed")
    assert "admin.sock" in reason()
    with pytest.raises(SourceUnavailable):
        running.containers()


def test_a_follower_gets_each_event_once_and_the_overview_each_second(node: Node, running: Running) -> None:
    until_seen(running)
    last = running.events()["last"]
    updates = running.follow(last, Filter("fight"))
    first = next(updates)
    assert first["overview"]["mode"] == "live" and first["too_fast"] == 0
    node.work()
    rows: list[dict[str, object]] = list(first["rows"])
    while not rows:
        rows += next(updates)["rows"]
    assert [row["container"] for row in rows] == ["fight"] and rows[0]["key"] == str(rows[0]["n"])
    while "overview" not in (later := next(updates)):
        rows += later["rows"]
    assert len(rows) == 1


def test_a_slow_follower_gets_the_number_of_dropped_rows() -> None:
    live = Live(lambda *_: {"plugins": []}, lambda _: iter(()))
    row = {"event": "StopContainer", "duration_ms": 1.0, "error": "", "steps": [], "time_ms": 0.0, "n": 0}
    updates = Running(live, lambda *_: {}, "here").follow("0", Filter())
    for _ in range(3):
        live.take({"run": "a", "next": 0, "missed": 0, "rows": [row] * 5000})
    begun = next(updates)
    assert (begun["too_fast"], len(begun["rows"]), begun["rows"][0]["n"]) == (5000, 500, 5001)
    assert (next(updates)["too_fast"], begun["overview"]["unread"]) == (0, 0)


def test_a_follower_without_events_gets_overviews_and_errors(node: Node, running: Running) -> None:
    updates = running.follow("", Filter())
    assert next(updates)["rows"] == []
    node.runtime.close()
    while "unanswered" not in (now := next(updates)):
        assert now["rows"] == []
    assert "admin.sock" in now["unanswered"]


def test_a_recording_is_followed_until_it_is_read(recorded: str) -> None:
    source = Recording(recorded)
    updates = source.follow("", Filter())
    assert not next(updates)["overview"]["done"]
    source.read()
    assert next(updates)["overview"]["done"] and list(updates) == []


def test_a_view_is_requested_by_name(running: Running, recording: Recording) -> None:
    assert running.view("agent", "u1") == {"pod": "u1"}
    assert (running.view("agent", "u2"), running.view("drift", "")) == (None, None)
    with pytest.raises(SourceUnavailable, match="does not answer"):
        running.view("agent", "broken")
    assert running.overview()["views"] == ["agent"] and recording.overview()["views"] == []
    assert recording.view("agent", "u1") is None


def test_the_newest_events_are_read_up_to_a_bound(recording: Recording) -> None:
    assert len(list(recording.rows(2, 0))) == 2
    assert len(list(recording.rows(1000, 0))) == recording.overview()["events"]


def test_a_search_includes_the_state_of_plugins() -> None:
    note = {"plugin": "10-a", "state": "gone", "text": "it has ended", "time_ms": 0.0}
    assert Filter("ENDED").matches(note) and not Filter("active").matches(note)


def test_the_description_of_a_recording_is_bounded(tmp_path: Path) -> None:
    about = {f"{number}-{'k' * 99}": "v" * 999 for number in range(900)}
    with Recorder(tmp_path, about=about):
        pass
    recording = Recording(str(tmp_path))
    recording.read()
    shown = recording.overview()["about"]
    assert 0 < len(shown) <= 50
    assert max(len(key) + len(text) for key, text in shown.items()) <= 700


def test_a_late_plugin_counts_as_a_missing_answer(tmp_path: Path) -> None:
    release = threading.Event()
    socket = str(tmp_path / "admin.sock")
    with Recorder(tmp_path / "traces") as recorder:
        with FakeRuntime(reporters=[recorder], admin_socket=socket, request_timeout_s=1.0) as runtime:
            readings = follow(socket, {})
            next(readings)
            runtime.add(plugin("late", create_container=lambda *_: release.wait(20) and None), "10")
            runtime.create_container(make_pod(name="web"), make_container(name="main"))
            release.set()
            rows = (row for reading in readings for row in reading["rows"])
            created = next(row for row in rows if row.get("event") == "CreateContainer")
            assert [step["missed"] for step in created["steps"]] == [True]
    source = Recording(str(tmp_path / "traces"))
    source.read()
    assert [row["missed"] for row in source.overview()["plugins"]] == [1]


def test_damage_in_a_recording_is_reported_when_read(recorded: str) -> None:
    (file,) = Path(recorded).iterdir()
    file.write_bytes(file.read_bytes() + odd_block(crc=1))
    source = Recording(recorded)
    source.read()
    list(source.rows(10, 0))
    (line,) = source.overview()["problems"]
    assert "wrong checksum" in line


def test_the_index_of_many_blocks_is_bounded(tmp_path: Path) -> None:
    path, block = tmp_path / "a.nritrace", blocks.pack(b"", 1, 0, 1 << 63)
    path.write_bytes(blocks.MAGIC + block * 20_000)
    tracemalloc.start()
    try:
        Recording(str(path))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


@pytest.mark.parametrize("answer", [{}, {"containers": 5, "steps": None}, {"containers": [7], "steps": [7]}], ids=str)
def test_replies_of_a_wrong_type_are_an_error(answer: dict[str, Any]) -> None:
    odd = Running(Live(lambda *_: answer, lambda _: iter(())), lambda *_: answer, "odd")
    with pytest.raises(SourceUnavailable, match="is invalid"):
        odd.containers()
    assert odd.container("x") is None


def test_notes_and_plugins_of_a_recording_are_bounded(tmp_path: Path) -> None:
    records = [t.Record(kind=t.PLUGIN, time_ns=1, plugin=f"10-p{n}", event="gone") for n in range(300)]
    at = {"serial": 1, "event": "StopContainer", "time_ns": 1}
    records += [t.Record(kind=t.ANSWERED, plugin=f"10-q{n}", **at) for n in range(1100)]
    raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
    path = tmp_path / "a.nritrace"
    path.write_bytes(blocks.MAGIC + blocks.pack(raw, len(records), 1, 1))
    source = Recording(str(path))
    source.read()
    overview = source.overview()
    assert (len(overview["notes"]), len(overview["plugins"])) == (200, 1000)
    (row,) = source.events()["rows"]
    assert (len(row["steps"]), row["more_steps"]) == (256, 1100 - 256)


def test_a_search_has_a_time_limit_and_returns_its_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path, *range(1000, 2200))
    ticks = count()
    monkeypatch.setattr("nri.inspector.sources.monotonic", lambda: next(ticks) / 100)
    answer = source.events("", Filter("nothing has this text"))
    assert (answer["rows"], answer["more"], answer["looked_at"]) == ([], True, 200)
    answer = source.events(answer["next"], Filter("nothing has this text"))
    assert (answer["rows"], answer["more"], answer["looked_at"]) == ([], True, 500)
    assert not source.events(answer["next"], Filter("nothing has this text"))["more"]


def test_a_page_of_events_with_many_steps_ends_early(tmp_path: Path) -> None:
    records = []
    for serial in range(1, 21):
        at = {"serial": serial, "event": "StopContainer", "time_ns": serial}
        records += [t.Record(kind=t.BEGINS, **at)]
        records += [t.Record(kind=t.ANSWERED, plugin=f"10-q{n}", **at) for n in range(250)]
        records += [t.Record(kind=t.ENDS, **at)]
    raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
    path = tmp_path / "a.nritrace"
    path.write_bytes(blocks.MAGIC + blocks.pack(raw, len(records), 1, 20))
    source = Recording(str(path))
    source.read()
    answer = source.events()
    assert (len(answer["rows"]), answer["more"]) == (9, True)
