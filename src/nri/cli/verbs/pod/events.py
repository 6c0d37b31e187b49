"""`nri pod events`: print events of containers as the runtime reports them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from nri.cli.output import Output, padded
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb
from nri.text import escape

_WIDTH = 10


@click.command(
    cls=Verb,
    short_help="print events of containers, until Ctrl-C",
    examples=["nri pod events", "nri pod events -n shop -l app=web", "nri pod events web -o json | jq .pod"],
)
@click.argument("pods", nargs=-1, metavar="[POD]...")
@support.target_options(support.selector_option)
@click.pass_obj
def events(settings: Settings, pods: tuple[str, ...], target: Target) -> None:
    """Print when containers and sandboxes are created, started, stopped and deleted, until Ctrl-C.

    Each line has the time, the event, the pod, the container and its id. Without POD, pods that are created later are
    included. -o json prints everything that the runtime reports, one event per line.
    """
    from nri.cri.pb import api_pb2 as pb

    out = Output(settings)
    with target.connect(settings) as runtime:
        ids = {pod.id for pod in map(runtime.pod, pods)}
        names: dict[str, tuple[str, str]] = {pod.id: (support.full_name(pod), "") for pod in runtime.pods}
        for container in runtime.containers:
            pod_name = names.get(container.pod_sandbox_id, ("", ""))[0]
            names[container.id] = pod_name, container.metadata.name
        for event in runtime.cri.stream("GetContainerEvents", pb.GetEventsRequest()):
            status = event.pod_sandbox_status
            if (ids and status.id not in ids) or not runtime.selects(status):
                continue
            _print(out, event, _names(event, names))


def _names(event: Any, names: dict[str, tuple[str, str]]) -> tuple[str, str]:
    """The names of an event's pod and container. A deleted container is only known from earlier events."""
    status = event.pod_sandbox_status
    pod = support.full_name(status) if status.id else names.get(event.container_id, ("", ""))[0]
    for container in event.containers_statuses:
        names[container.id] = pod, container.metadata.name
    if status.id:
        names[status.id] = pod, ""
    kind = event.DESCRIPTOR.fields_by_name["container_event_type"].enum_type.values_by_number
    result = names.get(event.container_id, (pod, ""))
    if kind[event.container_event_type].name == "CONTAINER_DELETED_EVENT":
        names.pop(event.container_id, None)
    return result


def _print(out: Output, event: Any, names: tuple[str, str]) -> None:
    """Print an event."""
    if not out.human:
        out.stream({"pod": names[0], "container": names[1], **support.to_document(event)})
        return
    if out.quiet:
        out.names([event.container_id])
        out.flush()
        return
    values = event.DESCRIPTOR.fields_by_name["container_event_type"].enum_type.values_by_number
    kind = values[event.container_event_type].name.removeprefix("CONTAINER_").removesuffix("_EVENT").lower()
    time = datetime.fromtimestamp(event.created_at / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    pod, container = (escape(name) for name in names)
    out.text(f"{time}  {padded(kind, _WIDTH)}  {pod}  {container or '(sandbox)'}  {event.container_id[:13]}")
    out.flush()
