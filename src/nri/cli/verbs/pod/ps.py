"""`nri pod ps`: list pods with their containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.cri.client import CriClient

EXAMPLES = [
    "nri pod ps                              # running pods with their containers",
    "nri pod ps -a                           # all pods, and earlier runs of containers",
    "nri pod ps --namespace kube-system -q   # only the ids of pods",
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
@click.option("--namespace", metavar="NAME", help="List only pods of this Kubernetes namespace.")
@cri_option
@click.pass_obj
def command(
    settings: Settings, pods: tuple[str, ...], everything: bool, namespace: str | None, cri_socket: str | None
) -> None:
    """List pods of the runtime on this machine with their containers, the newest first.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. -q prints only ids of pods; -o json prints everything
    that the runtime reports about each pod and its containers.
    """
    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        selected = support.list_pods(cri)
        if pods:
            selected = [support.find_pod(word, selected) for word in pods]
        elif not everything:
            selected = [pod for pod in selected if support.state_name(pod) == "ready"]
        show(out, cri, [pod for pod in selected if namespace in (None, pod.metadata.namespace)], everything=everything)


def show(out: Output, cri: CriClient, pods: Sequence[Any], *, everything: bool) -> None:
    """Print pods with their containers: only the latest run of each container, unless `everything`."""
    from google.protobuf.json_format import MessageToDict

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
        all_fields: Any = {"always_print_fields_with_no_presence": True}
        rows = [
            (pod, [MessageToDict(container, **all_fields) for container in containers_by_pod[pod.id]]) for pod in pods
        ]
        out.document([{**MessageToDict(pod, **all_fields), "containers": containers} for pod, containers in rows])
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
