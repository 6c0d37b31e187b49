"""An excerpt of a recording is a recording with exactly the selected events."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import nri
from nri.errors import ConfigError
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace import blocks
from nri.trace import excerpt as module
from nri.trace.excerpt import choose, cut
from nri.trace.history import Event, Note, Trace
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Recorder
from nri.wire import bytes_field

ALWAYS = 1 << 64


class Sets(nri.Plugin):
    """Sets one variable."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        return nri.Adjustment().add_env("PW", "x" * 2000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings in one folder, in which serial numbers may come again: 40 creations in each, in two pods."""
    folder = tmp_path_factory.mktemp("traces")
    for _ in range(2):
        with Recorder(folder, redact=False) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
            runtime.add(Sets(), "10")
            for number in range(40):
                runtime.create_container(make_pod(name=f"p{number % 2}"), make_container(name=f"c{number}"))
    return folder


def part_of(folder: Path, tmp_path: Path, chosen: set[tuple[int, int]], block_bytes: int = 1 << 20) -> Trace:
    path = tmp_path / "part.nritrace"
    path.write_bytes(b"".join(cut(Trace(folder), chosen, block_bytes)))
    return Trace(path)


def summary(event: Event) -> tuple[object, ...]:
    """All that is known of an event."""
    steps = [(step.plugin, step.event, step.request, step.reply, step.merged, step.time_ns) for step in event.steps]
    return event.name, event.serial, event.began_ns, event.duration_ns, event.request, event.reply, event.whole, steps


@pytest.mark.parametrize("size", [1, 10_000, 1 << 20], ids=["a block a record", "several blocks", "one block"])
def test_an_excerpt_has_the_unchanged_events_of_a_pod(folder: Path, tmp_path: Path, size: int) -> None:
    part = part_of(folder, tmp_path, choose(Trace(folder), lambda event: event.names("p1"), 0, ALWAYS), size)
    expected = [summary(event) for event in Trace(folder).events() if event.names("p1")]
    assert len(expected) == 40
    assert [summary(event) for event in part.events()] == expected
    assert not part.problems


def test_an_excerpt_has_the_events_between_two_times(folder: Path, tmp_path: Path) -> None:
    began = [event.began_ns for event in Trace(folder).events()]
    part = part_of(folder, tmp_path, choose(Trace(folder), lambda _: True, began[10], began[20]))
    assert [event.began_ns for event in part.events()] == began[10:21]


def test_an_excerpt_names_its_recordings_and_plugins(folder: Path, tmp_path: Path) -> None:
    part = part_of(folder, tmp_path, choose(Trace(folder), lambda event: event.names("c7"), 0, ALWAYS))
    expected = [item for item in Trace(folder).items() if isinstance(item, Note)]
    assert [item for item in part.items() if isinstance(item, Note)] == expected
    assert {event.recording for event in part.events()} == {1, 2}


def test_an_excerpt_of_two_recordings_is_ordered_by_time(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    with Recorder(traces) as one, Recorder(traces) as two:
        for serial in range(1, 5):
            for recorder in (one, two):
                recorder.event_begins("StopContainer", serial, b"")
        for recorder in (two, one):
            for serial in range(1, 5):
                recorder.event_ends("StopContainer", serial, b"", None, 0.1)
    expected = [(event.began_ns, event.recording, event.serial, event.whole) for event in Trace(traces).events()]
    assert [row[0] for row in expected] == sorted(row[0] for row in expected)
    assert [row[1:] for row in expected] == [(n, serial, True) for serial in range(1, 5) for n in (1, 2)]
    part = part_of(traces, tmp_path, {(1, 2), (2, 2), (2, 3), (1, 4)})
    assert [(event.began_ns, event.recording, event.serial, event.whole) for event in part.events()] == [
        row for row in expected if row[1:3] in {(1, 2), (2, 2), (2, 3), (1, 4)}
    ]
    excerpt = part_of(tmp_path / "part.nritrace", tmp_path, {(2, 2)})
    assert [(event.recording, event.serial, event.whole) for event in excerpt.events()] == [(2, 2, True)]


def test_a_plugins_description_stays_with_its_recording(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    with Recorder(traces) as one, Recorder(traces) as two:
        one.event_begins("StopContainer", 1, b"")
        two.event_begins("StopContainer", 1, b"")
        one.plugin_changed("10-a", "active", {})
        two.event_ends("StopContainer", 1, b"", None, 0.1)
    part = part_of(traces, tmp_path, {(2, 1)})
    assert [note.recording for note in part.items() if isinstance(note, Note) and note.kind == "plugin"] == [1]


def test_block_headers_of_an_excerpt_have_times(folder: Path, tmp_path: Path) -> None:
    part = part_of(folder, tmp_path, choose(Trace(folder), lambda _: True, 0, ALWAYS))
    times = [record.time_ns for record, _ in part.records()]
    heads = [head for _, head in part.headers()]
    assert (min(head.first_ns for head in heads), max(head.last_ns for head in heads)) == (min(times), max(times))
    assert sum(head.records for head in heads) == len(times)


def test_records_of_a_newer_version_are_copied(tmp_path: Path) -> None:
    field = bytes_field(99, b"new")
    records = [t.Record(kind=t.BEGINS, serial=1, event="StopContainer"), t.Record(kind=t.ENDS, serial=1)]
    raw = b"".join(bytes_field(1, record.SerializeToString() + field) for record in records)
    path = tmp_path / "new.nritrace"
    path.write_bytes(blocks.MAGIC + blocks.pack(raw, 2, 1, 2))
    part = io.BytesIO(b"".join(cut(Trace(path), {(0, 1)})))
    part.seek(len(blocks.MAGIC))
    (head,) = [header for header in blocks.scan(part) if isinstance(header, blocks.Header)]
    assert b"".join(blocks.contents(part, head)) == raw


def test_an_empty_or_too_large_selection_is_an_error_with_the_next_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        ConfigError, match=r"none of its \d+ events matches the selection \(list all events: nri trace show "
    ):
        choose(Trace(folder), lambda _: False, 0, ALWAYS)
    monkeypatch.setattr(module, "MAX_EVENTS", 3)
    with pytest.raises(ConfigError, match="more than 3 events selected"):
        choose(Trace(folder), lambda _: True, 0, ALWAYS)


def test_an_excerpt_of_a_removed_file_has_no_events(tmp_path: Path) -> None:
    (tmp_path / "a.nritrace").write_bytes(blocks.MAGIC)
    assert b"".join(cut(Trace(tmp_path), {(1, 1)})) == blocks.MAGIC
