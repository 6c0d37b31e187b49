"""`nri pod ps`: list pods with their containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Target
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.cri.client import CriClient

EXAMPLES = [
    "nri pod ps                              # running pods with their containers",
    "nri pod ps -a                           # all pods, and earlier runs of containers",
    "nri pod ps -n kube-system -q            # only the ids of pods",
    "nri pod ps -l app=web",
    "nri pod ps web -o json --cri-socket /run/crio/crio.sock",
]
_COLUMNS = [
    Column("POD", "pod"),
    Column("STATE", "pod_state"),
    Column("CONTAINER", "name"),
    Column("STATE", "state"),
    Column("AGE", "age"),
    Column("ID", "id", 13, mark=False),
    Column("IMAGE", "image", 40),
    Column("TRY", "attempt", extra=True),
    Column("HANDLER", "handler", extra=True),
    Column("POD ID", "pod_id", 13, mark=False, extra=True),
]


@click.command("ps", cls=Verb, examples=EXAMPLES, short_help="list pods with their containers")
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--all", "-a", "everything", is_flag=True, help="Also list stopped pods, and earlier runs of containers.")
@support.target_options(support.selector_option)
@click.pass_obj
def command(settings: Settings, pods: tuple[str, ...], everything: bool, target: Target) -> None:
    """List pods of the runtime on this machine with their containers, the newest first.

    POD is NAME, NAMESPACE/NAME, or the beginning of an id. -q prints only ids of pods; -o json prints everything
    that the runtime reports about each pod and its containers.
    """
    out = Output(settings)
    with target.connect(settings) as runtime:
        selected = runtime.selected(pods)
        if not pods and not everything:
            selected = [pod for pod in selected if support.state_name(pod) == "ready"]
        show(out, runtime.cri, selected, everything=everything)


def show(out: Output, cri: CriClient, pods: Sequence[Any], *, everything: bool) -> None:
    """Print pods with their containers. Earlier runs of a container are shown only with `everything`."""
    if out.quiet and out.human:
        out.names(pod.id for pod in pods)
        return
    containers_by_pod: dict[str, list[Any]] = {pod.id: [] for pod in pods}
    shown_keys: set[tuple[str, str]] = set()
    for container in support.list_containers(cri):
        key = container.pod_sandbox_id, container.metadata.name
        if container.pod_sandbox_id in containers_by_pod and (everything or key not in shown_keys):
            containers_by_pod[container.pod_sandbox_id].insert(0, container)
            shown_keys.add(key)
    if not out.human:
        rows = [(pod, [*map(support.to_document, containers_by_pod[pod.id])]) for pod in pods]
        out.document([{**support.to_document(pod, pod), "containers": containers} for pod, containers in rows])
        return
    out.table(_COLUMNS, [_row(pod, container) for pod in pods for container in containers_by_pod[pod.id] or [None]])


def _row(pod: Any, container: Any) -> dict[str, str]:
    """The row of a container, or of a pod without containers."""
    row = {"pod": support.full_name(pod), "pod_state": support.state_name(pod), "pod_id": pod.id,
           "handler": pod.runtime_handler, "age": support.age(pod.created_at)}  # fmt: skip
    if container is None:
        return row
    image = container.image.user_specified_image or container.image.image
    return row | {"name": container.metadata.name, "state": support.state_name(container), "id": container.id,
                  "age": support.age(container.created_at), "attempt": str(container.metadata.attempt),
                  "image": image}  # fmt: skip
