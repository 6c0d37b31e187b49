"""The plugin inside `nri events`: takes every event, changes nothing, never makes the runtime wait for a printer.

Next: `nri.cli.verbs.events`, which starts it.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict

from nri.api.events import EVENTS, EventMask
from nri.api.naming import OBSERVER_INDEX, observer_names
from nri.cli.output import Painted, padded
from nri.cli.support.joined import joined
from nri.stub.plugin import Plugin
from nri.stub.program.options import Options
from nri.stub.program.process import Program
from nri.stub.session.subscription import known_to
from nri.text import count, escape

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.cli.output import Output

#: Events that may wait for the printer; what comes on top is counted and dropped.
MOST_WAITING = 10_000

_STATES = ("unknown", "created", "paused", "running", "stopped")


class Snapshot(Plugin):
    """A plugin that takes the pods and containers that are there, and is done."""

    name = "nri-events"

    def __init__(self) -> None:
        self.pods: list[Any] = []
        self.containers: list[Any] = []

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
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
        return (known_to(self.runtime) | self._named).without("ValidateContainerAdjustment")

    def synchronize(self, pods: list[Any], containers: list[Any]) -> None:
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
    with joined(plugin, socket, OBSERVER_INDEX, timeout_s):
        return plugin.pods, plugin.containers


def observer_options(kind: str, socket: str, events: EventMask, timeout_s: float, *, quiet: bool) -> Options:
    """The options of a program that watches a runtime: `kind` is its name, such as "nri-events"."""
    options = Options()
    options.socket, options.index, options.events = socket, OBSERVER_INDEX, events
    options.name, *options.spare_names = observer_names(kind)
    options.no_wait, options.registration_timeout_s = True, timeout_s
    options.log_level = "error" if quiet else "warning"
    return options


def follow(socket: str, mask: EventMask, named: EventMask, out: Output, timeout_s: float) -> int:
    """Print events until stopped, and through restarts of the runtime; returns the exit code.

    A runtime that is not there at the start ends it, because then the path is wrong or NRI is off.
    """
    waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(MOST_WAITING)
    lost = [0]

    def show(event: str, pod: Any, container: Any) -> None:
        entry = {"time": now(), "event": event, "pod": pod, "container": container}
        try:
            waiting.put_nowait(entry)
        except queue.Full:
            lost[0] += 1

    plugin = Follower(show, named)
    options = observer_options("nri-events", socket, mask, timeout_s, quiet=out.quiet)
    printer = threading.Thread(target=print_all, args=(waiting, lost, out), daemon=True)
    printer.start()
    code = Program(plugin, options).run()
    waiting.put(None)
    printer.join(1.0)
    return code


def print_all(waiting: queue.Queue[dict[str, Any] | None], lost: list[int], out: Output) -> None:
    """Print until there is no more. When the reader of our output is gone, the process ends, as `| head` expects."""
    headed = not out.human or out.quiet
    try:
        while (entry := waiting.get()) is not None:
            _print(entry, out)
            if not headed:  # with the first entry, which says whom we follow; there is none while no runtime is there
                out.text(Painted(line_of("TIME", "EVENT", "CONTAINER", "POD", "NAME"), "bold"))
                sys.stdout.flush()
                headed = True
            if lost[0]:
                missed, lost[0] = lost[0], 0
                out.note(f"not shown: {count(missed, 'event')}, because the output is not read fast enough")
    except BrokenPipeError:
        os._exit(0)


def _print(entry: dict[str, Any], out: Output) -> None:
    pod, container = entry["pod"], entry["container"]
    if pod is None:  # synchronized
        out.note(entry["event"])
        return
    if not out.human:
        shown = {"time": entry["time"], "event": entry["event"], "pod": as_dict(pod)}
        out.stream(shown if container is None else shown | {"container": as_dict(container)})
        return
    subject = pod if container is None else container
    if out.quiet:
        out.text(subject.id)
    else:
        name = container.name if container is not None else "-"
        ident = container.id[:13] if container is not None else "-"
        out.text(line_of(entry["time"][11:23], entry["event"], ident, f"{pod.namespace}/{pod.name}", name))
    sys.stdout.flush()


def line_of(time: str, event: str, ident: str, pod: str, name: str) -> str:
    """Write a line of the running table. Widths are fixed, since the rows to come are not known."""
    shown = f"{time:12}  {event:20}  {escape(ident) or '-':13}  {padded(escape(pod), 40)}  {escape(name) or '-'}"
    return shown.rstrip()


def now() -> str:
    """Return the time as RFC 3339 in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_dict(message: Any) -> dict[str, Any]:
    """Return a message under its protobuf JSON names."""
    found: dict[str, Any] = MessageToDict(message)
    return found


def state_name(container: Any) -> str:
    """Return a container's state in one word."""
    return _STATES[container.state] if 0 <= container.state < len(_STATES) else str(container.state)
