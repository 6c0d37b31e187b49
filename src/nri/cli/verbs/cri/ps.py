"""`nri ps`: the containers of a runtime. Next: `nri.cli.support.cri` asks for them."""

from __future__ import annotations

from typing import Any

import click

from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri ps                                  # containers that run",
    "nri ps -a                               # all of them",
    "nri ps --pod web -q                     # their ids alone",
    "nri ps --cri-socket /run/crio/crio.sock -o json",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.option("--all", "-a", "everything", is_flag=True, help="Also those that are created or have ended.")
@click.option("--pod", metavar="POD", help="Only of this pod: its name, its id or the beginning of it.")
@cri_option
@click.pass_obj
def command(settings: Settings, everything: bool, pod: str | None, cri_socket: str | None) -> None:
    """List containers of the runtime on this machine, over its CRI socket: the engine's, containerd's or any other's.

    The newest come first. With -o json everything that the runtime tells of each, and its pod's name and namespace.
    """
    from google.protobuf.json_format import MessageToDict

    out = Output(settings)
    with support.connect(settings, cri_socket) as cri:
        pods = {one.id: one for one in support.list_pods(cri)}
        found = support.list_containers(cri)
    if not everything:
        found = [one for one in found if support.state_name(one) == "running"]
    if pod is not None:
        found = [one for one in found if one.pod_sandbox_id.startswith(pod) or support.pod_name(one, pods) == pod]
    if not out.human:
        whole: Any = {"always_print_fields_with_no_presence": True}
        out.document([{**MessageToDict(one, **whole), "pod": _pod(pods.get(one.pod_sandbox_id))} for one in found])
        return
    columns = [
        Column("CONTAINER", "id", 13, mark=False),
        Column("IMAGE", "image", 40),
        Column("AGE", "age"),
        Column("STATE", "state"),
        Column("NAME", "name"),
        Column("ATTEMPT", "attempt"),
        Column("POD", "pod"),
        Column("NAMESPACE", "namespace"),
    ]
    rows = [
        {"id": one.id, "image": one.image.user_specified_image or one.image.image, "age": support.age(one.created_at),
         "state": support.state_name(one), "name": one.metadata.name, "attempt": str(one.metadata.attempt),
         "pod": support.pod_name(one, pods), "namespace": _pod(pods.get(one.pod_sandbox_id)).get("namespace", "")}
        for one in found
    ]  # fmt: skip
    out.table(columns, rows)


def _pod(pod: Any) -> dict[str, str]:
    """The name, namespace and uid of a PodSandbox; {} of one that is gone."""
    return {key: getattr(pod.metadata, key) for key in ("name", "namespace", "uid")} if pod is not None else {}
