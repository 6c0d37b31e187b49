"""`nri pod ps`: pods with their containers. Next: `nri.cli.support.cri` asks for them."""

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
    "nri pod ps                              # pods that are ready, with their containers",
    "nri pod ps -a                           # all pods, and earlier runs of containers",
    "nri pod ps --namespace kube-system -q   # ids of pods alone",
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
@click.option(
    "--all", "-a", "everything", is_flag=True, help="Also pods that have ended, and earlier runs of containers."
)
@click.option("--namespace", metavar="NAME", help="Only pods of this Kubernetes namespace.")
@cri_option
@click.pass_obj
def command(
    settings: Settings, pods: tuple[str, ...], everything: bool, namespace: str | None, cri_socket: str | None
) -> None:
    """List pods of the runtime on this machine with their containers, the newest first.

    POD is an id or the beginning of one, NAME or NAMESPACE/NAME. With -q: ids of pods. With -o json: everything that
    the runtime reports of each pod, and of its containers.
    """
    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        found = support.list_pods(cri)
        if pods:
            found = [support.find_pod(word, found) for word in pods]
        elif not everything:
            found = [one for one in found if support.state_name(one) == "ready"]
        show(out, cri, [one for one in found if namespace in (None, one.metadata.namespace)], everything=everything)


def show(out: Output, cri: CriClient, pods: Sequence[Any], *, everything: bool) -> None:
    """Print pods with their containers: of each the newest life, unless `everything` is asked for."""
    from google.protobuf.json_format import MessageToDict

    if out.quiet and out.human:
        out.names(one.id for one in pods)
        return
    lives: dict[str, list[Any]] = {one.id: [] for one in pods}
    seen: set[tuple[str, str]] = set()
    for each in support.list_containers(cri):
        key = each.pod_sandbox_id, each.metadata.name
        if each.pod_sandbox_id in lives and (everything or key not in seen):
            lives[each.pod_sandbox_id].insert(0, each)
            seen.add(key)
    if not out.human:
        whole: Any = {"always_print_fields_with_no_presence": True}
        rows = [(one, [MessageToDict(each, **whole) for each in lives[one.id]]) for one in pods]
        out.document([{**MessageToDict(one, **whole), "containers": own} for one, own in rows])
        return
    out.table(_COLUMNS, [_row(one, each) for one in pods for each in lives[one.id] or [None]])


def _row(pod: Any, container: Any) -> dict[str, str]:
    """A row for a container, or for a pod that has none."""
    row = {"pod": support.full_name(pod), "pod_state": support.state_name(pod), "pod_id": pod.id,
           "handler": pod.runtime_handler, "age": support.age(pod.created_at)}  # fmt: skip
    if container is None:
        return row
    image = container.image.user_specified_image or container.image.image
    return row | {"name": container.metadata.name, "state": support.state_name(container), "id": container.id,
                  "age": support.age(container.created_at), "attempt": str(container.metadata.attempt),
                  "image": image}  # fmt: skip
