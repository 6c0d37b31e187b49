"""`nri events`: what is on this node, and with -f what happens to it, seen through a plugin that changes nothing.

Rules: the plugin answers at once. It only puts events into a bounded queue, and another thread prints them: a terminal
that is held, or a pipe that no program reads, must never hold up a container. Next: the plugin itself is in
`nri.trace.watcher`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output, Painted, padded
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb
from nri.text import count, escape

if TYPE_CHECKING:
    from nri.api.events import EventMask
    from nri.trace.watcher import EventQueue

_STATES = ("unknown", "created", "paused", "running", "stopped")
EXAMPLES = [
    "nri events                              # pods and containers that are there now",
    "nri events -f                           # and what happens to them, until Ctrl-C",
    "nri events -f --events CreateContainer,StopContainer -o json | jq .container.name",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option("--follow", "-f", is_flag=True, help="Keep running, and show every event.")
@click.option("--events", "wanted", metavar="LIST", help="Only these events: pod, container, or names.")
@click.pass_obj
def command(settings: Settings, follow: bool, wanted: str | None) -> int:
    """Show the pods and containers that the runtime reports to plugins; with -f, every event that follows.

    It registers as a plugin with index 99, after all others, so it sees containers as they left them. It changes
    nothing. With -o json, every event is one JSON object on a line of its own.

    If the runtime is not there, the exit code is 3. With -f, it waits for a runtime that goes away later, until
    Ctrl-C.
    """
    from nri.api.naming import DEFAULT_SOCKET
    from nri.trace import watcher

    mask = events_of(wanted)
    socket = settings.socket_path or DEFAULT_SOCKET
    timeout_s = settings.timeout_s or 5.0
    if follow:
        out = Output(settings)
        options = watcher.observer_options("nri-events", socket, mask, timeout_s, quiet=out.quiet)
        return watcher.follow(options, named_in(wanted), lambda events: print_all(events, out))
    pods, containers = watcher.snapshot(socket, timeout_s)
    show_state(settings, pods, containers)
    return 0


def events_of(text: str | None) -> EventMask:
    """Read the events to show: all but validation, which asks and reports nothing."""
    from nri.api.events import ALL, EventMask

    try:
        mask = ALL if text is None else EventMask.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--events") from None
    return mask.without("ValidateContainerAdjustment")


def named_in(text: str | None) -> EventMask:
    """Read the events that are asked for by their names, and not as a group such as "pod"."""
    from nri.api.events import EventMask

    named = EventMask(0) if text is None else EventMask.parse_names(text)
    return named.without("ValidateContainerAdjustment")


def show_state(settings: Settings, pods: list[Any], containers: list[Any]) -> None:
    """Print pods and containers as one table, or as one document with both lists in full."""
    out = Output(settings)
    if not out.human:
        out.document({"pods": [as_dict(pod) for pod in pods], "containers": [as_dict(one) for one in containers]})
        return
    names = {pod.id: f"{pod.namespace}/{pod.name}" for pod in pods}
    rows: list[dict[str, Any]] = [
        {
            "id": one.id,
            "pod": names.get(one.pod_sandbox_id, "-"),
            "name": one.name,
            "state": state_name(one),
            "pid": one.pid or None,
        }
        for one in containers
    ]
    filled = {one.pod_sandbox_id for one in containers}
    rows += [{"id": "", "pod": names[pod.id], "name": ""} for pod in pods if pod.id not in filled]
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
    """Print events as they come. When the reader of our output is gone, the process ends, as `| head` expects."""
    has_heading = not out.human or out.quiet
    try:
        for entry, dropped in events:
            _print(entry, out)
            if not has_heading:  # with the first entry, which names the runtime; none comes while there is no runtime
                out.text(Painted(line_of("TIME", "EVENT", "CONTAINER", "POD", "NAME"), "bold"))
                sys.stdout.flush()
                has_heading = True
            if dropped:
                out.note(f"not shown: {count(dropped, 'event')}, because the output is not read fast enough")
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


def as_dict(message: Any) -> dict[str, Any]:
    """Return a message under its protobuf JSON names."""
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(message)
    return document


def state_name(container: Any) -> str:
    """Return a container's state in one word."""
    return _STATES[container.state] if 0 <= container.state < len(_STATES) else str(container.state)
