"""The data of the page as JSON objects, from a runtime or from a recording.

| method | result |
|---|---|
| overview | figures, a row for each plugin as in `nri.trace.live_events`, `series` over time (`TimeSeries.to_json`) |
| events | rows of the admin socket with a `key`, the newest first; `next` and `more` for the next page; `looked_at` |
| event | one row, with the answers of plugins if they were recorded |
| containers, container | ids and names; values in force and changes, `Explanation.to_json_with_values` |
| follow | new `rows`, each second the `overview`, and the number of rows that came `too_fast` |
| view | data of another program of the node: `drift`, the node's `agent`, the `placement` of containers |

A thread reads a recording once for sums and histories. Events are read again on request, from the block in the index.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from itertools import islice
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Final, Protocol

from nri.adaptation.audit import STATES
from nri.api.events import EVENTS
from nri.errors import LATE, NriError
from nri.inspector.filters import EMPTY, OUTCOMES, Filter
from nri.text import plain
from nri.trace.call_stats import CallStats, DurationRoom
from nri.trace.changes import Changes
from nri.trace.history import Event, Note, Trace
from nri.trace.live_events import plugin_rows
from nri.trace.message_json import MessageJson
from nri.trace.time_series import TimeSeries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nri.trace.live_events import Live
    from nri.trace.pb import api_pb2 as t

#: Texts are cut to this many characters.
_MAX_TEXT_CHARACTERS = 500
#: An answer has at most this many events.
_MAX_EVENTS = 500
#: A search for events ends after this many seconds.
_SEARCH_TIMEOUT_S = 1.0
#: A page of events is read for at most this many seconds.
_PAGE_TIMEOUT_S = 10.0
#: An answer has at most this many containers.
_MAX_CONTAINERS = 2000
#: A follower gets a message at most this often, in seconds.
_FOLLOW_INTERVAL_S = 0.25
#: A follower gets an overview this often, in seconds.
_OVERVIEW_INTERVAL_S = 1.0
#: Read this much before a position, for events that began earlier.
_EARLIER_NS = 5 * 10**9
#: Read this much after an event, for its end.
_LATER_NS = 60 * 10**9
#: An event is shown with at most this many steps.
_MAX_STEPS = 256
#: All events of an answer have at most this many steps together.
_MAX_ANSWER_STEPS = 2000
#: The events of a recording's snapshot have at most this many bytes, and so have its chains of changes.
_SNAPSHOT_BYTES = 2 << 20
#: The same limit for a runtime's snapshot.
_SNAPSHOT_BYTES_OF_RUNTIME = 64 << 20
#: The number of intervals in a chart.
_INTERVALS = 60
#: The length of an interval in the charts of a runtime, in milliseconds.
_INTERVAL_MS = 5000.0
#: A recording is read again in pages of at most this many events.
_PAGE_EVENTS = 500
#: A page has at most about this many bytes of events in memory, or a single event.
_PAGE_BYTES = 2 << 20
#: At most this many notes are shown.
_MAX_NOTES = 200
#: At most this many plugins are shown.
_MAX_PLUGINS = 1000
#: At most this many metadata of a recording are shown.
_MAX_ABOUT = 50
#: The errors of a plugin that has not answered in time.
_LATE: Final = {error.__name__ for error in LATE}
#: The choices of the filter chips.
_CHOICES: Final = {"events": [*(spec.rpc for spec in EVENTS), "Synchronize"], "outcomes": [*OUTCOMES]}

_ALL: Final = Filter()

#: A function that returns the data of another program of the node about a pod or container, or about all for "".
#: Returns None if the program does not run. Raises NriError if it does not answer.
View = Callable[[str], dict[str, Any] | None]


class SourceUnavailable(Exception):
    """A runtime or another program of the node does not answer."""


class Source(Protocol):
    """The data of the page."""

    def overview(self) -> dict[str, Any]:
        """A summary of the node."""

    def events(self, begin: str = "", chosen: Filter = _ALL, max_events: int = 200) -> dict[str, Any]:
        """The events that a filter selects, the newest first.

        Args:
            begin: the `next` of another page; or a time in nanoseconds since 1970, for this event and earlier events.
            chosen: the filter.
            max_events: the limit of rows.
        """

    def event(self, key: str) -> dict[str, Any] | None:
        """The event with a key. Returns None if it is unknown."""

    def rows(self, max_rows: int, max_full: int) -> Iterable[dict[str, Any]]:
        """The events of a snapshot: at most `max_rows`. At most `max_full` of them have their messages."""

    @property
    def snapshot_bytes(self) -> int:
        """The limit in bytes for the events of a snapshot, and for its chains of changes."""

    def containers(self) -> dict[str, Any]:
        """The containers with a history."""

    def container(self, ident: str) -> dict[str, Any] | None:
        """The chain of changes of a container. Returns None if it is unknown."""

    def follow(self, after: str, chosen: Filter) -> Iterator[dict[str, Any]]:
        """Yield news after the event with a number at least once a second. With "", yield only overviews."""

    def view(self, name: str, of: str) -> dict[str, Any] | None:
        """The data of another program of the node about `of`. Returns None if the program does not run."""


class Running:
    """A running runtime.

    Args:
        live: the runtime's events, which are being read.
        ask: calls a method of its admin socket with a request. Like `live` and the views it raises NriError if the
            program does not answer.
        title: the runtime's name.
        views: functions that return the data of other programs of the node, by name.
    """

    def __init__(
        self,
        live: Live,
        ask: Callable[[str, dict[str, Any]], dict[str, Any]],
        title: str,
        views: Mapping[str, View] | None = None,
    ) -> None:
        self._live, self._ask, self._title = live, ask, title
        self._views = views or {}
        self._series = TimeSeries(_INTERVAL_MS, _INTERVALS)
        self._chart_position = 0
        self._lock = threading.Lock()

    def overview(self) -> dict[str, Any]:
        """A summary of the last minute, and charts of the last minutes."""
        try:
            summary = self._live.summary()
        except NriError as error:
            raise SourceUnavailable(str(error)) from None
        rows = self._live.rows()
        notes = [row for row in rows if "steps" not in row][-_MAX_NOTES:]
        last = rows[-1]["n"] if rows else 0
        with self._lock:
            for row in self._live.rows(self._chart_position):
                self._chart_position = row["n"]
                _chart(self._series, row.get("steps", ()), row["time_ms"])
            series = self._series.to_json(time() * 1e3)
        more = {"notes": notes, "last_n": last, "views": list(self._views), "series": series, "choices": _CHOICES}
        return {"mode": "live", "title": self._title, **summary, **more}

    def events(self, begin: str = "", chosen: Filter = _ALL, max_events: int = 200) -> dict[str, Any]:
        """The events that a filter selects, the newest first. `last` is the number of the newest event."""
        rows = [row for row in self._live.rows() if "steps" in row]
        number, is_page = _numbers(begin)[0], "." in begin
        if begin:
            max_events = min(max_events, _MAX_EVENTS)
        matching = [
            row
            for row in reversed(rows)
            if (not begin or (row["n"] <= number if is_page else row["time_ms"] * 1e6 <= number))
            and chosen.matches(row)
        ]
        more = len(matching) > max_events
        following = f"{matching[max_events]['n']}." if more else ""
        keyed, last = [_with_key(row) for row in matching[:max_events]], str(rows[-1]["n"]) if rows else "0"
        return {"rows": keyed, "next": following, "more": more, "looked_at": len(rows), "last": last}

    def follow(self, after: str, chosen: Filter) -> Iterator[dict[str, Any]]:
        """Yield the events after number `after` that a filter selects, and each second the overview."""
        last, overview_at = int(after[:18]) if after.isdecimal() else -1, float("-inf")
        while True:
            rows = self._live.rows(last)[:_MAX_EVENTS] if last >= 0 else []
            lost = max(0, rows[0]["n"] - last - 1) if rows else 0
            now: dict[str, Any] = {"rows": [], "too_fast": lost}
            if rows:
                last = rows[-1]["n"]
                now["rows"] = [_with_key(row) for row in rows if "steps" in row and chosen.matches(row)]
            if monotonic() - overview_at >= _OVERVIEW_INTERVAL_S:
                overview_at = monotonic()
                try:
                    now["overview"] = self.overview()
                except SourceUnavailable as error:
                    now["unanswered"] = str(error)
            yield now
            sleep(_FOLLOW_INTERVAL_S)
            self._live.wait(last, max(0.0, overview_at + _OVERVIEW_INTERVAL_S - monotonic()))

    def view(self, name: str, of: str) -> dict[str, Any] | None:
        """The data of another program of the node."""
        try:
            return self._views[name](of) if name in self._views else None
        except NriError as error:
            raise SourceUnavailable(str(error)) from None

    def rows(self, max_rows: int, max_full: int) -> Iterable[dict[str, Any]]:  # noqa: ARG002 - it has no messages
        """The last events."""
        rows: list[dict[str, Any]] = self.events(max_events=max_rows)["rows"]
        return rows

    @property
    def snapshot_bytes(self) -> int:
        """A limit above the size of the events, whose number is already limited."""
        return _SNAPSHOT_BYTES_OF_RUNTIME

    def event(self, key: str) -> dict[str, Any] | None:
        """An event in memory."""
        rows = [row for row in self._live.rows() if str(row["n"]) == key and "steps" in row]
        return _with_key(rows[0]) if rows else None

    def containers(self) -> dict[str, Any]:
        """The containers with a history in the runtime."""
        try:
            answer = self._ask("Containers", {})
        except NriError as error:
            raise SourceUnavailable(str(error)) from None
        if not _has_rows(answer, "containers"):
            raise SourceUnavailable("the runtime's answer about containers is invalid")
        return answer

    def container(self, ident: str) -> dict[str, Any] | None:
        """The values in force, and the chain of changes in the runtime's history."""
        try:
            answer = self._ask("Why", {"container": ident, "values": True})
        except NriError:
            return None
        if not _has_rows(answer, "steps"):
            return None
        events = [row["event"] for row in self._live.rows() if row.get("container_id") == ident and not row["error"]]
        states = [STATES[event] for event in events if event in STATES]
        if states:
            answer["state"] = states[-1]
        elif answer.get("state") == "created":  # a runtime's history has no starts
            answer["state"] = "present; the page has not seen its start"
        return answer


def _has_rows(answer: dict[str, Any], name: str) -> bool:
    rows = answer.get(name)
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)


def _chart(series: TimeSeries, steps: Iterable[dict[str, Any]], time_ms: float) -> None:
    """Add the calls of an event to a chart."""
    for step in steps:
        series.take(step["plugin"], time_ms + step["at_ms"], step["duration_ms"])


def _with_key(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "key": str(row["n"])}


class Recording:
    """A recording. `read` reads it once; until it has finished, answers contain the data that was read so far.

    Args:
        path: a trace file, or a folder of trace files. Raises ConfigError.
    """

    def __init__(self, path: str) -> None:
        self._path, self._trace = path, Trace(path)
        self._lock = threading.Lock()
        self._sums: dict[str, _Plugin] = {}
        self._durations = DurationRoom(self._trace.size_bytes)
        self._total = CallStats(self._durations)
        self._notes: list[dict[str, Any]] = []
        self._metadata: dict[str, str] = {}
        self._changes = Changes(self._trace.size_bytes)
        self._first, self._last, self._records = 1 << 64, 0, 0
        for _, header in self._trace.headers():
            self._first = min(self._first, header.first_ns, header.last_ns)
            self._last = max(self._last, header.first_ns, header.last_ns)
            self._records += header.records
        self._first = min(self._first, self._last)
        self._series = TimeSeries(_interval_ms((self._last - self._first) / 1e6), _INTERVALS)
        self._pages: list[tuple[int, int]] = []  # start time and number of the first event of each page
        self._earliest: list[int] = []  # the earliest start time in each page: a clock may have been set back
        self._page_room = _PageRoom()
        self._done = False
        self._stopped = False

    def start(self) -> None:
        """Read the recording in a separate thread."""
        threading.Thread(target=self.read, name="nri-inspect", daemon=True).start()

    def close(self) -> None:
        """Stop `read`."""
        self._stopped = True

    def read(self) -> None:
        """Read the whole recording for sums and histories."""
        for item in self._trace.items():
            if self._stopped:
                return
            with self._lock:
                if isinstance(item, Note):
                    self._add_note(item)
                else:
                    self._add_event(item)
        self._done = True

    def _add_note(self, note: Note) -> None:
        if note.kind == "opened":
            for key, text in islice(note.about.items(), max(0, _MAX_ABOUT - len(self._metadata))):
                self._metadata[plain(key, 128)] = plain(text, _MAX_TEXT_CHARACTERS)
        elif len(self._notes) < _MAX_NOTES and note.kind in ("plugin", "lost"):
            text = f"{note.lost} steps are missing" if note.lost else note.about.get("reason", "")
            fields = {
                "plugin": note.plugin,
                "state": note.state or note.kind,
                "text": plain(text, _MAX_TEXT_CHARACTERS),
            }
            self._notes.append({"time_ms": note.time_ns / 1e6, **fields})

    def _add_event(self, event: Event) -> None:
        if not self._pages or not self._page_room.take(event):
            self._page_room = _PageRoom()
            self._page_room.take(event)
            self._pages.append((event.began_ns, event.serial))
            self._earliest.append(event.began_ns)
        self._earliest[-1] = min(self._earliest[-1], event.began_ns)
        self._total.take(event.duration_ns / 1e6, event.error is not None, False)
        steps = [_step(event.began_ns, step) for step in event.steps]
        for step in steps:
            if step["plugin"] in self._sums or len(self._sums) < _MAX_PLUGINS:
                self._sums.setdefault(step["plugin"], _Plugin(self._durations)).take(step)
        _chart(self._series, steps, event.began_ns / 1e6)
        self._changes.take(event)

    def overview(self) -> dict[str, Any]:
        """Figures of the recording that was read so far."""
        first, last = self._first, self._last
        seconds = (last - first) / 1e9
        with self._lock:
            total = self._total.row()
            names = [{"plugin": name} for name in self._sums]
            plugins = plugin_rows([], names, 0.0)
            for row in plugins:
                row.update(self._sums[row["plugin"]].row())
            states = {note["plugin"]: note["state"] for note in self._notes}
            for row in plugins:
                row["state"] = states.get(row["plugin"], "")
            notes, about = list(self._notes), dict(self._metadata)
            series = self._series.to_json(last / 1e6)
        return {
            "mode": "recording",
            "title": self._path,
            "about": {key: text for key, text in about.items() if key not in ("recording", "policy")},
            "seconds": seconds,
            "first_ms": first / 1e6,
            "last_ms": last / 1e6,
            "events": total["count"],
            "events_per_s": round(total["count"] / seconds, 2) if seconds else 0,
            "failed": total["errors"],
            "p50_ms": total["p50_ms"],
            "p99_ms": total["p99_ms"],
            "done": self._done,
            "records": self._records,
            "plugins": plugins,
            "notes": notes,
            "series": series,
            "choices": _CHOICES,
            "problems": [plain(line, _MAX_TEXT_CHARACTERS) for line in self._trace.problems[:20]],
            "views": [],
        }

    def events(self, begin: str = "", chosen: Filter = _ALL, max_events: int = 200) -> dict[str, Any]:
        """The events that were read so far, the newest first. A search ends after a time limit with a `next` page."""
        rows: list[dict[str, Any]] = []
        deadline = monotonic() + _SEARCH_TIMEOUT_S
        steps = looked_at = 0
        max_events = min(max_events, _MAX_EVENTS)
        page, number, until_ns = self._position(begin)
        while page >= 0:
            # Stop only between pages: the remaining part of a page would require reading the page again.
            if looked_at and monotonic() > deadline:
                return {"rows": rows, "next": f"{page}.{number}", "more": True, "looked_at": looked_at}
            events = self._page(page)[:number]
            if not events:  # the recorder has removed this file and older files
                break
            while events:
                if len(rows) >= max_events or steps > _MAX_ANSWER_STEPS:
                    following = f"{page}.{len(events)}"
                    return {"rows": rows, "next": following, "more": True, "looked_at": looked_at}
                event = events.pop()
                looked_at += 1
                row = _event_row(event)
                if event.began_ns <= until_ns and chosen.matches(row):
                    rows.append(row)
                    steps += len(row["steps"])
            page, number = page - 1, _PAGE_EVENTS
        return {"rows": rows, "next": "", "more": False, "looked_at": looked_at}

    def _position(self, begin: str) -> tuple[int, int, int]:
        """The page, the number of its events, and the time in nanoseconds, at which an answer begins."""
        with self._lock:
            last = len(self._pages) - 1
            number, events = _numbers(begin)
            if not begin:
                return last, _PAGE_EVENTS, 1 << 64
            if "." in begin:
                return min(number, last), events, 1 << 64
            return min(bisect_right(self._pages, (number, 1 << 64)), last), _PAGE_EVENTS, number

    def _page(self, page: int) -> list[Event]:
        """Read the events of a page, the oldest first. Returns no events if the recorder has removed their file."""
        with self._lock:
            first, following = self._pages[page], self._pages[page + 1 : page + 2]
            since_ns = max(0, self._earliest[page] - _EARLIER_NS)
        events: list[Event] = []
        room, deadline = _PageRoom(), monotonic() + _PAGE_TIMEOUT_S
        for event in self._trace.events(since_ns):
            key = event.began_ns, event.serial
            if (events and key in following) or monotonic() > deadline:
                break
            if events or key == first:
                if not room.take(event):
                    break
                events.append(event)
        return events

    def event(self, key: str) -> dict[str, Any] | None:
        """An event with its messages."""
        since, serial = _numbers(key, "-")
        event = self._find(since, serial, since + _LATER_NS)
        return None if event is None else _full_row(event)

    @property
    def snapshot_bytes(self) -> int:
        """The limit for the events of a snapshot, and for its chains of changes, which are in memory three times."""
        return _SNAPSHOT_BYTES + self._trace.size_bytes // 2

    def rows(self, max_rows: int, max_full: int) -> Iterator[dict[str, Any]]:
        """The newest events, the newest first, some with their messages."""
        number = 0
        for page in range(len(self._pages) - 1, -1, -1):
            events = self._page(page)
            while events:
                if number >= max_rows:
                    return
                event = events.pop()  # drops the parsed messages, too, which take memory
                yield _full_row(event) if number < max_full else _event_row(event)
                number += 1

    def _find(self, since: int, serial: int, until: int) -> Event | None:
        """The event with a start time and a number, searched in the blocks up to another time.

        Returns None if not found.
        """
        events = self._trace.events(since, until)
        return next((event for event in events if (event.began_ns, event.serial) == (since, serial)), None)

    def containers(self) -> dict[str, Any]:
        """The recorded containers."""
        with self._lock:
            containers = self._changes.containers()
        rows = [
            {
                "id": plain(container.id, 128),
                "name": plain(container.name),
                "pod": plain("/".join(part for part in (container.namespace, container.pod) if part)),
                "runs": None,
            }
            for container in containers[:_MAX_CONTAINERS]
        ]
        return {"containers": rows, "left_out": len(containers) - len(rows)}

    def follow(self, after: str, chosen: Filter) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - all its events exist
        """Yield the overview each second, until the whole recording has been read."""
        while True:
            overview = self.overview()
            yield {"rows": [], "too_fast": 0, "overview": overview}
            if overview["done"]:
                return
            sleep(_OVERVIEW_INTERVAL_S)

    def view(self, name: str, of: str) -> None:
        """Return None: a recording has no data of other programs of the node."""

    def container(self, ident: str) -> dict[str, Any] | None:
        """The values in force and the chain of changes of a container, from the events that were read so far."""
        with self._lock:
            return self._changes.explain(ident, values=True)


class _PageRoom:
    """The room of a page for events."""

    def __init__(self) -> None:
        self._events, self._bytes = 0, 0

    def take(self, event: Event) -> bool:
        """Add an event. Returns False if the page is full."""
        self._bytes += event.memory_bytes
        self._events += 1
        return self._events == 1 or (self._events <= _PAGE_EVENTS and self._bytes <= _PAGE_BYTES)


class _Plugin:
    """The statistics of a plugin."""

    def __init__(self, room: DurationRoom) -> None:
        self._sum = CallStats(room)
        self._missed = self._conflicts = 0

    def take(self, step: dict[str, Any]) -> None:
        self._sum.take(step["duration_ms"], bool(step["error"]), bool(step["refused"]))
        self._missed += step["missed"]
        self._conflicts += step["conflict"]

    def row(self) -> dict[str, Any]:
        row = self._sum.row()
        row["calls"] = row.pop("count")
        return {**row, "missed": self._missed, "conflicts": self._conflicts}


def _key(event: Event) -> str:
    return f"{event.began_ns}-{event.serial}"


def _numbers(key: str, separator: str = ".") -> tuple[int, int]:
    """The two numbers of a key, zeros for missing or invalid numbers."""
    first, _, second = key.partition(separator)
    numbers = [int(part) if part.isascii() and part.isdecimal() and len(part) <= 20 else 0 for part in (first, second)]
    return numbers[0], numbers[1]


def _interval_ms(span_ms: float) -> float:
    """The length of a chart's intervals: 1, 2 or 5 with zeros, in milliseconds."""
    shortest_ms = max(span_ms / (_INTERVALS - 2), 1.0)
    return next(
        float(digit * 10**power) for power in range(30) for digit in (1, 2, 5) if digit * 10**power >= shortest_ms
    )


def _event_row(event: Event) -> dict[str, Any]:
    """An event in the form of the admin socket."""
    pod, container = event.pod, event.container
    names = dict(EMPTY)
    if pod is not None:
        name = "/".join(part for part in (pod.namespace, pod.name) if part)
        names |= {"pod": plain(name, _MAX_TEXT_CHARACTERS), "pod_id": plain(pod.id, 128)}
    if container is not None:
        names |= {"container": plain(container.name, _MAX_TEXT_CHARACTERS), "container_id": plain(container.id, 128)}
    first_ns = event.first_ns
    return {
        "key": _key(event),
        "event": plain(event.name, 128),
        "serial": event.serial,
        "time_ms": first_ns / 1e6,
        "duration_ms": event.duration_ns / 1e6,
        "error": _text(event.error),
        "whole": event.whole,
        "redacted": event.redacted,
        **names,
        "steps": [_step(first_ns, step) for step in event.steps[:_MAX_STEPS]],
        "more_steps": max(0, len(event.steps) - _MAX_STEPS),
    }


def _full_row(event: Event) -> dict[str, Any]:
    """An event with its messages, within the limits."""
    row, messages = _event_row(event), MessageJson(event)
    row["request"] = messages.table(event.name, event.request, reply=False)
    for step_row, step in zip(row["steps"], event.steps, strict=False):
        step_row["reply"] = messages.table(step.event, step.reply or b"", reply=True)
    return row


def _step(first_ns: int, step: Any) -> dict[str, Any]:
    ended = step.reply is not None or step.error is not None
    return {
        "plugin": plain(step.plugin, 128),
        "event": plain(step.event, 128),
        "at_ms": (step.time_ns - first_ns) / 1e6,
        "duration_ms": step.duration_ns / 1e6 if ended else None,
        "error": _text(step.error),
        "missed": step.error is not None and step.error.kind in _LATE,
        "refused": _text(step.refused),
        "conflict": step.refused is not None and step.refused.kind == "ConflictError",
    }


def _text(error: t.Error | None) -> str:
    return "" if error is None else plain(error.text or error.kind, _MAX_TEXT_CHARACTERS)
