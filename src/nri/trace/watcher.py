"""A plugin that receives every event, changes nothing, and never makes the runtime wait for its reader."""

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

#: At most this many events wait for the reader; further events are counted and dropped.
MAX_WAITING = 10_000


class Snapshot(Plugin):
    """A plugin that gets the existing pods and containers."""

    name = "nri-events"

    def __init__(self) -> None:
        self.pods: list[Any] = []
        self.containers: list[Any] = []

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
        """Store the pods and containers."""
        self.pods, self.containers = pods, containers


class Follower(Snapshot):
    """A plugin that passes every event on. A loop below the class adds a method for each event."""

    name = "nri-events"

    def __init__(self, show: Callable[[str, Any, Any], None], named: EventMask | None = None) -> None:
        """`named` are events that the user has named. If the runtime does not know such an event, this is logged."""
        super().__init__()
        self.show = show
        self._named = EventMask(0) if named is None else named

    def configure(self) -> EventMask:
        """Subscribe to all events that the runtime knows, and to the named events."""
        return (known_to(self.runtime) | self._named).without("ValidateContainerAdjustment")

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
        """Report the runtime, and its numbers of pods and containers."""
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
    """A queue between a plugin, which never waits, and a reader, which iterates over it."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(MAX_WAITING)
        self._dropped = 0

    def put(self, event: str, pod: Any, container: Any) -> None:
        """Add an event with the time, or drop it if too many wait.

        Without a pod, the event is a line about the runtime.
        """
        entry = {"time": now(), "event": event, "pod": pod, "container": container}
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """End the iteration after the waiting events."""
        self._waiting.put(None)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield each event with the number of events dropped before it, until `close`."""
        while (entry := self._waiting.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            yield entry, dropped


def observer_options(kind: str, socket: str, events: EventMask, timeout_s: float, *, quiet: bool) -> Options:
    """Return the options of a program that watches a runtime. `kind` is its name, for example "nri-events".

    A runtime must be running at the start. Later the program waits until the runtime is back.
    """
    options = Options()
    options.socket, options.index, options.events = socket, OBSERVER_INDEX, events
    options.name, *options.spare_names = observer_names(kind)
    options.no_wait, options.registration_timeout_s = True, timeout_s
    options.log_level = "error" if quiet else "warning"
    return options


def follow(options: Options, named: EventMask, read: Callable[[EventQueue], None]) -> int:
    """Call `read` in a thread with all events until the program is stopped, through restarts of the runtime.

    Returns the exit code. Ends if the runtime does not answer at the start, because the path is wrong or NRI is off.
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
