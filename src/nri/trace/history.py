"""Read a trace file or a folder of trace files: events with the calls of their plugins, and notes.

`Trace.items()` yields each complete `Event` in the order in which events began, and a `Note` for changes of plugins and
of the recording. Invalid content does not raise errors: `problems` has file and offset. Unknown kinds and fields of
newer versions are ignored. A `StateChange`, which runtimes before 0.12 send, becomes the event that it describes.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from heapq import heappop, heappush, heapreplace
from itertools import chain, islice
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from nri.api import messages as m
from nri.api.events import BY_NUMBER
from nri.errors import LATE, ConfigError, RemoteProtocolError
from nri.files import open_regular
from nri.text import count
from nri.trace import blocks
from nri.trace.allowance import Allowance, kind_of
from nri.trace.pb import api_pb2 as t
from nri.wire import iter_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VALIDATE: Final = "ValidateContainerAdjustment"
#: At most this many events wait for their own end or for the end of an earlier event.
_MAX_OPEN_EVENTS = 4096
#: At most this many problems are listed; further problems are only counted.
_MAX_PROBLEMS = 1000
#: A folder may have at most this many files.
_MAX_FILES = 10_000
#: At most this many files of concurrent recorders are read at the same time, because each file holds a record. Further
#: files follow.
_MAX_OPEN_FILES: Final = 4
#: Steps in a file may be older than its beginning by this time, because the recorder held them.
_HELD_NS: Final = 10**9
#: The first step of a file is searched after at most this many notes at its beginning.
_MAX_NOTES = 1000
#: The first step of a file is searched after notes of at most this many bytes.
_MAX_NOTES_BYTES = 1 << 20
#: The name of a recording is cut to this many characters.
_MAX_RECORDING_CHARACTERS: Final = 64
#: Approximate memory of an event, in addition to its content.
_EVENT_BYTES = 1200
#: Approximate memory of a step, in addition to its content.
_STEP_BYTES = 700
#: Approximate memory of another record of a step, in addition to its content.
_RECORD_BYTES = 100
#: Names are cut to this many characters.
_MAX_NAME_CHARACTERS = 512
#: Texts are cut to this many characters.
_MAX_TEXT_CHARACTERS = 4096
#: A record with more fields is left out.
_MAX_FIELDS = 1000
#: Up to this many steps of an event are searched without an index.
_MAX_LINEAR_STEPS = 32
#: Kinds of records as constants: reading them from the generated enum is slower than reading a record.
_OPENED, _BEGINS, _ENDS, _REQUESTS = t.OPENED, t.BEGINS, t.ENDS, (t.BEGINS, t.ASKED)
_NOTES: Final = {t.OPENED: "opened", t.PLUGIN: "plugin", t.LOST: "lost", t.CLOSED: "closed"}
#: The errors for a plugin that did not answer.
_SILENT: Final = frozenset({*(error.__name__ for error in LATE), "ConnectionClosed", "PluginUnavailable",
                            "ProtocolError", "LocalProtocolError", "RemoteProtocolError"})  # fmt: skip
_RELAYED: Final = "StateChange"
#: The request that a plugin sends by itself.
_UNSOLICITED: Final = "UpdateContainers"


#: The reason for leaving out a record.
_TOO_LONG: Final = "a record is left out: too long for a recording of this size, or too many fields"
#: The reason for leaving out records or messages.
_COSTLY: Final = "reading them would take too much memory or time for a recording of this size"


class Note(NamedTuple):
    """A change of the recording or of a plugin.

    Attributes:
        kind: "opened" and "closed" (a file of the recording), "plugin", or "lost" (`lost` steps are missing).
        time_ns: nanoseconds since 1970.
        plugin, state: ``NN-name``, and "active", "late", "open" or "gone".
        about: versions and settings of a recording; properties of a plugin.
        recording: the number of the recording, as in `Event`.
    """

    kind: str
    time_ns: int
    plugin: str = ""
    state: str = ""
    about: dict[str, str] = {}  # noqa: RUF012 - never changed
    lost: int = 0
    recording: int = 0


class Step:
    """The call of a plugin for an event.

    Attributes:
        plugin: ``NN-name``.
        event: the event's name, or `VALIDATE`.
        request: the encoded request.
        reply: the encoded answer, or None.
        error: the reason for a missing answer, or None.
        merged: whether the answer was merged, or has nothing to merge.
        refused: the reason why the answer was not merged, for example a conflict, or None.
        time_ns: the start of the call, in nanoseconds since 1970.
        duration_ns: the duration of the call, in nanoseconds.
    """

    __slots__ = ("duration_ns", "error", "event", "merged", "plugin", "refused", "reply", "request", "time_ns")

    def __init__(self, plugin: str, event: str, request: bytes, time_ns: int) -> None:
        self.plugin, self.event, self.request, self.time_ns = plugin, event, request, time_ns
        self.reply: bytes | None = None
        self.error: t.Error | None = None
        self.merged = False
        self.refused: t.Error | None = None
        self.duration_ns = 0

    @property
    def silent(self) -> bool:
        """Whether the plugin did not answer: it was late, busy or disconnected."""
        return self.error is not None and self.error.kind in _SILENT

    def set_end(self, record: t.Record) -> None:
        """Set the end of the call, and correct its start, which the recorder stores only after sending the request."""
        self.duration_ns = record.duration_ns
        self.time_ns = max(0, record.time_ns - record.duration_ns)


class Event:
    """An event of a recording.

    Attributes:
        name: the RPC name.
        serial: the event's number in its recording.
        recording: the number of its recording in this reading, from 1.
        began_ns, duration_ns: the start in nanoseconds since 1970, and the duration in nanoseconds.
        request: the encoded request of the runtime.
        steps: the calls of plugins in order; validators last, with `VALIDATE` as their event.
        reply: the encoded merged reply.
        error: the error of the event, or None.
        whole: whether the beginning, the end and all messages of the event were recorded.
        redacted: whether values of the messages were replaced.
    """

    __slots__ = (
        "_allowance", "_latest_steps", "_parsed", "began_ns", "duration_ns", "error", "name", "recording", "redacted",
        "reply", "request", "serial", "steps", "whole",
    )  # fmt: skip

    def __init__(self, name: str, serial: int, recording: int, began_ns: int, allowance: Any = None) -> None:
        self.name, self.serial, self.recording, self.began_ns = name, serial, recording, began_ns
        self._allowance: Allowance = allowance or Allowance()
        self.duration_ns = 0
        self.request = self.reply = b""
        self.steps: list[Step] = []
        self.error: t.Error | None = None
        self.whole = self.redacted = False
        self._parsed: Any = None
        self._latest_steps: dict[tuple[str, str], Step] | None = None

    def add(self, step: Step) -> Step:
        """Add a step and return it."""
        self.steps.append(step)
        if self._latest_steps is not None:
            self._latest_steps[step.plugin, step.event] = step
        return step

    def latest(self, plugin: str, event: str) -> Step | None:
        """The last step of a plugin for an event of this name. Returns None without such a step."""
        if len(self.steps) <= _MAX_LINEAR_STEPS:
            for step in reversed(self.steps):
                if step.plugin == plugin and step.event == event:
                    return step
            return None
        if self._latest_steps is None:
            self._latest_steps = {(step.plugin, step.event): step for step in self.steps}
        return self._latest_steps.get((plugin, event))

    def unwrap(self) -> None:
        """Convert a `StateChange` to the event that it describes, unless this version does not know the event."""
        message = self.message
        spec = None if message is None else BY_NUMBER.get(message.event)
        if spec is None or not spec.relayed:
            return
        self._parsed = request = getattr(m, spec.request)(pod=message.pod)
        if spec.kind == "container":
            request.container.CopyFrom(message.container)
        self.name, self.request = spec.rpc, request.SerializeToString()
        for step in self.steps:
            step.event = spec.rpc
            step.request = self.request

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of the event in bytes, without its parsed messages."""
        size = _EVENT_BYTES + len(self.request) + len(self.reply)
        for step in self.steps:
            size += _STEP_BYTES + len(step.reply or b"") + (step.request is not self.request) * len(step.request)
            size += sum(error.ByteSize() for error in (step.error, step.refused) if error is not None)
        return size

    @property
    def first_ns(self) -> int:
        """The start of the first step, which may be before `began_ns`."""
        return min([self.began_ns, *[step.time_ns for step in self.steps]])

    @property
    def message(self) -> Any:
        """The parsed request, or None if it is invalid. Do not change it."""
        if self._parsed is None:
            self._parsed = self.parse(self.name, self.request, reply=False)
        return self._parsed

    def parse(self, event: str, data: bytes, *, reply: bool) -> Any:
        """Parse a message of the event. Returns None if it is invalid, too costly, or unknown to this version."""
        return self._allowance.parse(event, data, reply=reply)

    def leave_out(self, kind: str) -> None:
        """Count something in the event, for example a message, as left out in the recording's problems."""
        self._allowance.leave_out(kind)

    def json_values(self, kind: Any, data: bytes, maximum: int) -> int | None:
        """Count the values of a message. Returns None if they exceed `maximum` or the limit for JSON."""
        return self._allowance.json_values(kind, data, maximum)

    @property
    def pod(self) -> m.PodSandbox | None:
        """The pod of the event. Returns None if the event has no pod."""
        pod: m.PodSandbox | None = self._part("pod")
        return pod

    @property
    def container(self) -> m.Container | None:
        """The container of the event. Returns None if the event has no container."""
        container: m.Container | None = self._part("container")
        return container

    def _part(self, name: str) -> Any:
        kind = kind_of(self.name, reply=False)
        if kind is None or name not in kind.DESCRIPTOR.fields_by_name or self.message is None:
            return None
        return getattr(self.message, name) if self.message.HasField(name) else None

    @property
    def subject(self) -> str:
        """NAMESPACE/POD/CONTAINER of the event. For a container without a name, its id is shortened."""
        pod, container = self.pod, self.container
        names = [] if pod is None else [pod.namespace, pod.name]
        names += [] if container is None else [container.name or container.id[:13]]
        if not names and self.name == _UNSOLICITED and self.message is not None:
            names = [update.container_id[:13] for update in islice(self.message.update, 1)]
        return "/".join(name for name in names if name)

    def names(self, text: str) -> bool:
        """Whether a text is a name, an id, or the beginning of an id of the pod or container, or NAMESPACE/POD."""
        pod, container = self.pod, self.container
        names = [] if pod is None else [pod.name, f"{pod.namespace}/{pod.name}"]
        names += [] if container is None else [container.name]
        ids = [part.id for part in (pod, container) if part is not None]
        return bool(text) and (text in names or any(part.startswith(text) for part in ids))


class Trace:
    """A trace file, or a folder of trace files, as one history.

    Attributes:
        path: the path of the file or folder.
        files: the files, the oldest first.
        size_bytes: the size of all files when the trace was opened.
        unlisted_problems: the number of problems that are not in `problems`.

    Raises ConfigError if no trace is found.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._problems: dict[tuple[Path, int], str] = {}
        self.unlisted_problems = 0
        self._lost: Counter[str] = Counter()  # number of records and messages that are too costly, by kind
        self._recordings: dict[str, int] = {}
        self._names = [""]
        self._last_file_index: dict[
            str, int
        ] = {}  # by name of a recording, the index of the last file that begins with it ...
        self._known_from = -1  # ... among files from this index
        self._lock = threading.Lock()  # the inspector's page reads in several threads
        where = Path(path)
        self.path = str(where)
        try:
            if where.is_dir():
                self.files = _files(where)  # an unreadable file does not affect the others
            else:
                self.files = [where]
                with open(open_regular(where), "rb") as file:
                    if not blocks.is_trace(file):
                        step = "write one with --record DIR; nri decode explains captured bytes"
                        raise ConfigError(self.path, "", "not a trace", step)
        except OSError as error:
            step = (
                "run it as root"
                if isinstance(error, PermissionError)
                else "specify a file or folder that --record DIR has written"
            )
            raise ConfigError(str(path), "", error.strerror or str(error), step) from None
        self.size_bytes = sum(map(_size, self.files))

    @property
    def problems(self) -> list[str]:
        """Lines about damaged or left out records that were read so far, at most about 1,000 lines."""
        left_out = (f"{self.path}: {count(number, kind)} left out: {_COSTLY}" for kind, number in self._lost.items())
        return [*self._problems.values(), *left_out]

    def headers(self) -> Iterator[tuple[Path, blocks.Header]]:
        """The headers of the blocks of all files, which are the index."""
        return ((path, header) for path in self.files for _, header in self._blocks(path))

    def _blocks(self, path: Path) -> Iterator[tuple[Any, blocks.Header]]:
        """The blocks of a file, each with the open file."""
        try:
            with open(open_regular(path), "rb") as file:
                if not blocks.is_trace(file):
                    self._problem(path, 0, "not a trace")
                    return
                for block in blocks.scan(file):
                    if isinstance(block, blocks.Damage):
                        self._problem(path, block.offset, block.reason)
                    else:
                        yield file, block
        except OSError as error:
            self._problem(path, 0, error.strerror or str(error))

    def _problem(self, path: Path, offset: int, reason: str) -> None:
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems[path, offset] = f"{path}: at byte {offset}: {reason}"
        elif (path, offset) not in self._problems:
            self.unlisted_problems += 1

    def items(self, since_ns: int = 0, until_ns: int = 1 << 64) -> Iterator[Event | Note]:
        """Yield events in the order in which they began, and notes between them.

        Blocks outside of the times are not unpacked. If more than four recorders wrote to a folder at the same time,
        the events of some recorders follow after the events of others.
        """
        allowance = self._allowance()
        assembly = _Assembly(allowance)
        for entry in self._numbered_records(since_ns, until_ns, allowance):
            if isinstance(entry, _FileEnd):
                assembly.give_up(
                    {
                        recording_
                        for recording_ in assembly.waits_for(entry)
                        if self._last_file(recording_, entry.place) < 0
                    }
                )
            else:
                record, recording = entry
                if record.kind in _NOTES:
                    about = dict(record.about)
                    kind = _NOTES[record.kind]
                    yield Note(kind, record.time_ns, record.plugin, record.event, about, record.count, recording)
                    continue
                assembly.take(record, recording)
            yield from assembly.over()
        yield from assembly.remaining()

    def records(self, since_ns: int = 0, until_ns: int = 1 << 64) -> Iterator[tuple[t.Record, int]]:
        """Yield all records with the number of their recording. Records of concurrent recordings are sorted by time."""
        placed = self._numbered_records(since_ns, until_ns, self._allowance())
        return (entry for entry in placed if not isinstance(entry, _FileEnd))

    def _allowance(self) -> Allowance:
        """Create the allowance for one reading. A left out record counts once, however often the recording is read."""
        lost: Counter[str] = Counter()

        def leave_out(kind: str) -> None:
            lost[kind] += 1
            self._lost[kind] = max(self._lost[kind], lost[kind])

        return Allowance(leave_out)

    def name(self, recording: int) -> str:
        """The name of a recording that was read, by its number. Returns "" if it has no name."""
        return self._names[recording] if recording < len(self._names) else ""

    def _numbered_records(
        self, since_ns: int, until_ns: int, allowance: Allowance
    ) -> Iterator[tuple[t.Record, int] | _FileEnd]:
        """Yield the records of all files with the number of their recording, and the ends of files.

        Files are sorted by time. The next file is opened when the time of the newest open file is due. Files of the
        same recording are read one after the other.
        """
        opened, newest, recording = 0, -1, 0
        files: dict[int, _File] = {}
        due: list[tuple[int, int]] = []  # the time of each file's next record, and its index
        while True:
            while newest < 0 and opened < len(self.files) and len(due) < _MAX_OPEN_FILES:
                file = _File(self._records(self.files[opened], since_ns, until_ns, allowance), recording)
                if file.next is not None:
                    heappush(due, (file.due_ns - _HELD_NS, opened))
                    files[opened], newest = file, opened
                opened += 1
            if not due:
                return
            place = due[0][1]
            file = files[place]
            if place == newest:
                last = self._earlier_file(file, files.values())
                if last is None:
                    newest, recording = -1, self._recording_number(file, allowance)
                    file.begin()
                    last = file
                heapreplace(due, (last.due_ns, place))
                continue
            heappop(due)
            for record in file.until(due[0][0] - (due[0][1] < place) if due else inf):
                yield record, self._recording_number(file, allowance) if record.kind == _OPENED else file.recording
            if file.next is not None:
                heappush(due, (file.due_ns, place))
                continue
            del files[place]
            begun = opened if newest < 0 else newest
            goes_on = set().union(*[file_.recordings for file_ in files.values()])
            yield _FileEnd(file.recordings - goes_on, begun)

    def _earlier_file(self, file: _File, files: Iterable[_File]) -> _File | None:
        """The open file of the same recording, which must be read before this file.

        Returns None without such a file.
        """
        record, number = file.next, file.recording
        if record is not None and record.kind == _OPENED:
            number = self._recordings.get(_name(record), -1)
        same = (
            candidate
            for candidate in files
            if candidate is not file and candidate.next is not None and candidate.recording == number
        )
        return next(same, None)

    def _recording_number(self, file: _File, allowance: Allowance) -> int:
        """Update and return the number of a file's recording at its next record."""
        if file.next is not None and file.next.kind == _OPENED:
            file.recording = self._number(file.next, allowance)
            file.recordings.add(file.recording)
        return file.recording

    def _number(self, opened: t.Record, allowance: Allowance) -> int:
        """The number of the recording that an OPENED record begins or continues."""
        name = _name(opened)
        with self._lock:
            number = self._recordings.get(name, 0) or len(self._recordings) + 1
            if len(self._recordings) < number <= allowance.recordings:  # further recordings share the last number
                self._recordings[name] = number
                self._names.append(name)
        return number

    def _last_file(self, recording: int, place: int) -> int:
        """The index of the last file that begins with a recording, searched from an index on.

        Returns -1 if not found.
        """
        with self._lock:
            end = len(self.files) if self._known_from < 0 else self._known_from
            for number in range(place, end):
                record = next(self._records(self.files[number], 1 << 64, 0, Allowance()), None)
                if record is not None and record.kind == _OPENED:
                    self._last_file_index[_name(record)] = max(self._last_file_index.get(_name(record), -1), number)
            self._known_from = min(place, end)
            last = self._last_file_index.get(self.name(recording), -1)
        return last if last >= place else -1

    def events(self, since_ns: int = 0, until_ns: int = 1 << 64) -> Iterator[Event]:
        """Yield only events."""
        return (item for item in self.items(since_ns, until_ns) if isinstance(item, Event))

    def follow(self) -> Iterator[Event | None]:
        """Yield events in the order in which their ends were written, also of blocks and files that are written later.

        Yields None each time after everything that is written was read; the caller then waits. It does not end.
        """
        allowance = self._allowance()
        assembly = _Assembly(allowance)
        tails: dict[Path, _Tail] = {}
        while True:
            if os.path.isdir(self.path):
                self.files = _files(Path(self.path))
            tails = {path: tails.get(path) or _Tail() for path in self.files}  # forget removed files
            for path, tail in tails.items():
                for record in self._new_records(path, tail, allowance):
                    if record.kind == _OPENED:
                        tail.recording = self._number(record, allowance)
                    elif record.kind not in _NOTES:
                        assembly.take(record, tail.recording)
                        yield from assembly.ended()
            yield None

    def _new_records(self, path: Path, tail: _Tail, allowance: Allowance) -> Iterator[t.Record]:
        """Yield the records of blocks after `tail`, and move it. An incomplete block at the end is read again later."""
        size, damage = _size(path), None
        if size == tail.size:
            return
        tail.size = size
        try:
            with open(open_regular(path), "rb") as file:
                for block in blocks.scan(file, tail.offset):
                    if isinstance(block, blocks.Damage):
                        damage = damage or block
                        continue
                    if damage is not None:
                        self._problem(path, damage.offset, damage.reason)
                        damage = None
                    if reason := blocks.unknown(block):
                        self._problem(path, block.offset, f"a block {reason}")
                    else:
                        allowance.read_bytes += block.size
                        yield from self._content(path, file, block, allowance)
                    tail.offset = block.offset + block.size
        except OSError as error:
            self._problem(path, 0, error.strerror or str(error))

    def _records(self, path: Path, since_ns: int, until_ns: int, allowance: Allowance) -> Iterator[t.Record]:
        unknown: dict[
            str, tuple[int, int]
        ] = {}  # for each reason: the offset of the first such block, and the number of blocks
        first = True
        for file, header in self._blocks(path):
            reason = blocks.unknown(header)
            if reason:
                offset, before = unknown.get(reason, (header.offset, 0))
                unknown[reason] = offset, before + 1
            elif first or (header.last_ns >= since_ns and header.first_ns <= until_ns):
                allowance.read_bytes += header.size
                yield from self._content(path, file, header, allowance)
            first = False
        for reason, (offset, number) in unknown.items():
            self._problem(path, offset, f"{count(number, 'block')} {reason}")

    def _content(self, path: Path, file: Any, header: blocks.Header, allowance: Allowance) -> Iterator[t.Record]:
        """Yield the records of a block. An unreadable block becomes a problem."""
        try:
            for value in blocks.split(blocks.contents(file, header), allowance.record_bytes):
                if not allowance.has_record():
                    reason = "too many records for a recording of this size: the remaining records are left out"
                    self._problem(path, header.offset, reason)
                    return
                record = None if value is None else _record(value)
                if record is None:
                    self._problem(path, header.offset, _TOO_LONG)
                else:
                    del value
                    yield record
        except (RemoteProtocolError, DecodeError) as error:
            self._problem(path, header.offset, getattr(error, "reason", "") or f"a record cannot be read: {error}")


class _Tail:
    """How far a file was read: the offset after its last block, its size then, and the number of its recording."""

    __slots__ = ("offset", "recording", "size")

    def __init__(self) -> None:
        self.offset = self.size = self.recording = 0


class _FileEnd(NamedTuple):
    """Recordings that end in a file and do not continue in an open file. Files from index `place` may continue them."""

    recordings: set[int]
    place: int


class _File:
    """An open file.

    Attributes:
        next: the next record; None at the end.
        recording: the number of the file's recording; before its first record, the number of the previous file.
        recordings: the numbers of all its recordings.
    """

    __slots__ = ("_begun_ns", "_file_records", "_notes", "next", "recording", "recordings")

    def __init__(self, records: Iterator[t.Record], recording: int) -> None:
        self._file_records = records
        self.next = next(records, None)
        self.recording = recording
        self.recordings = set[int]() if self.next is not None and self.next.kind == _OPENED else {recording}
        self._begun_ns = self._notes = 0

    @property
    def due_ns(self) -> int:
        """The time of the next record."""
        return self._begun_ns if self._notes or self.next is None else self.next.time_ns

    def begin(self) -> None:
        """Find the time of the first step after the notes at the beginning. The step may be older than the notes."""
        records: list[t.Record] = []
        size = 0
        while self.next is not None and len(records) < _MAX_NOTES and size < _MAX_NOTES_BYTES:
            records.append(self.next)
            size += self.next.ByteSize()
            if self.next.kind not in _NOTES:
                break
            self.next = next(self._file_records, None)
        self._notes = sum(record.kind in _NOTES for record in records)
        self._begun_ns = min([r.time_ns for r in (*records[:1], *records[self._notes :])], default=0)
        if self._notes == len(records) and self.next is not None:
            records.append(self.next)
        self._file_records = chain(records[1:], self._file_records)
        self.next = records[0] if records else None

    def until(self, time_ns: float) -> Iterator[t.Record]:
        """Yield the records up to a time."""
        while self.next is not None and self._notes and self._begun_ns <= time_ns:
            yield self.next
            self.next = next(self._file_records, None)
            self._notes -= 1
        record, records = self.next, self._file_records
        while record is not None and not self._notes and record.time_ns <= time_ns:
            yield record
            record = self.next = next(records, None)


def _name(record: t.Record) -> str:
    """The name of the recording in an OPENED record."""
    return record.about.get("recording", "")[:_MAX_RECORDING_CHARACTERS]


def _record(value: bytes) -> t.Record | None:
    """Parse a record and cut its message, names and texts to the recorder's limits. None if it has too many fields."""
    if len(value) <= _MAX_NAME_CHARACTERS:
        return t.Record.FromString(value)
    if sum(1 for _ in islice(iter_fields(value), _MAX_FIELDS + 1)) > _MAX_FIELDS:
        return None
    record = t.Record.FromString(value)
    message = len(record.message)
    if message > blocks.MAX_MESSAGE_BYTES:
        record.omitted_bytes, record.message = message, b""
    if len(value) - message <= _MAX_NAME_CHARACTERS:
        return record
    if len(record.event) > _MAX_NAME_CHARACTERS or len(record.plugin) > _MAX_NAME_CHARACTERS:
        record.event, record.plugin = record.event[:_MAX_NAME_CHARACTERS], record.plugin[:_MAX_NAME_CHARACTERS]
    if record.HasField("error") and record.error.ByteSize() > _MAX_TEXT_CHARACTERS:
        error = record.error
        error.kind, error.plugin = error.kind[:_MAX_NAME_CHARACTERS], error.plugin[:_MAX_NAME_CHARACTERS]
        error.text, error.message = error.text[:_MAX_TEXT_CHARACTERS], error.message[:_MAX_TEXT_CHARACTERS]
    return record


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # reading it reports the error
        return 0


def _files(folder: Path) -> list[Path]:
    """The traces of a folder, sorted by name and so by time. Raises ConfigError if there are none, or too many."""
    paths = [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(blocks.SUFFIX)]
    if not paths or len(paths) > _MAX_FILES:
        reason = f"{len(paths)} traces in this folder" if paths else f"no trace (*{blocks.SUFFIX}) in this folder"
        step = f"choose one of them, or a folder of at most {_MAX_FILES}" if paths else "write one with --record DIR"
        raise ConfigError(str(folder), "", reason, step)
    return sorted(paths)


class _Assembly:
    """Assembles events from records. Above the limits the oldest event is returned incomplete."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._open: OrderedDict[tuple[int, int], Event] = OrderedDict()  # key: recording and serial number
        self._ended_events: set[tuple[int, int]] = set()
        self._given_up: set[tuple[int, int]] = set()
        self._last_file: dict[tuple[int, int], bytes] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._held_bytes = 0

    def take(self, record: t.Record, recording: int) -> None:
        key, message, kind = (recording, record.serial), record.message, record.kind
        event = self._open.get(key)
        size = len(message) + _RECORD_BYTES
        if event is None:
            event = self._open[key] = Event(record.event, record.serial, recording, record.time_ns, self._allowance)
            event.whole = kind == _BEGINS
            event.request = message
            size += _EVENT_BYTES
        before = len(event.steps)
        self._add(event, key, record, message)
        if len(event.steps) > before:
            size += _STEP_BYTES + len(record.plugin) + len(record.event)
        if record.HasField("error"):
            size += record.error.ByteSize()
        self._sizes[key] = self._sizes.get(key, 0) + size
        self._held_bytes += size

    def _add(self, event: Event, key: tuple[int, int], record: t.Record, message: bytes) -> None:
        """Add a record to its event."""
        kind = record.kind
        take = _TAKERS.get(kind)
        if take is None:
            return
        if record.redacted:
            event.redacted = True
        if record.omitted_bytes:
            event.whole = False
        if kind in _REQUESTS:
            if not record.same:
                self._last_file[key] = message
            elif key not in self._last_file:
                event.whole = False
        take(event, record, self._last_file.get(key, b"") if kind in _REQUESTS else message)
        if kind == _ENDS:
            self._ended_events.add(key)

    def waits_for(self, over: _FileEnd) -> set[int]:
        """The recordings of `over` that have events without an end."""
        return over.recordings.intersection(key[0] for key in self._open if key not in self._ended_events)

    def give_up(self, recordings: set[int]) -> None:
        """Stop waiting for the ends of events of these recordings."""
        self._given_up.update(key for key in self._open if key[0] in recordings)

    def over(self) -> Iterator[Event]:
        """Yield complete events that do not follow an incomplete event."""
        while self._open:
            key = next(iter(self._open))
            over = key in self._ended_events or key in self._given_up
            if not over and len(self._open) <= _MAX_OPEN_EVENTS and self._held_bytes <= self._allowance.held_bytes:
                return
            yield self._close_event(key)

    def ended(self) -> Iterator[Event]:
        """Yield complete events, also those that follow an incomplete event."""
        for key in tuple(self._ended_events):
            yield self._close_event(key)
        yield from self.over()

    def remaining(self) -> Iterator[Event]:
        """Yield all remaining events."""
        while self._open:
            yield self._close_event(next(iter(self._open)))

    def _close_event(self, key: tuple[int, int]) -> Event:
        event = self._open.pop(key)
        self._last_file.pop(key, None)
        self._held_bytes -= self._sizes.pop(key)
        event.whole &= key in self._ended_events
        self._ended_events.discard(key)
        self._given_up.discard(key)
        if event.name == _RELAYED:
            event.unwrap()
        return event


def _take_request(event: Event, record: t.Record, request: bytes) -> None:
    event.add(Step(record.plugin, record.event, request, record.time_ns))


def _step(event: Event, record: t.Record) -> Step:
    """The step that a record continues, or a new step if its beginning is missing."""
    step = event.latest(record.plugin, record.event)
    if step is None:
        event.whole = False
        step = event.add(Step(record.plugin, record.event, b"", record.time_ns))
    return step


def _take_answer(event: Event, record: t.Record, reply: bytes) -> None:
    step = _step(event, record)
    step.reply = reply
    step.set_end(record)


def _take_failure(event: Event, record: t.Record, _: bytes) -> None:
    step = _step(event, record)
    step.error = _error(record) or t.Error()
    step.set_end(record)


def _take_merge(event: Event, record: t.Record, _: bytes) -> None:
    step = _step(event, record)
    step.refused = _error(record)
    step.merged = step.refused is None


def _take_end(event: Event, record: t.Record, reply: bytes) -> None:
    event.reply, event.duration_ns = reply, record.duration_ns
    event.error = _error(record)


def _error(record: t.Record) -> t.Error | None:
    """Copy the error of a record: a reference would keep the whole record in memory."""
    if not record.HasField("error"):
        return None
    error = t.Error()
    error.CopyFrom(record.error)
    return error


_TAKERS: Final = {
    t.BEGINS: lambda *_: None,
    t.ASKED: _take_request,
    t.ANSWERED: _take_answer,
    t.FAILED: _take_failure,
    t.MERGED: _take_merge,
    t.ENDS: _take_end,
}
