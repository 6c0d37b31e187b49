"""The recorder: its files and limits. It never delays or fails an event."""

from __future__ import annotations

import errno
import logging
import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import nri
from nri.api import messages as m
from nri.errors import ConflictError, DeadlineExceeded, PluginRejected
from nri.testing import FakeRuntime, make_container, make_pod
from nri.trace import blocks
from nri.trace.history import VALIDATE, Event, Note, Trace
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Limits, Recorder
from tests.support.waiting import wait_for

REQUEST = m.StartContainerRequest(pod=m.PodSandbox(name="web", annotations={"a": "S3CRET"})).SerializeToString()


class Sets(nri.Plugin):
    """Sets one variable, and refuses containers called bad."""

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment:
        if container.name == "bad":
            raise nri.Reject("not this one")
        return nri.Adjustment().add_env("PW", "S3CRET")


class Validates(nri.Plugin):
    """Refuses nothing."""

    def validate_container_adjustment(self, request: object) -> None: ...


def recorded(folder: Path) -> tuple[list[Event], list[Note]]:
    trace = Trace(folder)
    items = list(trace.items())
    assert not trace.problems
    return [item for item in items if isinstance(item, Event)], [item for item in items if isinstance(item, Note)]


def tell(recorder: Recorder, serial: int, request: bytes = REQUEST) -> None:
    """One event that one plugin answers."""
    recorder.event_begins("StartContainer", serial, request)
    recorder.plugin_asked("10-a", "StartContainer", serial, request)
    recorder.plugin_answered("10-a", "StartContainer", serial, b"", 0.001)
    recorder.event_ends("StartContainer", serial, b"", None, 0.002)


def test_the_index_has_the_times_of_blocks_even_after_a_clock_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [2000 * 10**9]
    monkeypatch.setattr("nri.trace.recorder.time_ns", lambda: now[0])
    with Recorder(tmp_path) as recorder:
        tell(recorder, 1)
        now[0] = 1000 * 10**9
        tell(recorder, 2)
        wait_for_event_at_all(tmp_path, 2)
        tell(recorder, 3)
    _, *written, _ = [(header.first_ns, header.last_ns) for _, header in Trace(tmp_path).headers()]
    assert min(first for first, _ in written) == 1000 * 10**9 and written[-1] == (1000 * 10**9, 1000 * 10**9)
    assert [event.serial for event in Trace(tmp_path).events(0, 1500 * 10**9)][-2:] == [2, 3]


def wait_for_event(folder: Path, serial: int) -> None:
    """Wait until an event is in a file that has ended."""

    def written() -> bool:
        items = list(Trace(folder).items())
        closed = bool(items) and isinstance(items[-1], Note) and items[-1].kind == "closed"
        return closed and any(isinstance(item, Event) and item.serial == serial for item in items)

    wait_for(written, f"event {serial} is written")


def wait_for_event_at_all(folder: Path, serial: int) -> None:
    """Wait until an event is in a file, which may be the current one."""

    def written() -> bool:
        return any(folder.iterdir()) and any(event.serial == serial and event.whole for event in Trace(folder).events())

    wait_for(written, f"event {serial} is written")


def test_a_recording_has_all_reports_of_the_runtime(tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False, about={"policy": "x"}) as recorder:
        runtime = FakeRuntime(reporters=[recorder])
        with runtime:
            runtime.add(Sets(), "10").add(Sets(), "20", "other").add(Validates(), "90")
            pod = make_pod(name="web")
            runtime.run_pod_sandbox(pod)
            with pytest.raises(ConflictError):
                runtime.create_container(pod, make_container(name="one"))
            with pytest.raises(PluginRejected):
                runtime.create_container(pod, make_container(name="bad"))
            runtime.disconnect("20-other")
            runtime.create_container(pod, make_container(name="two"))
    events, notes = recorded(tmp_path)
    assert all(event.whole and not event.redacted for event in events)
    assert [event.name for event in events] == [*["Synchronize"] * 3, "RunPodSandbox", *["CreateContainer"] * 3]
    conflict, refusal, created = events[-3:]
    assert conflict.error is not None
    assert conflict.error.kind == "ConflictError"
    assert [(step.plugin, step.merged, bool(step.refused)) for step in conflict.steps] == [
        ("10-sets", True, False),
        ("20-other", False, True),
    ]
    failed = refusal.steps[0].error
    assert failed is not None
    assert (failed.code, "not this one" in failed.text) == (7, True)
    assert [(step.plugin, step.event) for step in created.steps] == [
        ("10-sets", "CreateContainer"),
        ("90-validates", VALIDATE),
    ]
    assert created.container is not None
    assert created.container.name == "two"
    reply = m.CreateContainerResponse.FromString(created.reply)
    assert [step.value for step in reply.adjust.env] == ["S3CRET"]
    assert created.duration_ns >= created.steps[0].duration_ns > 0
    plugins = [(note.plugin, note.state) for note in notes if note.kind == "plugin"]
    assert ("10-sets", "active") in plugins
    assert ("20-other", "gone") in plugins
    assert notes[0].kind == "opened"
    assert notes[0].about["policy"] == "x"
    assert notes[-1].kind == "closed"


def test_an_accepted_answer_has_the_time_of_the_previous_step(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(Sets(), "10").create_container(make_pod(), make_container())
    steps = [record for record, _ in Trace(tmp_path).records() if record.event == "CreateContainer"]
    assert [step.kind for step in steps] == [t.BEGINS, t.ASKED, t.ANSWERED, t.MERGED, t.ENDS]
    times = [step.time_ns for step in steps]
    assert times == sorted(times) and times[3] == times[2] and times[0] > 1 << 60


def test_values_are_redacted_by_default(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder, FakeRuntime(reporters=[recorder]) as runtime:
        runtime.add(Sets(), config="token: S3CRET")
        runtime.create_container(None, make_container(env={"A": "S3CRET"}, args=["prog", "S3CRET"]))
        recorder.plugin_answered("10-odd", "CreateContainer", 9999, b"S3CRET, no message", 0.0)
        recorder.plugin_answered("10-odd", "NoEvent", 9999, b"S3CRET", 0.0)
    files = list(tmp_path.iterdir())
    events, notes = recorded(tmp_path)
    created = next(event for event in events if event.name == "CreateContainer")
    assert created.redacted
    assert created.whole
    messages = [created.request, created.reply, *(step.request + (step.reply or b"") for step in created.steps)]
    assert all(b"S3CRET" not in value for value in messages)
    assert "S3CRET" not in repr(notes)
    assert not events[-1].whole, "what cannot be read to redact it is left out"
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_files_and_folder_stay_within_their_limits(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("stays")
    old = tmp_path / "nri-20200101T000000.000000Z-00000000.nritrace"
    old.write_bytes(b"old")
    os.utime(old, (0, 0))
    with Recorder(tmp_path, limits=Limits(file_bytes=1, folder_bytes=2000)) as recorder:
        for serial in range(1, 7):
            tell(recorder, serial)
            wait_for_event(tmp_path, serial)
    assert not old.exists()
    assert (tmp_path / "mine.txt").read_text() == "stays"
    traces = list(tmp_path.glob("*.nritrace"))
    assert 1 < len(traces) < 6
    assert sum(path.stat().st_size for path in traces) < 3000
    events, notes = recorded(tmp_path)
    assert events[-1].serial == 6, "the newest are kept"
    assert events[-1].whole
    assert {note.about["recording"] for note in notes if note.kind == "opened"} == {notes[0].about["recording"]}


def test_a_new_file_starts_with_the_connected_plugins(tmp_path: Path) -> None:
    with Recorder(tmp_path, limits=Limits(file_bytes=1)) as recorder:
        recorder.plugin_changed("10-a", "active", {"version": "v1"})
        tell(recorder, 1)
        wait_for_event(tmp_path, 1)
        tell(recorder, 2)
    last = Trace(max(tmp_path.iterdir()))
    assert [(item.plugin, item.state) for item in last.items() if isinstance(item, Note) and item.kind == "plugin"] == [
        ("10-a", "active")
    ]


def test_steps_that_cannot_be_written_in_time_are_counted(tmp_path: Path) -> None:
    huge = b"\0" * (8 << 20)
    with Recorder(tmp_path, redact=False) as recorder:
        for serial in range(1, 40):
            recorder.event_begins("StartContainer", serial, huge)
    _, notes = recorded(tmp_path)
    assert sum(note.lost for note in notes if note.kind == "lost") > 0


def test_while_the_disk_hangs_waiting_requests_stay_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works, pack = threading.Event(), blocks.pack
    with Recorder(tmp_path, redact=False) as recorder:
        monkeypatch.setattr(blocks, "pack", lambda *block: pack(*block) if works.wait() else b"")
        for serial in range(1, 12_000):
            tell(recorder, serial, b"%d" % serial * 50)
        works.set()
    events, notes = recorded(tmp_path)
    complete = [event for event in events if event.whole]
    assert 500 < len(complete) < 12_000
    assert all(event.request == b"%d" % event.serial * 50 for event in complete)
    assert sum(note.lost for note in notes if note.kind == "lost") > 0


def test_requests_of_overlapping_and_unfinished_events_stay_unchanged(tmp_path: Path) -> None:
    drawn, expected, open_ones = random.Random(26), dict[int, tuple[bytes, bytes]](), list[int]()
    with Recorder(tmp_path, redact=False) as recorder:
        for serial in range(1, 2000):
            request = drawn.randbytes(drawn.choice((0, 1, 900, 900, 5000, 40_000)))
            expected[serial] = request, drawn.choice((request, request[:-1] + b"!", request + b"more"))
            recorder.event_begins("StartContainer", serial, expected[serial][0])
            open_ones.append(serial)
            if len(open_ones) > 50:
                process = open_ones.pop(drawn.randrange(50))
                recorder.plugin_asked("10-a", "StartContainer", process, expected[process][0])
                recorder.plugin_asked("20-b", "StartContainer", process, expected[process][1])
                if drawn.random() < 0.9:
                    recorder.event_ends("StartContainer", process, b"", None, 0.002)
    events_by_serial = {event.serial: event for event in recorded(tmp_path)[0]}
    assert {serial: events_by_serial[serial].request for serial in expected} == {
        serial: first for serial, (first, _) in expected.items()
    }
    by_serial = {
        serial: [step.request for step in event.steps] for serial, event in events_by_serial.items() if event.steps
    }
    assert by_serial == {serial: list(expected[serial]) for serial in by_serial} and len(by_serial) > 1900


def test_changes_of_plugins_that_cannot_be_written_in_time_are_counted(tmp_path: Path) -> None:
    about = {"config": "x" * (8 << 20)}
    with Recorder(tmp_path, redact=False) as recorder:
        for _ in range(400):
            recorder.plugin_changed("10-a", "active", about)
    _, notes = recorded(tmp_path)
    total = sum(note.kind == "plugin" and note.state == "active" for note in notes)
    assert 0 < total < 400
    assert sum(note.lost for note in notes if note.kind == "lost") == 400 - total


def test_changes_of_plugins_are_bounded_while_the_disk_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    works, pack = threading.Event(), blocks.pack
    with Recorder(tmp_path) as recorder:
        monkeypatch.setattr(blocks, "pack", lambda *block: pack(*block) if works.wait() else b"")
        for _ in range(80_000):
            recorder.plugin_changed("10-a", "active", {})
        works.set()
    _, notes = recorded(tmp_path)
    total = sum(note.kind == "plugin" for note in notes)
    assert 0 < total < 80_000
    assert sum(note.lost for note in notes if note.kind == "lost") == 80_000 - total


def test_reports_after_close_are_ignored(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.close()
    tell(recorder, 1)
    recorder.close()
    assert recorded(tmp_path)[0] == []


def test_a_message_that_is_too_long_makes_its_event_incomplete(tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False) as recorder:
        tell(recorder, 1, b"\0" * ((8 << 20) + 1))
        tell(recorder, 2)
    assert [event.whole for event in recorded(tmp_path)[0]] == [False, True]


def test_an_unwritable_folder_loses_steps_and_logs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "traces"
    with caplog.at_level(logging.WARNING, "nri.trace"), Recorder(folder, limits=Limits(file_bytes=1)) as recorder:
        tell(recorder, 1)
        wait_for_event(folder, 1)
        folder.rename(tmp_path / "away")
        folder.write_text("in its place")
        recorder.event_begins("StartContainer", 2, REQUEST)
        wait_for(lambda: "cannot write" in caplog.text, "a line in the log")
        folder.unlink()
        (tmp_path / "away").rename(folder)
        tell(recorder, 3)
        wait_for_event(folder, 3)
    events, notes = recorded(folder)
    assert [event.serial for event in events] == [1, 3]
    assert sum(note.lost for note in notes) == 1
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        f"the recorder cannot write to {folder}",
        f"the recorder writes to {folder} again; at least 1 step lost",
    ]


class Disk:
    """A disk with `room` bytes of free space, so that it becomes full in the middle of a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int | None = None) -> None:
        self.room = room  # in bytes; None is enough
        self._write = os.write
        monkeypatch.setattr("nri.trace.recorder.os.write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room is None:
            return self._write(descriptor, data)
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_after_a_full_disk_recording_continues_in_a_readable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(monkeypatch)
    with Recorder(tmp_path, redact=False) as recorder:
        tell(recorder, 1)
        wait_for_event_at_all(tmp_path, 1)
        disk.room = 50
        recorder.event_begins("StartContainer", 2, REQUEST)
        wait_for(lambda: "cannot write" in caplog.text, "a line in the log")
        events, _ = recorded(tmp_path)
        assert [event.serial for event in events] == [1], "a block that does not fit leaves no part in the file"
        disk.room = None
        tell(recorder, 3)
        wait_for(lambda: "again; at least 1 step lost" in caplog.text, "the message that recording continues")
    events, notes = recorded(tmp_path)
    assert [event.serial for event in events] == [1, 3]
    assert [note.lost for note in notes if note.lost] == [1]
    assert len(list(tmp_path.iterdir())) == 1
    assert caplog.text.count("No space left on device; steps are lost until it can") == 1
    assert "Errno" not in caplog.text


@pytest.mark.parametrize("room", [0, 20])
def test_a_recorder_starts_on_a_full_disk_without_empty_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, room: int
) -> None:
    disk = Disk(monkeypatch, room)
    with Recorder(tmp_path) as recorder:
        assert not list(tmp_path.iterdir())
        tell(recorder, 1)
        disk.room = None
        tell(recorder, 2)
        wait_for_event_at_all(tmp_path, 2)
    assert caplog.text.count("cannot write") == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_ends_with_the_number_of_lost_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(monkeypatch)
    with Recorder(tmp_path) as recorder:
        disk.room = 0
        recorder.event_begins("StartContainer", 1, REQUEST)
        wait_for(lambda: "cannot write" in caplog.text, "a line in the log")
        disk.room = None
    _, notes = recorded(tmp_path)
    assert [(note.kind, note.lost) for note in notes] == [("opened", 0), ("lost", 1), ("closed", 0)]


@pytest.mark.parametrize("what", ["the file", "the folder"])
def test_a_removed_file_or_folder_is_created_again(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "traces"
    with Recorder(folder) as recorder:
        recorder.plugin_changed("10-a", "active", {})
        tell(recorder, 1)
        wait_for_event_at_all(folder, 1)
        if what == "the file":
            next(folder.iterdir()).unlink()
        else:
            shutil.rmtree(folder)
        tell(recorder, 2)
        wait_for(lambda: folder.exists() and any(folder.iterdir()), "a new file")
    events, notes = recorded(folder)
    assert [(event.serial, event.whole) for event in events] == [(2, True)]
    assert [note.kind for note in notes] == ["opened", "plugin", "closed"]


def test_after_a_file_is_truncated_a_new_file_is_started(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        tell(recorder, 1)
        wait_for_event_at_all(tmp_path, 1)
        (emptied,) = tmp_path.iterdir()
        os.truncate(emptied, 0)
        tell(recorder, 2)
    trace = Trace(tmp_path)
    assert [(event.serial, event.whole) for event in trace.events()] == [(2, True)]
    assert [line.startswith(f"{emptied}: at byte 0: the file is truncated before") for line in trace.problems] == [True]


def test_two_recorders_can_remove_old_files_of_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file = tmp_path / "nri-20200101T000000.000000Z-00000000.nritrace"
    old_file.write_bytes(b"")

    def listed(folder: str) -> Iterator[os.DirEntry[str]]:
        entries = list(scan(folder))
        old_file.unlink(missing_ok=True)
        yield from entries

    scan = os.scandir
    monkeypatch.setattr("nri.trace.recorder.os.scandir", listed)
    with Recorder(tmp_path) as recorder:
        tell(recorder, 1)
    events, _ = recorded(tmp_path)
    assert [event.serial for event in events] == [1]


def test_a_folder_that_cannot_be_created_is_an_error_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Recorder(tmp_path / "file")


def test_errors_are_recorded_with_text_and_code(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.event_begins("StartContainer", 1, b"")
        recorder.plugin_asked("10-a", "StartContainer", 1, b"")
        recorder.plugin_failed("10-a", "StartContainer", 1, DeadlineExceeded("StartContainer"), 2.0)
        recorder.event_ends("StartContainer", 1, b"", ValueError("x" * 100_000), 2.0)
    event = recorded(tmp_path)[0][0]
    failed = event.steps[0].error
    assert failed is not None
    assert (failed.kind, failed.code) == ("DeadlineExceeded", 0)
    assert event.error is not None
    assert (event.error.kind, len(event.error.text) <= 4100) == ("ValueError", True)


def test_events_of_many_threads_are_assembled_by_serial(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        threads = [
            threading.Thread(target=lambda base=base: [tell(recorder, base + value) for value in range(100)])  # type: ignore[misc]
            for base in (1, 101, 201)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events, _ = recorded(tmp_path)
    assert sorted(event.serial for event in events) == list(range(1, 301))
    assert all(event.whole and len(event.steps) == 1 for event in events)


def test_a_file_that_starts_with_large_configurations_is_readable(tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False, limits=Limits(file_bytes=1)) as recorder:
        for number in range(18):
            recorder.plugin_changed(f"{number}-a", "active", {"config": "x" * (1 << 20)})
        tell(recorder, 1)
        wait_for_event(tmp_path, 1)
        tell(recorder, 2)
    last = Trace(Trace(tmp_path).files[-1])
    items = list(last.items())
    assert not last.problems
    assert [item.plugin for item in items if isinstance(item, Note) and item.kind == "plugin"] == [
        f"{number}-a" for number in range(18)
    ]


def test_a_step_that_cannot_be_encoded_is_lost_alone(tmp_path: Path) -> None:
    half = os.fsdecode(b"\xff")
    with Recorder(tmp_path, redact=False, about={"policy": half}) as recorder:
        recorder.plugin_changed("10-a", "gone", {"reason": half})
        recorder.event_begins("StartContainer", -1, REQUEST)
        recorder.event_begins("StartContainer", 1, REQUEST)
        recorder.plugin_failed("10-a", "StartContainer", 1, FileNotFoundError(2, "no such file", half), 0.1)
        recorder.event_ends("StartContainer", 1, b"", None, 0.1)
    events, notes = recorded(tmp_path)
    assert [event.serial for event in events] == [1]
    assert [(note.kind, note.lost) for note in notes if note.kind in ("plugin", "lost")] == [("plugin", 0), ("lost", 1)]


def test_only_requests_of_the_newest_events_are_kept(tmp_path: Path) -> None:
    with Recorder(tmp_path, redact=False) as recorder:
        for serial in range(1, 4099):
            recorder.event_begins("StartContainer", serial, REQUEST)
        for serial in (1, 4098):
            recorder.plugin_asked("10-a", "StartContainer", serial, REQUEST)
    by_serial = {record.serial: record for record, _ in Trace(tmp_path).records() if record.kind == t.ASKED}
    assert (by_serial[1].same, by_serial[1].message) == (False, REQUEST)
    assert (by_serial[4098].same, by_serial[4098].message) == (True, b"")
