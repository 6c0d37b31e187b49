"""The latest events, for clients that watch: a ring that is attached as a reporter while a client reads.

The first `read` attaches it to `nri.adaptation.audit.reporting`. The first event that ends a minute after the last
reading detaches it, so a runtime without clients has no cost. An event that had begun before the ring was attached is
ignored. Steps are reported after the request is sent, so the start of a step is its end minus its duration. There are
limits for events, steps, texts and bytes of requests; a slow reader gets the number of missed rows. Names of pods and
containers are parsed only when a client reads.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.api import messages as m
from nri.errors import LATE, ConflictError, failure_text
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.adaptation.audit.reporting import Reporting

#: A longer request is stored without its names.
_MAX_REQUEST_BYTES = 1 << 20
#: A longer text of a plugin or runtime is cut to this many characters.
_MAX_TEXT = 500


class Bounds(NamedTuple):
    """The limits of the ring.

    Attributes:
        unread_s: the ring is detached when it has not been read for this many seconds.
        rows: the number of events and changes of plugins.
        steps: the number of rows and plugin calls together.
        request_bytes: the bytes of the requests whose names have not been parsed yet.
        plugins: the number of plugin calls of an event.
        open: the number of running events.
        read_bytes: the approximate size of a reading.
    """

    unread_s: float = 60.0
    rows: int = 4096
    steps: int = 32768
    request_bytes: int = 8 << 20
    plugins: int = 256
    open: int = 1024
    read_bytes: int = 1 << 20


class _Row:
    """An event, or a change of a plugin."""

    __slots__ = ("request", "size", "table")

    def __init__(self, table: dict[str, Any], request: bytes = b"") -> None:
        self.table = table
        self.request = request if len(request) <= _MAX_REQUEST_BYTES else b""
        self.size = 1


class Recent:
    """A `nri.interfaces.Reporter` that stores the latest events. Thread-safe.

    Args:
        reporting: the source of events, to which the ring attaches itself.
        bounds: the limits of the ring.
    """

    def __init__(self, reporting: Reporting, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - never changed
        self._reporting, self._bounds = reporting, bounds
        self._lock = threading.Lock()
        self._run = os.urandom(4).hex()
        self._rows: deque[_Row] = deque()
        self._open: OrderedDict[int, _Row] = OrderedDict()
        self._newest = self._steps = self._bytes = 0
        self._attached = False
        self._attached_at = self._read_at = 0.0

    def read(self, run: str, after: int, max_rows: int = 500) -> dict[str, Any]:
        """Return the rows after number `after`, the oldest first.

        Args:
            run: the `run` of the previous reading. If it differs, the numbers have begun again.
            after: the `next` of the previous reading; 0 for all rows.
            max_rows: the limit of rows.

        Returns:
            `rows`; `run` and `next`, for the next reading; `more`: whether there are further rows; `missed`: the number
            of unread rows that were dropped.
        """
        with self._lock:
            self._read_at = monotonic()
            if not self._attached:
                self._attached_at, self._attached = self._read_at, True
                self._reporting.attach(self)
            oldest = self._newest - len(self._rows)
            begin = min(max(after, 0), self._newest) if run == self._run else 0
            missed = max(0, oldest - begin) if run == self._run else 0
            begin = max(begin, oldest)
            unread = [
                self._rows[place] for place in range(begin - oldest, min(len(self._rows), begin - oldest + max_rows))
            ]
        rows: list[dict[str, Any]] = []
        size = 0
        for row in unread:
            table = self._row_with_names(row)
            size += 300 + sum(len(value) for value in table.values() if isinstance(value, str))
            size += sum(150 + len(step["error"]) + len(step["refused"]) for step in table.get("steps", ()))
            if rows and size > self._bounds.read_bytes:
                break
            rows.append(table)
        end = begin + len(rows)
        return {"run": self._run, "rows": rows, "next": end, "more": end < self._newest, "missed": missed}

    def _row_with_names(self, row: _Row) -> dict[str, Any]:
        """A row's table with the names of its pod and container, which are parsed only once."""
        request = row.request
        if request:
            row.table |= _names(row.table["event"], request)
            with self._lock:
                if row.request:
                    self._bytes -= len(request)
                    row.request = b""
        return row.table

    # -- the reporter interface ---------------------------------------------------------------------------------------

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Record that an event has begun."""
        with self._lock:
            self._open[serial] = _Row({"event": event, "serial": serial, "steps": []}, request)
            if len(self._open) > self._bounds.open:
                self._open.popitem(last=False)

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:  # noqa: ARG002 - the interface's
        """Record that a plugin is asked."""
        row = self._open.get(serial)
        if row is not None and len(row.table["steps"]) < self._bounds.plugins:
            step = {"plugin": plugin, "event": event, "at_s": monotonic(), "duration_ms": None, "error": ""}
            row.table["steps"].append({**step, "missed": False, "refused": "", "conflict": False})

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:  # noqa: ARG002
        """Record that a plugin has answered."""
        self._step(plugin, event, serial, {"at_s": monotonic() - duration_s, "duration_ms": duration_s * 1e3})

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Record that a plugin did not answer, or answered with an error."""
        about: dict[str, Any] = {"at_s": monotonic() - duration_s, "duration_ms": duration_s * 1e3}
        about |= {"error": plain(failure_text(error, plugin), _MAX_TEXT), "missed": isinstance(error, LATE)}
        self._step(plugin, event, serial, about)

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """Record that an answer was refused. Merged answers are not recorded."""
        if error is not None:
            conflict = isinstance(error, ConflictError)
            self._step(plugin, event, serial, {"refused": plain(str(error), _MAX_TEXT), "conflict": conflict})

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:  # noqa: ARG002
        """Record that an event is over."""
        now, time_ms = monotonic(), (time() - duration_s) * 1e3
        began = now - duration_s
        with self._lock:
            row = self._open.pop(serial, None)
            if row is not None and began >= self._attached_at:
                text = "" if error is None else plain(failure_text(error), _MAX_TEXT)
                row.table |= {"time_ms": time_ms, "duration_ms": duration_s * 1e3, "error": text, **_NAMELESS}
                for step in row.table["steps"]:
                    step["at_ms"] = max(0.0, step.pop("at_s") - began) * 1e3
                row.size += len(row.table["steps"])
                self._append_row(row)
            if now - self._read_at > self._bounds.unread_s:
                self._detach()

    def plugin_changed(self, plugin: str, state: str, about: Mapping[str, str]) -> None:
        """Record a change of a plugin's state."""
        text = plain(about.get("reason", ""), _MAX_TEXT)
        with self._lock:
            self._append_row(_Row({"plugin": plugin, "state": state, "time_ms": time() * 1e3, "text": text}))

    # -- the ring, with the lock held ---------------------------------------------------------------------------------

    def _step(self, plugin: str, event: str, serial: int, about: dict[str, Any]) -> None:
        row = self._open.get(serial)
        for step in reversed(row.table["steps"] if row is not None else ()):
            if step["plugin"] == plugin and step["event"] == event:
                step.update(about)
                return

    def _append_row(self, row: _Row) -> None:
        self._newest += 1
        row.table["n"] = self._newest
        self._rows.append(row)
        self._steps += row.size
        self._bytes += len(row.request)
        bounds = self._bounds
        while len(self._rows) > bounds.rows or self._steps > bounds.steps or self._bytes > bounds.request_bytes:
            self._drop_oldest_row()

    def _drop_oldest_row(self) -> None:
        oldest = self._rows.popleft()
        self._steps -= oldest.size
        self._bytes -= len(oldest.request)
        oldest.request = b""

    def _detach(self) -> None:
        """Detach, and drop everything. The next reading begins again."""
        self._reporting.detach(self)
        self._attached, self._run = False, os.urandom(4).hex()
        self._open.clear()
        while self._rows:
            self._drop_oldest_row()


_NAMELESS: Final = {"pod": "", "pod_id": "", "container": "", "container_id": ""}


def _names(event: str, request: bytes) -> dict[str, str]:
    """The names and ids of the pod and the container of a request."""
    kind: Any = getattr(m, "StateChangeEvent" if event == "StateChange" else f"{event}Request", None)
    names = dict(_NAMELESS)
    try:
        message = kind and kind.FromString(request)
        pod, container = getattr(message, "pod", None), getattr(message, "container", None)
    except Exception:  # noqa: BLE001 - a runtime's bytes; the decoder's errors have no common base
        return names
    if pod is not None:
        name = "/".join(part for part in (pod.namespace, pod.name) if part)
        names |= {"pod": plain(name, _MAX_TEXT), "pod_id": plain(pod.id, 128)}
    if container is not None:
        names |= {"container": plain(container.name, _MAX_TEXT), "container_id": plain(container.id, 128)}
    return names
