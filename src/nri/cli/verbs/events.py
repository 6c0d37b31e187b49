"""`nri events`: show pods and containers, and with -f their events, through a plugin that changes nothing.

The plugin only queues events, and another thread prints them, so that a paused terminal never delays a container.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output, PaintedText, padded
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb
from nri.text import count, escape

if TYPE_CHECKING:
    from nri.api.events import EventMask
    from nri.trace.watcher import EventQueue

_STATES = ("unknown", "created", "paused", "running", "stopped")
EXAMPLES = [
    "nri events                              # existing pods and containers",
    "nri events -f                           # and their events, until Ctrl-C",
    "nri events -f --events CreateContainer,StopContainer -o json | jq .container.name",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option("--follow", "-f", is_flag=True, help="Keep running and show every event.")
@click.option("--events", "event_list", metavar="LIST", help="Show only these events: pod, container, or names.")
@click.pass_obj
def command(settings: Settings, follow: bool, event_list: str | None) -> int:
    """Show the pods and containers that the runtime reports to plugins; with -f also all further events.

    The command registers as a plugin with index 99, so that it sees containers after the changes of all other plugins.
    It changes nothing. With -o json, each event is one line of JSON.

    The exit code is 3 if no runtime answers. If the runtime stops later, -f waits for it until Ctrl-C.
    """
    from nri.api.naming import DEFAULT_SOCKET
    from nri.trace import watcher

    mask = events_of(event_list)
    socket = settings.socket_path or DEFAULT_SOCKET
    timeout_s = settings.timeout_s or 5.0
    if follow:
        out = Output(settings)
        options = watcher.observer_options("nri-events", socket, mask, timeout_s, quiet=out.quiet)
        return watcher.follow(options, explicit_events(event_list), lambda events: print_all(events, out))
    pods, containers = watcher.snapshot(socket, timeout_s)
    show_state(settings, pods, containers)
    return 0


def events_of(text: str | None) -> EventMask:
    """Parse the events to show. Validation is left out, because it is not an event of a container."""
    from nri.api.events import ALL, EventMask

    try:
        mask = ALL if text is None else EventMask.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--events") from None
    return mask.without("ValidateContainerAdjustment")


def explicit_events(text: str | None) -> EventMask:
    """Parse the events that are named one by one, and not as a group such as "pod"."""
    from nri.api.events import EventMask

    named = EventMask(0) if text is None else EventMask.parse_names(text)
    return named.without("ValidateContainerAdjustment")


def show_state(settings: Settings, pods: list[Any], containers: list[Any]) -> None:
    """Print pods and containers as one table, or as one document with both lists."""
    out = Output(settings)
    if not out.human:
        out.document(
            {"pods": [as_dict(pod) for pod in pods], "containers": [as_dict(container) for container in containers]}
        )
        return
    names = {pod.id: f"{pod.namespace}/{pod.name}" for pod in pods}
    rows: list[dict[str, Any]] = [
        {
            "id": container.id,
            "pod": names.get(container.pod_sandbox_id, "-"),
            "name": container.name,
            "state": state_name(container),
            "pid": container.pid or None,
        }
        for container in containers
    ]
    pods_with_containers = {container.pod_sandbox_id for container in containers}
    rows += [{"id": "", "pod": names[pod.id], "name": ""} for pod in pods if pod.id not in pods_with_containers]
    rows.sort(key=lambda row: (row["pod"], row["name"]))
    columns = [
        Column("CONTAINER", "id", 13, mark=False),
        Column("POD", "pod"),
        Column("NAME", "name"),
        Column("STATE", "state"),
        Column("PID", "pid"),
    ]
    out.table(columns, [row for row in rows if row["id"]] if out.quiet else rows)


def print_all(events: EventQueue, out: Output) -> None:
    """Print events as they arrive. Exits when the reader of our output has closed the pipe, as `| head` expects."""
    has_heading = not out.human or out.quiet
    try:
        for entry, dropped in events:
            _print(entry, out)
            if not has_heading:  # after the first entry, which reports that a runtime is connected
                out.text(PaintedText(line_of("TIME", "EVENT", "CONTAINER", "POD", "NAME"), "bold"))
                sys.stdout.flush()
                has_heading = True
            if dropped:
                out.note(f"{count(dropped, 'event')} not shown, because the output is not read fast enough")
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
    """Format a line of the running table. Widths are fixed, because later rows are not known."""
    shown = f"{time:12}  {event:20}  {escape(ident) or '-':13}  {padded(escape(pod), 40)}  {escape(name) or '-'}"
    return shown.rstrip()


def as_dict(message: Any) -> dict[str, Any]:
    """Convert a message to protobuf's JSON form."""
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(message)
    return document


def state_name(container: Any) -> str:
    """The name of a container's state."""
    return _STATES[container.state] if 0 <= container.state < len(_STATES) else str(container.state)
