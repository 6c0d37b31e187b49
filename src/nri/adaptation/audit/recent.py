"""The events that ended last, for those who look on: a ring behind the reporter seam, there while somebody reads.

The first `read` attaches it to `nri.adaptation.audit.reporting`, and the first event that ends a minute after the last
one takes it off: a runtime that nobody looks at pays nothing. An event that had begun before is left out. A step is
told of when its request has been sent, and an event when its first plugin is at work: so each begins its duration
before its end, and no plugin before the one that it waited for has answered. Bounded in events, steps, texts and bytes
of requests; a reader that is too slow learns how many it has missed. Names of pods and containers are worked out when
they are read.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.api import messages as m
from nri.errors import LATE, ConflictError
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nri.adaptation.audit.reporting import Reporting

__all__ = ["Bounds", "Recent"]

#: A longer request is kept without its names; a longer text of others is cut.
_LONGEST_REQUEST, _LONGEST = 1 << 20, 500


class Bounds(NamedTuple):
    """How much is kept.

    Attributes:
        unread_s: so long after the last reading the ring is taken off, in seconds.
        rows: events, and changes of plugins.
        steps: rows, and plugins asked in them, together.
        request_bytes: of the requests whose names nobody has read yet, together.
        plugins: of one event.
        open: events that are not over.
        read_bytes: about what one reading gives at most.
    """

    unread_s: float = 60.0
    rows: int = 4096
    steps: int = 32768
    request_bytes: int = 8 << 20
    plugins: int = 256
    open: int = 1024
    read_bytes: int = 1 << 20


class _Row:
    """An event, or what became of a plugin, as it is kept until it is read."""

    __slots__ = ("request", "size", "table")

    def __init__(self, table: dict[str, Any], request: bytes = b"") -> None:
        self.table = table
        self.request = request if len(request) <= _LONGEST_REQUEST else b""
        self.size = 1


class Recent:
    """A `nri.interfaces.Reporter` of what happens now. Thread-safe.

    Args:
        reporting: where it attaches itself.
        bounds: how much is kept, and how long.
    """

    def __init__(self, reporting: Reporting, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - never changed
        self._reporting, self._bounds = reporting, bounds
        self._lock = threading.Lock()
        self._run = os.urandom(4).hex()
        self._rows: deque[_Row] = deque()
        self._open: OrderedDict[int, _Row] = OrderedDict()
        self._newest = self._steps = self._bytes = 0
        self._attached = False
        self._since = self._read = 0.0

    def read(self, run: str, after: int, most: int = 500) -> dict[str, Any]:
        """The rows after number `after`, oldest first, at most so many.

        Args:
            run: the `run` of the reading before; another one means that the numbers begin again.
            after: the `next` of the reading before; 0 for all there are.
            most: rows.

        Returns:
            `rows`; `run` and `next`, for the next reading; `more`: there are rows already; `missed`: so many are gone
            that were not read.
        """
        with self._lock:
            self._read = monotonic()
            if not self._attached:
                self._since, self._attached = self._read, True
                self._reporting.attach(self)
            oldest = self._newest - len(self._rows)
            begin = min(max(after, 0), self._newest) if run == self._run else 0
            missed = max(0, oldest - begin) if run == self._run else 0
            begin = max(begin, oldest)
            wanted = [self._rows[place] for place in range(begin - oldest, min(len(self._rows), begin - oldest + most))]
        rows: list[dict[str, Any]] = []
        size = 0
        for row in wanted:
            table = self._named(row)
            size += 300 + sum(len(value) for value in table.values() if isinstance(value, str))
            size += sum(150 + len(step["error"]) + len(step["refused"]) for step in table.get("steps", ()))
            if rows and size > self._bounds.read_bytes:
                break
            rows.append(table)
        there = begin + len(rows)
        return {"run": self._run, "rows": rows, "next": there, "more": there < self._newest, "missed": missed}

    def _named(self, row: _Row) -> dict[str, Any]:
        """A row with the names of its pod and container, which are worked out once."""
        request = row.request
        if request:
            row.table |= _names(row.table["event"], request)
            with self._lock:
                if row.request:
                    self._bytes -= len(request)
                    row.request = b""
        return row.table

    # -- what the seam tells ------------------------------------------------------------------------------------------

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Take note: an event has come in."""
        with self._lock:
            self._open[serial] = _Row({"event": event, "serial": serial, "steps": []}, request)
            if len(self._open) > self._bounds.open:
                self._open.popitem(last=False)

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:  # noqa: ARG002 - the seam's
        """Take note: a plugin is asked."""
        row = self._open.get(serial)
        if row is not None and len(row.table["steps"]) < self._bounds.plugins:
            step = {"plugin": plugin, "event": event, "at_s": monotonic(), "duration_ms": None, "error": ""}
            row.table["steps"].append({**step, "missed": False, "refused": "", "conflict": False})

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:  # noqa: ARG002
        """Take note: a plugin has answered."""
        self._step(plugin, event, serial, {"at_s": monotonic() - duration_s, "duration_ms": duration_s * 1e3})

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Take note: a plugin gave no answer, or an error."""
        about: dict[str, Any] = {"at_s": monotonic() - duration_s, "duration_ms": duration_s * 1e3}
        about |= {"error": plain(str(error), _LONGEST), "missed": isinstance(error, LATE)}
        self._step(plugin, event, serial, about)

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """Take note: an answer was taken, or refused."""
        if error is not None:
            conflict = isinstance(error, ConflictError)
            self._step(plugin, event, serial, {"refused": plain(str(error), _LONGEST), "conflict": conflict})

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:  # noqa: ARG002
        """Take note: an event is over."""
        now, time_ms = monotonic(), (time() - duration_s) * 1e3
        began = now - duration_s
        with self._lock:
            row = self._open.pop(serial, None)
            if row is not None and began >= self._since:
                text = "" if error is None else plain(str(error), _LONGEST)
                row.table |= {"time_ms": time_ms, "duration_ms": duration_s * 1e3, "error": text, **_NAMELESS}
                for step in row.table["steps"]:
                    step["at_ms"] = max(0.0, step.pop("at_s") - began) * 1e3
                row.size += len(row.table["steps"])
                self._keep(row)
            if now - self._read > self._bounds.unread_s:
                self._leave()

    def plugin_changed(self, plugin: str, state: str, about: Mapping[str, str]) -> None:
        """Take note: a plugin takes part, is late or left out, answers again, or is gone."""
        text = plain(about.get("reason", ""), _LONGEST)
        with self._lock:
            self._keep(_Row({"plugin": plugin, "state": state, "time_ms": time() * 1e3, "text": text}))

    # -- the ring, with the lock held ---------------------------------------------------------------------------------

    def _step(self, plugin: str, event: str, serial: int, about: dict[str, Any]) -> None:
        row = self._open.get(serial)
        for step in reversed(row.table["steps"] if row is not None else ()):
            if step["plugin"] == plugin and step["event"] == event:
                step.update(about)
                return

    def _keep(self, row: _Row) -> None:
        self._newest += 1
        row.table["n"] = self._newest
        self._rows.append(row)
        self._steps += row.size
        self._bytes += len(row.request)
        bounds = self._bounds
        while len(self._rows) > bounds.rows or self._steps > bounds.steps or self._bytes > bounds.request_bytes:
            self._forget()

    def _forget(self) -> None:
        gone = self._rows.popleft()
        self._steps -= gone.size
        self._bytes -= len(gone.request)
        gone.request = b""

    def _leave(self) -> None:
        """Stop, and forget everything: the next reading begins again."""
        self._reporting.detach(self)
        self._attached, self._run = False, os.urandom(4).hex()
        self._open.clear()
        while self._rows:
            self._forget()


_NAMELESS: Final = {"pod": "", "pod_id": "", "container": "", "container_id": ""}


def _names(event: str, request: bytes) -> dict[str, str]:
    """Names and ids of the pod and the container that a request is about."""
    kind: Any = getattr(m, "StateChangeEvent" if event == "StateChange" else f"{event}Request", None)
    found = dict(_NAMELESS)
    try:
        message = kind and kind.FromString(request)
        pod, container = getattr(message, "pod", None), getattr(message, "container", None)
    except Exception:  # noqa: BLE001 - a runtime's bytes; the decoder's errors have no common base
        return found
    if pod is not None:
        name = "/".join(part for part in (pod.namespace, pod.name) if part)
        found |= {"pod": plain(name, _LONGEST), "pod_id": plain(pod.id, 128)}
    if container is not None:
        found |= {"container": plain(container.name, _LONGEST), "container_id": plain(container.id, 128)}
    return found
