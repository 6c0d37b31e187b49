"""A plugin that watches: it takes every event, changes nothing, and never makes the runtime wait for its reader."""

from __future__ import annotations

import queue
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nri.api.events import EVENTS, EventMask
from nri.api.naming import OBSERVER_INDEX, observer_names
from nri.stub.plugin import Plugin
from nri.stub.program.options import Options
from nri.stub.program.process import Program
from nri.stub.program.session_thread import session_thread
from nri.stub.session.subscription import known_to
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EventQueue", "Follower", "follow", "observer_options", "snapshot"]

#: Events that may wait for their reader; further ones are counted and dropped.
MAX_WAITING = 10_000


class Snapshot(Plugin):
    """A plugin that takes the pods and containers that are there, and is done."""

    name = "nri-events"

    def __init__(self) -> None:
        self.pods: list[Any] = []
        self.containers: list[Any] = []

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
        """Keep them."""
        self.pods, self.containers = pods, containers


class Follower(Snapshot):
    """A plugin that passes every event on. One method per event is made below: they only differ by their names."""

    name = "nri-events"

    def __init__(self, show: Callable[[str, Any, Any], None], named: EventMask | None = None) -> None:
        """`named` are the events that were asked for by name: a warning tells which the runtime does not know."""
        super().__init__()
        self.show = show
        self._named = EventMask(0) if named is None else named

    def configure(self) -> EventMask:
        """All events that the runtime knows, and those that were named."""
        return (known_to(self.runtime) | self._named).without("ValidateContainerAdjustment")

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
        """Show which runtime is followed, and how much it runs."""
        counts = f"{count(len(pods), 'pod')}, {count(len(containers), 'container')}"
        self.show(f"following {self.runtime.name} {self.runtime.version}: {counts} now", None, None)


def _handler(event: str, kind: str) -> Any:
    def pod_event(self: Follower, pod: Any, *_: Any) -> None:
        self.show(event, pod, None)

    def container_event(self: Follower, pod: Any, container: Any, *_: Any) -> None:
        self.show(event, pod, container)

    return pod_event if kind == "pod" else container_event


for _spec in EVENTS:
    if _spec.kind != "validation":
        setattr(Follower, _spec.method, _handler(_spec.rpc, _spec.kind))


def snapshot(socket: str, timeout_s: float) -> tuple[list[Any], list[Any]]:
    """Return the runtime's pods and containers.

    Raises:
        RuntimeUnavailable, DeadlineExceeded, ConnectionClosed, RegistrationError.
    """
    plugin = Snapshot()
    with session_thread(plugin, socket, OBSERVER_INDEX, timeout_s):
        return plugin.pods, plugin.containers


class EventQueue:
    """Events between a plugin, which never waits, and their reader. The reader iterates over it."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(MAX_WAITING)
        self._dropped = 0

    def put(self, event: str, pod: Any, container: Any) -> None:
        """Add an event with the time; drop it if too many wait. Without a pod `event` is a line about the runtime."""
        entry = {"time": now(), "event": event, "pod": pod, "container": container}
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Let the reader end behind what waits."""
        self._waiting.put(None)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Each event, and the number of events that were dropped since the one before; until `close`."""
        while (entry := self._waiting.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            yield entry, dropped


def observer_options(kind: str, socket: str, events: EventMask, timeout_s: float, *, quiet: bool) -> Options:
    """The options of a program that watches a runtime: `kind` is its name, such as "nri-events".

    A runtime that is not there at the start is an error; one that goes away later is waited for.
    """
    options = Options()
    options.socket, options.index, options.events = socket, OBSERVER_INDEX, events
    options.name, *options.spare_names = observer_names(kind)
    options.no_wait, options.registration_timeout_s = True, timeout_s
    options.log_level = "error" if quiet else "warning"
    return options


def follow(options: Options, named: EventMask, read: Callable[[EventQueue], None]) -> int:
    """Have `read` take events in a thread until the program is stopped, through restarts of the runtime.

    Returns the exit code. A runtime that is not there at the start ends it: the path is wrong, or NRI is off.
    """
    events = EventQueue()
    reader = threading.Thread(target=read, args=(events,), daemon=True)
    reader.start()
    code = Program(Follower(events.put, named), options).run()
    events.close()
    reader.join(1.0)
    return code


def now() -> str:
    """Return the time as RFC 3339 in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
