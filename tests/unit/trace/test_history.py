"""A history yields complete events in order, and everything readable in a damaged file."""

from __future__ import annotations

import os
import random
from itertools import islice
from pathlib import Path

import pytest

from nri.api import messages as m
from nri.errors import (
    ConfigError,
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    PluginTimeout,
    PluginUnavailable,
    RemoteProtocolError,
    RpcError,
)
from nri.trace import blocks
from nri.trace.allowance import Allowance
from nri.trace.history import VALIDATE, Event, Note, Trace
from nri.trace.pb import api_pb2 as t
from nri.trace.recorder import Recorder
from nri.wire import bytes_field
from tests.support.odd_blocks import odd_block

POD = m.PodSandbox(id="p1", name="web", namespace="shop")
CONTAINER = m.Container(id="c1", name="main", pod_sandbox_id="p1")
REQUEST = m.StartContainerRequest(pod=POD, container=CONTAINER).SerializeToString()


def event(serial: int, name: str = "StartContainer", request: bytes = REQUEST) -> list[t.Record]:
    """The records of an event that one plugin answered."""
    at = {"time_ns": serial * 1000, "serial": serial, "event": name}
    return [
        t.Record(kind=t.BEGINS, message=request, **at),
        t.Record(kind=t.ASKED, plugin="10-a", same=True, **at),
        t.Record(kind=t.ANSWERED, plugin="10-a", duration_ns=5, **at),
        t.Record(kind=t.ENDS, duration_ns=9, **at),
    ]


OPENED = t.Record(kind=t.OPENED, about={"recording": "one"})


def write(path: Path, *contents: list[t.Record]) -> Path:
    """A trace file with a block for each list of records."""
    data = [blocks.MAGIC]
    for records in contents:
        raw = b"".join(bytes_field(1, record.SerializeToString()) for record in records)
        data.append(blocks.pack(raw, len(records), records[0].time_ns, records[-1].time_ns))
    path.write_bytes(b"".join(data))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.nritrace"


def serials(trace: Trace) -> list[int]:
    return [event.serial for event in trace.events()]


def test_overlapping_events_are_ordered_by_their_start(path: Path) -> None:
    one, two, three = event(1), event(2), event(3)
    mixed = [OPENED, one[0], two[0], *three, *two[1:], *one[1:]]
    events = list(Trace(write(path, mixed)).events())
    assert [e.serial for e in events] == [1, 2, 3]
    assert all(e.whole for e in events)
    assert [step.request for e in events for step in e.steps] == [REQUEST] * 3


@pytest.mark.parametrize("kind", [t.ANSWERED, t.FAILED])
@pytest.mark.parametrize(("duration_ns", "began_ns"), [(0, 1000), (5, 995), (1 << 40, 0)])
def test_a_step_began_its_duration_before_its_end_and_never_before_1970(
    path: Path, kind: t.Kind, duration_ns: int, began_ns: int
) -> None:
    records = event(1)
    records[2] = t.Record(kind=kind, time_ns=1000, serial=1, event="StartContainer", plugin="10-a")
    records[2].duration_ns = duration_ns
    (recorded,) = Trace(write(path, [OPENED, *records])).events()
    assert (recorded.steps[0].time_ns, recorded.steps[0].duration_ns, recorded.first_ns) == (
        began_ns,
        duration_ns,
        began_ns,
    )


@pytest.mark.parametrize(
    "error",
    [
        DeadlineExceeded("late"), PluginTimeout("10-a", "late"), ConnectionClosed("gone"),
        PluginUnavailable("10-a", "busy"), LocalProtocolError("no"), RemoteProtocolError("garbage"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_late_busy_lost_and_broken_plugins_count_as_silent(tmp_path: Path, error: Exception) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.event_begins("StartContainer", 1, REQUEST)
        for plugin, failed in (("10-a", error), ("20-b", RpcError(2, "no license"))):
            recorder.plugin_asked(plugin, "StartContainer", 1, REQUEST)
            recorder.plugin_failed(plugin, "StartContainer", 1, failed, 0.1)
        recorder.event_ends("StartContainer", 1, b"", None, 0.2)
    (event,) = Trace(tmp_path).events()
    assert [(step.plugin, step.silent) for step in event.steps] == [("10-a", True), ("20-b", False)]


def test_an_event_has_the_names_of_pod_and_container(path: Path) -> None:
    (recorded,) = Trace(write(path, [OPENED, *event(1)])).events()
    assert (recorded.pod, recorded.container) == (POD, CONTAINER)
    names = {text: recorded.names(text) for text in ("web", "shop/web", "main", "c1", "p", "other", "shop", "")}
    assert [text for text, fits in names.items() if fits] == ["web", "shop/web", "main", "c1", "p"]


@pytest.mark.parametrize(
    ("name", "request_bytes"), [("NoSuchEvent", b""), ("../../x", b""), ("StartContainer", b"\xff\xff"), ("", b"")]
)
def test_an_event_of_an_unknown_kind_is_yielded(path: Path, name: str, request_bytes: bytes) -> None:
    (recorded,) = Trace(write(path, [OPENED, *event(1, name, request_bytes)])).events()
    assert (recorded.name, recorded.message, recorded.pod, recorded.container) == (name, None, None, None)
    assert not recorded.names("web")


def test_a_pod_event_has_no_container_and_a_synchronization_has_no_pod(path: Path) -> None:
    pod = event(1, "RunPodSandbox", m.RunPodSandboxRequest(pod=POD).SerializeToString())
    state = event(2, "Synchronize", m.SynchronizeRequest(pods=[POD]).SerializeToString())
    events = list(Trace(write(path, [OPENED, *pod, *state])).events())
    assert [(e.pod, e.container) for e in events] == [(POD, None), (None, None)]


def test_an_event_without_start_or_end_is_incomplete(path: Path) -> None:
    records = [OPENED, *event(1)[1:], *event(2)[:-1], *event(3)]
    assert [(e.serial, e.whole) for e in Trace(write(path, records)).events()] == [
        (1, False), (2, False), (3, True),
    ]  # fmt: skip


def test_a_step_without_a_start_is_reported(path: Path) -> None:
    records = event(1)
    del records[1]
    (recorded,) = Trace(write(path, [OPENED, *records])).events()
    assert (recorded.whole, recorded.steps[0].plugin) == (False, "10-a")


def test_validators_are_steps_of_the_creation(path: Path) -> None:
    create, check = event(1, "CreateContainer"), event(1, VALIDATE)
    (recorded,) = Trace(write(path, [OPENED, *create[:-1], *check[:-1], create[-1]])).events()
    assert (recorded.name, recorded.whole) == ("CreateContainer", True)
    assert [step.event for step in recorded.steps] == ["CreateContainer", VALIDATE]


def test_a_truncated_file_yields_complete_events_and_the_damage(path: Path) -> None:
    data = write(path, [OPENED, *event(1)], event(2), event(3)).read_bytes()
    ends = [*(header.offset for _, header in list(Trace(path).headers())[1:]), len(data)]
    for length in range(len(data)):
        path.write_bytes(data[:length])
        trace = Trace(path)
        assert serials(trace) == [1, 2, 3][: sum(end <= length for end in ends)]
        assert bool(trace.problems) == (length not in ends), length


def test_random_damage_never_raises_and_is_reported(path: Path) -> None:
    data = write(path, [OPENED, *event(1)], *(event(serial) for serial in range(2, 30))).read_bytes()
    draw = random.Random(1)
    for _ in range(300):
        broken = bytearray(data)
        for place in draw.sample(range(len(blocks.MAGIC), len(data)), draw.randint(1, 20)):
            broken[place] = draw.randrange(256)
        path.write_bytes(bytes(broken))
        trace = Trace(path)
        recorded = serials(trace)
        assert recorded == sorted(recorded)
        assert trace.problems or recorded == list(range(1, 30))


def test_records_and_fields_of_a_newer_version_are_skipped(path: Path) -> None:
    newer = t.Record.FromString(t.Record(serial=1, kind=77).SerializeToString() + b"\xfa\x3f\x03new")  # type: ignore[arg-type]
    records = [OPENED, *event(1)[:2], newer, *event(1)[2:]]
    (recorded,) = Trace(write(path, records)).events()
    assert recorded.whole
    assert len(recorded.steps) == 1


def test_a_block_without_records_is_reported(path: Path) -> None:
    write(path, [OPENED, *event(1)])
    with path.open("ab") as file:
        file.write(blocks.pack(b"\x0a\xff", 1, 0, 0) + blocks.pack(bytes_field(1, b"\xff"), 1, 0, 0))
    trace = Trace(path)
    assert serials(trace) == [1]
    assert ["is truncated" in line or "cannot be read" in line for line in trace.problems] == [True, True]
    assert all(line.startswith(f"{path}: at byte ") for line in trace.problems)


def test_blocks_outside_of_the_time_range_are_not_decompressed(path: Path) -> None:
    data = bytearray(write(path, [OPENED], *(event(serial) for serial in range(1, 6))).read_bytes())
    third = [header for _, header in Trace(path).headers()][3]
    data[third.offset + 50] ^= 0xFF
    path.write_bytes(bytes(data))
    trace = Trace(path)
    assert [e.serial for e in trace.events(since_ns=4000)] == [4, 5]
    assert [e.serial for e in trace.events(until_ns=2000)] == [1, 2]
    assert not trace.problems, "the broken block was not looked at"
    assert serials(trace) == [1, 2, 4, 5]


def test_a_folder_is_one_history_and_other_files_in_it_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "nri-1.nritrace", [OPENED, event(1)[0]])
    write(tmp_path / "nri-2.nritrace", [OPENED, *event(1)[1:], *event(2)])
    other = t.Record(kind=t.OPENED, about={"recording": "other"})
    write(tmp_path / "nri-3.nritrace", [other, event(1)[0]], [t.Record(kind=t.PLUGIN, plugin="10-a", event="gone")])
    write(tmp_path / "nri-4.nritrace", [OPENED, *event(3)])
    (tmp_path / "nri-5.nritrace").write_text("no trace")
    os.mkfifo(tmp_path / "nri-6.nritrace")
    (tmp_path / "notes.txt").write_text("")
    trace = Trace(tmp_path)
    items = list(trace.items())
    rows = [(item.recording, item.serial, item.whole) for item in items if isinstance(item, Event)]
    assert rows == [(1, 1, True), (2, 1, False), (1, 2, True), (1, 3, True)]
    assert ("plugin", "10-a", "gone") in [
        (item.kind, item.plugin, item.state) for item in items if isinstance(item, Note)
    ]
    assert ["nri-5" in trace.problems[0], "not a regular file" in trace.problems[1]] == [True, True]


@pytest.mark.parametrize("first", ["no trace", "damaged", "missing", "a pipe"])
def test_an_unreadable_first_file_does_not_affect_the_other_files(tmp_path: Path, first: str) -> None:
    path = tmp_path / "nri-1.nritrace"
    if first == "a pipe":
        os.mkfifo(path)
    elif first == "missing":
        path.symlink_to(tmp_path / "nowhere")
    else:
        write(path, [OPENED, *event(1)])
        path.write_bytes(b"what is this" if first == "no trace" else b"\0" + path.read_bytes()[1:])
    write(tmp_path / "nri-2.nritrace", [OPENED, *event(2)])
    trace = Trace(tmp_path)
    assert serials(trace) == ([1, 2] if first == "damaged" else [2])
    assert [line.startswith(f"{path}: at byte 0: ") for line in trace.problems] == [True]


def other(*records: t.Record) -> list[t.Record]:
    """Records of another recorder."""
    return [t.Record(kind=t.OPENED, about={"recording": "other"}), *records]


def test_events_that_continue_in_the_next_file_are_complete(tmp_path: Path) -> None:
    write(tmp_path / "nri-1.nritrace", [OPENED, *event(1), *event(2)[:2]])
    write(tmp_path / "nri-2.nritrace", other(*event(1), *event(2)[:3]))
    write(tmp_path / "nri-3.nritrace", [OPENED, *event(2)[2:], event(3)[0]])
    write(tmp_path / "nri-4.nritrace", other(*event(2)[3:]))
    trace = Trace(tmp_path)
    rows = [(e.recording, e.serial, e.whole) for e in trace.events()]
    assert rows == [(1, 1, True), (2, 1, True), (1, 2, True), (2, 2, True), (1, 3, False)]


def test_events_of_several_recorders_in_one_folder_are_ordered(tmp_path: Path) -> None:
    began = {1: t.Record(kind=t.OPENED, time_ns=100, about={"recording": "one"}), 2: other()[0]}
    began[2].time_ns = 2500
    write(tmp_path / "nri-1.nritrace", [began[1], *event(1)], [*event(3), *event(5)[:1]])
    write(tmp_path / "nri-2.nritrace", [began[2], *event(4)], event(6))
    write(tmp_path / "nri-3.nritrace", [t.Record(kind=t.OPENED, time_ns=5500, about=began[1].about), *event(5)[1:]])
    items = list(Trace(tmp_path).items())
    assert [(item.recording, item.serial) for item in items if isinstance(item, Event)] == [
        (1, 1), (1, 3), (2, 4), (1, 5), (2, 6),
    ]  # fmt: skip
    assert all(item.whole for item in items if isinstance(item, Event))
    assert [item.recording for item in items if isinstance(item, Note)] == [1, 2, 1]


def test_a_recording_continues_in_another_file_even_after_a_clock_change(
    tmp_path: Path,
) -> None:
    records = event(7)
    records[0].time_ns, ends = 50 * 10**9, t.Record(kind=t.ENDS, serial=7, time_ns=41 * 10**9)
    write(tmp_path / "nri-1.nritrace", [t.Record(kind=t.OPENED, time_ns=30 * 10**9, about=OPENED.about), records[0]])
    write(tmp_path / "nri-2.nritrace", [t.Record(kind=t.OPENED, time_ns=40 * 10**9, about=OPENED.about), ends])
    begun = t.Record(kind=t.OPENED, time_ns=42 * 10**9, about={"recording": "other"})
    write(tmp_path / "nri-3.nritrace", [begun, *event(1)])
    assert sorted((e.recording, e.serial, e.whole) for e in Trace(tmp_path).events()) == [
        (1, 7, True), (2, 1, True),
    ]  # fmt: skip


def test_steps_from_before_the_start_of_a_file_are_ordered_by_time(tmp_path: Path) -> None:
    def at(time_ms: int, recorder: str, *serials: int) -> list[t.Record]:
        records = [t.Record(kind=t.OPENED, time_ns=time_ms * 10**6, about={"recording": recorder})]
        for serial in serials:  # each is also its time in milliseconds
            records += [t.Record(kind=kind, serial=serial, time_ns=serial * 10**6) for kind in (t.BEGINS, t.ENDS)]
        return records

    write(tmp_path / "nri-1.nritrace", at(10_000, "one", 10_100))
    write(tmp_path / "nri-2.nritrace", at(10_050, "two", 10_200, 20_150, 20_350))
    write(tmp_path / "nri-3.nritrace", at(20_400, "one", 20_100, 20_300, 20_500))
    serials = [event.serial for event in Trace(tmp_path).events()]
    assert serials == [10_100, 10_200, 20_100, 20_150, 20_300, 20_350, 20_500]


def test_more_recordings_than_the_limit_of_open_files_are_all_read(tmp_path: Path) -> None:
    for number in range(40):
        opened = t.Record(kind=t.OPENED, about={"recording": str(number)})
        write(tmp_path / f"nri-{number:02}.nritrace", [opened, *event(number + 1)], event(100 + number))
    trace = Trace(tmp_path)
    rows = [(e.recording, e.serial, e.whole) for e in trace.events()]
    assert sorted(rows) == sorted((n + 1, serial, True) for n in range(40) for serial in (n + 1, 100 + n))
    assert not trace.problems


def test_an_endless_event_does_not_delay_other_recordings(tmp_path: Path) -> None:
    write(tmp_path / "nri-1.nritrace", [OPENED, event(1)[0]])
    late = write(tmp_path / "nri-2.nritrace", other(*event(2)), *(event(serial) for serial in range(3, 50)))
    late.write_bytes(late.read_bytes()[:-1] + b"?")  # its end is damaged, which is reported once it is read
    trace = Trace(tmp_path)
    events = trace.events()
    assert [(e.recording, e.serial, e.whole) for e in islice(events, 2)] == [(1, 1, False), (2, 2, True)]
    assert not trace.problems, "all that follows was read first"
    assert len([*events]) == 46 and trace.problems


def test_descriptions_at_the_start_of_a_file_are_read_one_at_a_time(path: Path) -> None:
    notes = [t.Record(kind=t.PLUGIN, plugin="10-a", about={"config": "x" * (600 << 10)}) for _ in range(20)]
    write(path, [OPENED], *([note] for note in notes), event(1))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    trace = Trace(path)
    notes_read = trace.items()
    next(notes_read)
    assert not trace.problems, "the damaged end was come past"
    assert len([*notes_read]) == 20 and trace.problems


def test_a_file_that_is_removed_after_reading_is_not_a_problem(tmp_path: Path) -> None:
    first = write(tmp_path / "nri-1.nritrace", [OPENED, *event(1), *event(2)])
    write(tmp_path / "nri-2.nritrace", [OPENED, *event(3)])
    trace = Trace(tmp_path)
    events = trace.events()
    next(events)
    first.unlink()
    assert [e.serial for e in events] == [2, 3] and not trace.problems


def test_a_recording_has_the_same_number_in_every_order_of_reading(tmp_path: Path) -> None:
    names = [t.Record(kind=t.OPENED, about={"recording": name}) for name in ("one", "two", "three")]
    write(tmp_path / "nri-1.nritrace", [names[0], event(1)[0]])
    write(tmp_path / "nri-2.nritrace", [names[0], *event(1)[1:], names[1], *event(2)])
    write(tmp_path / "nri-3.nritrace", [names[2], *event(3)])
    keys = {(e.recording, e.serial) for e in Trace(tmp_path).events()}
    records = {(recording, record.serial) for record, recording in Trace(tmp_path).records() if record.serial}
    assert keys == records and len(keys) == 3


def test_the_recordings_of_a_crafted_file_are_bounded(path: Path) -> None:
    names = [t.Record(kind=t.OPENED, about={"recording": f"{number:040}"}) for number in range(20_010)]
    size = write(path, names, event(1)).stat().st_size
    (recorded,) = Trace(path).events()
    assert 5000 < recorded.recording <= 5001 + size // 100
    short = [t.Record(kind=t.OPENED, about={"recording": "n" * 9000 + str(number)}) for number in range(2)]
    write(path, [short[0], *event(1), short[1], *event(2)])
    assert [e.recording for e in Trace(path).events()] == [1, 1]


def test_events_of_several_recorders_in_one_file_are_complete_and_ordered(path: Path) -> None:
    records = [t.Record(kind=t.OPENED, about={"recording": str(number)}) for number in range(6)]
    opened = [record for number, e in enumerate(records) for record in (e, event(10 + number)[0])]
    write(path, [OPENED, event(1)[0], *other(*event(1)[:2]), OPENED, *event(1)[1:], *other(*event(1)[2:]), *opened])
    rows = [(e.recording, e.serial, e.whole) for e in Trace(path).events()]
    assert rows == [(1, 1, True), (2, 1, True), *((3 + number, 10 + number, False) for number in range(6))]


@pytest.mark.parametrize(("content", "reason"), [(b"text", "not a trace"), (None, "No such file")])
def test_a_missing_or_invalid_trace_is_an_error_with_the_reason(path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason):
        Trace(path)


def test_a_folder_without_a_trace_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no trace.*write one with --record DIR"):
        Trace(tmp_path)


def test_a_repeated_problem_is_reported_once(path: Path) -> None:
    path.write_bytes(write(path, [OPENED, *event(1)], event(2)).read_bytes()[:-3])
    trace = Trace(path)
    assert [list(trace.headers()), serials(trace), serials(trace)][1:] == [[1], [1]]
    assert len(trace.problems) == 1


def test_unsupported_blocks_of_a_file_are_one_problem(path: Path) -> None:
    newer = [odd_block(version=2), odd_block(version=2), odd_block(codec=9)]
    path.write_bytes(write(path, [OPENED, *event(1)]).read_bytes() + b"".join(newer))
    trace = Trace(path)
    assert [serials(trace), serials(trace)] == [[1], [1]]
    reasons = [line.partition(": at byte ")[2].partition(": ")[2] for line in trace.problems]
    assert reasons == [
        "2 blocks of version 2; this nri reads version 1: use a newer nri",
        "1 block of codec 9; this nri reads 0 and 1: use a newer nri",
    ]


def test_too_many_problems_are_counted(path: Path) -> None:
    path.write_bytes(blocks.MAGIC + (blocks.pack(b"x", 1, 1, 1)[:-1] + b"?") * 1500)
    trace = Trace(path)
    assert serials(trace) == []
    assert (len(trace.problems), trace.unlisted_problems > 0) == (1000, True)


def test_of_too_many_open_events_the_oldest_is_yielded_incomplete(path: Path) -> None:
    trace = Trace(write(path, [OPENED, *(event(serial)[0] for serial in range(1, 5000))]))
    events = next(trace.events())
    assert (events.serial, events.whole) == (1, False)


def test_a_message_that_is_too_long_is_skipped(path: Path) -> None:
    long = event(1, request=random.Random(1).randbytes(blocks.MAX_MESSAGE_BYTES + 1))
    (recorded,) = Trace(write(path, [OPENED, *long])).events()
    assert (recorded.request, recorded.whole) == (b"", False)


def test_the_old_state_change_event_is_parsed() -> None:
    message = m.StateChangeEvent(event=1, pod=POD)
    assert Allowance().parse("StateChange", message.SerializeToString(), reply=False) == message


def test_unfinished_events_are_bounded_in_bytes(path: Path) -> None:
    pieces = [write(path, [OPENED]).read_bytes()]
    for serial in range(40):
        record = t.Record(kind=t.BEGINS, time_ns=1, serial=serial, event="X", message=bytes(1 << 20))
        pieces.append(blocks.pack(bytes_field(1, record.SerializeToString()), 1, 1, 1))
    path.write_bytes(b"".join(pieces) + b"this is no block")
    trace = Trace(path)
    events = trace.events()
    assert next(events).serial == 0
    assert not trace.problems, "all of the file was read before the first event was given"
    assert [event.serial for event in events] == [*range(1, 40)]
    assert trace.problems


def test_names_and_texts_are_cut_to_the_recorders_limits(path: Path) -> None:
    error = t.Error(kind="K" * 9999, text="T" * 99_999, message="M" * 99_999, plugin="P" * 9999)
    at = {"serial": 1, "event": "E" * 9999, "plugin": "N" * 9999}
    (event,) = Trace(write(path, [OPENED, t.Record(kind=t.FAILED, error=error, **at)])).events()
    (step,) = event.steps
    assert step.error is not None
    names = (event.name, step.plugin, step.event, step.error.kind, step.error.plugin)
    assert [len(text) for text in (*names, step.error.text, step.error.message)] == [512] * 5 + [4096] * 2


def test_steps_of_an_event_are_matched_in_linear_time(path: Path) -> None:
    records = [t.Record(kind=t.ANSWERED, serial=1, event="X", plugin=f"{number}-p") for number in range(5000)]
    (event,) = Trace(write(path, [OPENED, *records])).events()
    assert len(event.steps) == 5000
    assert (event.latest("7-p", "X"), event.latest("7-p", "Y")) == (event.steps[7], None)
