"""The events that ended last, for those who look on: a ring behind the reporter seam, there while somebody reads.

The first `read` attaches it to `nri.adaptation.audit.reporting`, and the first event that ends a minute after the last
one takes it off: a runtime that nobody looks at pays nothing. An event that had begun before is left out. A step is
told of when its request has been sent, and an event when its first plugin is at work: so each begins its duration
before its end, and no plugin before the one that it waited for has answered. Bounded in events, steps, texts and bytes
of requests; a reader that is too slow learns how many it has missed. Names of pods and containers are worked out when
they are read. Next: `nri.adaptation.admin`, which serves it.
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
    from nri.interfaces import Step

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


#: After so many events those that are over become rows, also if nobody reads.
_TIDY: Final = 64


class _Row:
    """An event, or what became of a plugin, as it is kept until it is read."""

    __slots__ = ("parts", "request", "size", "table")

    def __init__(self, table: dict[str, Any], request: bytes = b"") -> None:
        self.table = table
        self.request = request if len(request) <= _LONGEST_REQUEST else b""
        self.size = 1
        self.parts: list[tuple[str, list[Step]]] = []


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
            self._tidy()
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

    def note(self, event: str, serial: int, request: bytes, steps: list[Step]) -> None:
        """Take note of an event, and of its steps as they come."""
        with self._lock:
            row = self._open.get(serial)
            if row is None:
                if not steps or steps[0][0] != "begins":
                    return
                row = self._open[serial] = _Row({"event": event, "serial": serial, "steps": []}, request)
                if len(self._open) % _TIDY == 0 or len(self._open) > self._bounds.open:
                    self._tidy()
            row.parts.append((event, steps))
            if monotonic() - self._read > self._bounds.unread_s:
                self._leave()

    def plugin_changed(self, plugin: str, state: str, about: Mapping[str, str]) -> None:
        """Take note: a plugin takes part, is late or left out, answers again, or is gone."""
        text = plain(about.get("reason", ""), _LONGEST)
        with self._lock:
            self._keep(_Row({"plugin": plugin, "state": state, "time_ms": time() * 1e3, "text": text}))

    # -- the ring, with the lock held ---------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Make rows of the events that are over, in the order of their ends; of others keep the newest."""
        over = []
        for serial, row in list(self._open.items()):
            end = next((steps[-1] for _, steps in row.parts if steps and steps[-1][0] == "ends"), None)
            if end is not None:
                over.append((end, self._open.pop(serial)))
        for end, row in sorted(over, key=lambda found: found[0][1]):
            self._end(row, end)
        while len(self._open) > self._bounds.open:
            self._open.popitem(last=False)

    def _end(self, row: _Row, end: Step) -> None:
        _, at_s, _, _, error, duration_s = end
        began, table = at_s - duration_s, row.table
        parts, row.parts = row.parts, []
        if began < self._since:
            return
        time_ms = (time() - (monotonic() - began)) * 1e3
        table |= {"time_ms": time_ms, "duration_ms": duration_s * 1e3, "error": _text(error), **_NAMELESS}
        for event, steps in parts:
            for kind, at_s, plugin, _, error, duration_s in steps:
                if kind == "asked" and len(table["steps"]) < self._bounds.plugins:
                    at_ms = max(0.0, at_s - began) * 1e3
                    step = {"plugin": plugin, "event": event, "at_ms": at_ms, "duration_ms": None, "error": ""}
                    table["steps"].append({**step, "missed": False, "refused": "", "conflict": False})
                elif kind in ("answered", "failed"):
                    about = {"duration_ms": duration_s * 1e3, "error": _text(error), "missed": isinstance(error, LATE)}
                    _go_on(table["steps"], plugin, event, about)
                elif kind == "merged" and error is not None:
                    about = {"refused": _text(error), "conflict": isinstance(error, ConflictError)}
                    _go_on(table["steps"], plugin, event, about)
        row.size += len(table["steps"])
        self._keep(row)

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


def _text(error: Exception | None) -> str:
    return "" if error is None else plain(str(error), _LONGEST)


def _go_on(steps: list[dict[str, Any]], plugin: str, event: str, about: dict[str, Any]) -> None:
    """Add to the last step of a plugin."""
    for step in reversed(steps):
        if step["plugin"] == plugin and step["event"] == event:
            step.update(about)
            return


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
