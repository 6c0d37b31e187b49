"""The data of the page as JSON objects, from a runtime or from a recording.

| method | result |
|---|---|
| overview | figures and a row for each plugin, as in `nri.trace.live_events`; `mode` is "live" or "recording" |
| events | rows of the admin socket, with a `key`; `next` and `more` for the next page; `looked_at` |
| event | one row, with the answers of plugins if they were recorded |
| containers, container | ids and names; the chain of changes, `Explanation.to_json` |
| follow | new `rows`, each second the `overview`, and the number of rows that came `too_fast` |
| view | data of another program of the node: `drift`, the node's `agent`, the `placement` of containers |

A thread reads a recording once for sums and histories. Events are read again on request, from the block in the index.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import accumulate, islice
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Protocol

from nri.errors import LATE, NriError
from nri.text import plain
from nri.trace.call_stats import CallStats, DurationRoom
from nri.trace.changes import Changes
from nri.trace.history import Event, Note, Trace
from nri.trace.live_events import plugin_rows
from nri.trace.message_json import MessageJson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nri.trace.live_events import Live
    from nri.trace.pb import api_pb2 as t

__all__ = ["Recording", "Running", "Source", "SourceUnavailable", "View"]

#: Texts are cut to this many characters.
_MAX_TEXT_CHARACTERS = 500
#: An answer has at most this many events.
_MAX_EVENTS = 500
#: A search for events ends after this many seconds.
_SEARCH_TIMEOUT_S = 1.0
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
#: The number of bars in a recording's chart.
_BARS = 120
#: At most this many notes are shown.
_MAX_NOTES = 200
#: At most this many plugins are shown.
_MAX_PLUGINS = 1000
#: At most this many metadata of a recording are shown.
_MAX_ABOUT = 50
#: The errors of a plugin that has not answered in time.
_LATE: Final = {each.__name__ for each in LATE}
_EMPTY: Final = {"pod": "", "pod_id": "", "container": "", "container_id": ""}


#: A function that returns the data of another program of the node about a pod or container, or about all for "".
#: Returns None if the program does not run. Raises NriError if it does not answer.
View = Callable[[str], dict[str, Any] | None]


class SourceUnavailable(Exception):
    """A runtime or another program of the node does not answer."""


class Source(Protocol):
    """The data of the page."""

    def overview(self) -> dict[str, Any]:
        """A summary of the node."""

    def events(self, begin: str = "", text: str = "", max_events: int = 200) -> dict[str, Any]:
        """Events from a key on, oldest first; by default the first of a recording, or the last of a runtime."""

    def event(self, key: str) -> dict[str, Any] | None:
        """The event with a key. Returns None if it is unknown."""

    def rows(self, max_rows: int, max_full: int) -> Iterable[dict[str, Any]]:
        """The events of a snapshot: at most `max_rows`, of which at most `max_full` have their messages."""

    @property
    def snapshot_bytes(self) -> int:
        """The limit in bytes for the events of a snapshot, and for its chains of changes."""

    def containers(self) -> dict[str, Any]:
        """The containers with a history."""

    def container(self, ident: str) -> dict[str, Any] | None:
        """The chain of changes of a container. Returns None if it is unknown."""

    def follow(self, after: str, text: str) -> Iterator[dict[str, Any]]:
        """Yield news after the event with a number at least once a second. With "", yield only overviews."""

    def view(self, name: str, of: str) -> dict[str, Any] | None:
        """The data of another program of the node about `of`. Returns None if the program does not run."""


def matches(row: dict[str, Any], text: str) -> bool:
    """Whether a name, an id or an error of an event or its plugins contains a text, ignoring case."""
    if not text:
        return True
    values = [row.get(name, "") for name in ("event", "error", "plugin", "state", "text", *_EMPTY)]
    for step in row.get("steps", ()):
        values += [step["plugin"], step["error"], step["refused"]]
    return text.lower() in "\n".join(values).lower()


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

    def overview(self) -> dict[str, Any]:
        """A summary of the last minute."""
        try:
            summary = self._live.summary()
        except NriError as error:
            raise SourceUnavailable(str(error)) from None
        rows = self._live.rows()
        notes = [row for row in rows if "steps" not in row][-_MAX_NOTES:]
        last = rows[-1]["n"] if rows else 0
        return {
            "mode": "live", "title": self._title, **summary, "notes": notes, "last_n": last, "views": list(self._views)
        }  # fmt: skip

    def events(self, begin: str = "", text: str = "", max_events: int = 200) -> dict[str, Any]:
        """The events after number `begin`, or the last events."""
        rows = [row for row in self._live.rows() if "steps" in row]
        if begin.isdecimal():
            max_events = min(max_events, _MAX_EVENTS)
            matching = [row for row in rows if row["n"] >= int(begin[:18]) and matches(row, text)]
            shown, more = matching[:max_events], len(matching) > max_events
        else:
            matching = [row for row in rows if matches(row, text)]
            shown, more = matching[-max_events:], False
        following = str(matching[max_events]["n"]) if more else ""
        keyed, last = [_with_key(row) for row in shown], str(rows[-1]["n"]) if rows else "0"
        return {"rows": keyed, "next": following, "more": more, "looked_at": len(rows), "last": last}

    def follow(self, after: str, text: str) -> Iterator[dict[str, Any]]:
        """Yield events after number `after` that contain a text, and each second the overview."""
        last, overview_at = int(after[:18]) if after.isdecimal() else -1, float("-inf")
        while True:
            rows = self._live.rows(last)[:_MAX_EVENTS] if last >= 0 else []
            lost = max(0, rows[0]["n"] - last - 1) if rows else 0
            now: dict[str, Any] = {"rows": [], "too_fast": lost}
            if rows:
                last = rows[-1]["n"]
                now["rows"] = [_with_key(row) for row in rows if "steps" in row and matches(row, text)]
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
        """The chain of changes in the runtime's history."""
        try:
            answer = self._ask("Why", {"container": ident})
        except NriError:
            return None
        return answer if _has_rows(answer, "steps") else None


def _has_rows(answer: dict[str, Any], name: str) -> bool:
    rows = answer.get(name)
    return isinstance(rows, list) and all(isinstance(row, dict) for row in rows)


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
        self._about: dict[str, str] = {}
        self._changes = Changes(self._trace.size_bytes)
        self._first, self._last, self._records = 1 << 64, 0, 0
        for _, header in self._trace.headers():
            self._first = min(self._first, header.first_ns, header.last_ns)
            self._last = max(self._last, header.first_ns, header.last_ns)
            self._records += header.records
        self._first = min(self._first, self._last)
        self._bars = self._chart_bars()
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
            for key, text in islice(note.about.items(), max(0, _MAX_ABOUT - len(self._about))):
                self._about[plain(key, 128)] = plain(text, _MAX_TEXT_CHARACTERS)
        elif len(self._notes) < _MAX_NOTES and note.kind in ("plugin", "lost"):
            text = f"{note.lost} steps are missing" if note.lost else note.about.get("reason", "")
            fields = {
                "plugin": note.plugin,
                "state": note.state or note.kind,
                "text": plain(text, _MAX_TEXT_CHARACTERS),
            }
            self._notes.append({"time_ms": note.time_ns / 1e6, **fields})

    def _add_event(self, event: Event) -> None:
        self._total.take(event.duration_ns / 1e6, event.error is not None, False)
        for step in event.steps:
            if step.plugin in self._sums or len(self._sums) < _MAX_PLUGINS:
                self._sums.setdefault(step.plugin, _Plugin(self._durations)).take(_step(event.began_ns, step))
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
            notes, about = list(self._notes), dict(self._about)
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
            "bars": self._bars,
            "problems": [plain(line, _MAX_TEXT_CHARACTERS) for line in self._trace.problems[:20]],
            "views": [],
        }

    def _chart_bars(self) -> list[dict[str, Any]]:
        """The number of recorded steps over time, from the index. The steps of a block are spread over its time."""
        first, last = self._first, self._last
        width = max(1, (last - first) // _BARS + 1)
        more = [0.0] * (_BARS + 1)  # difference to the previous bar
        for _, header in self._trace.headers():
            begin, end = sorted(
                min(max(0, time - first) // width, _BARS - 1) for time in (header.first_ns, header.last_ns)
            )
            more[begin] += header.records / (end - begin + 1)
            more[end + 1] -= header.records / (end - begin + 1)
        bars = islice(accumulate(more), _BARS)
        return [{"key": str(first + place * width), "steps": round(steps)} for place, steps in enumerate(bars)]

    def events(self, begin: str = "", text: str = "", max_events: int = 200) -> dict[str, Any]:
        """The events from a time on. A search stops after a time limit, with the key to continue from."""
        since, serial = _time_and_number(begin)
        rows: list[dict[str, Any]] = []
        deadline = monotonic() + _SEARCH_TIMEOUT_S
        looked_at = steps = 0
        is_reached, is_there = not serial, False
        for event in self._trace.events(max(0, since - _EARLIER_NS)):
            # The order of the recording may differ from the order of times: a clock may have been set back.
            is_reached = is_reached or (event.began_ns, event.serial) == (since, serial)
            if not is_reached and not is_there and event.began_ns > since + _EARLIER_NS:
                is_there = self._find(since, serial, since) is not None
                if not is_there:
                    break
            if not is_reached or (not serial and event.began_ns < since):
                continue
            full = len(rows) >= min(max_events, _MAX_EVENTS) or steps > _MAX_ANSWER_STEPS
            if full or (looked_at and monotonic() > deadline):
                return {"rows": rows, "next": _key(event), "more": True, "looked_at": looked_at}
            looked_at += 1
            row = _row(event)
            if matches(row, text):
                rows.append(row)
                steps += len(row["steps"])
        if not is_reached:  # the recorder has removed its file
            return self.events(str(since), text, max_events)
        return {"rows": rows, "next": "", "more": False, "looked_at": looked_at}

    def event(self, key: str) -> dict[str, Any] | None:
        """An event with its messages."""
        since, serial = _time_and_number(key)
        event = self._find(since, serial, since + _LATER_NS)
        return None if event is None else _full_row(event)

    @property
    def snapshot_bytes(self) -> int:
        """The limit for the events of a snapshot, and for its chains of changes, which are in memory three times."""
        return _SNAPSHOT_BYTES + self._trace.size_bytes // 2

    def rows(self, max_rows: int, max_full: int) -> Iterator[dict[str, Any]]:
        """The first events, some with their messages."""
        for number, event in enumerate(islice(self._trace.events(), max_rows)):
            yield _full_row(event) if number < max_full else _row(event)

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

    def follow(self, after: str, text: str) -> Iterator[dict[str, Any]]:  # noqa: ARG002 - all its events exist
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
        """The chain of changes of a container that was read so far."""
        with self._lock:
            return self._changes.explain(ident)


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


def _time_and_number(key: str) -> tuple[int, int]:
    """The time and number of a key, or zeros if the key is invalid."""
    time, _, serial = key.partition("-")
    numbers = [int(part) if part.isascii() and part.isdecimal() and len(part) <= 20 else 0 for part in (time, serial)]
    return numbers[0], numbers[1]


def _row(event: Event) -> dict[str, Any]:
    """An event in the form of the admin socket."""
    pod, container = event.pod, event.container
    names = dict(_EMPTY)
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
    row, messages = _row(event), MessageJson(event)
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
