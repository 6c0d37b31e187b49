"""`nri pods`: the pods of a runtime. Next: `nri.cli.support.cri` asks for them."""

from __future__ import annotations

import click

from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri pods",
    "nri pods --namespace kube-system",
    "nri pods -q                             # ids alone",
    "nri pods --cri-socket /run/containerd/containerd.sock -o json",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option("--namespace", metavar="NAME", help="Only of this Kubernetes namespace.")
@cri_option
@click.pass_obj
def command(settings: Settings, namespace: str | None, cri_socket: str | None) -> None:
    """List pods of the runtime on this machine, over its CRI socket: the engine's, containerd's or any other's.

    The newest come first. With -o json everything that the runtime tells of each.
    """
    from google.protobuf.json_format import MessageToDict

    from nri.cri.pb import api_pb2 as pb

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        found = [one for one in support.list_pods(cri) if namespace in (None, one.metadata.namespace)]
        containers = cri.call("ListContainers", pb.ListContainersRequest()).containers
    if not out.human:
        out.document([MessageToDict(one, always_print_fields_with_no_presence=True) for one in found])
        return
    columns = [
        Column("POD", "id", 13, mark=False),
        Column("NAME", "name"),
        Column("NAMESPACE", "namespace"),
        Column("AGE", "age"),
        Column("STATE", "state"),
        Column("RUNNING", "running"),
        Column("ATTEMPT", "attempt"),
        Column("HANDLER", "handler"),
    ]
    rows = []
    for one in found:
        mine = [container for container in containers if container.pod_sandbox_id == one.id]
        running = sum(support.state_name(container) == "running" for container in mine)
        rows.append(
            {"id": one.id, "name": one.metadata.name, "namespace": one.metadata.namespace,
             "age": support.age(one.created_at), "state": support.state_name(one),
             "running": f"{running}/{len(mine)}", "attempt": str(one.metadata.attempt), "handler": one.runtime_handler}
        )  # fmt: skip
    out.table(columns, rows)
