"""`nri pod inspect`: print everything that a runtime reports about a pod or a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from nri.cri.client import CriClient


@click.command(
    "inspect",
    cls=Verb,
    short_help="print everything that the runtime reports about a pod or container",
    examples=[
        "nri pod inspect web                     # the pod, and its containers",
        "nri pod inspect web/app                 # one container, with its OCI spec",
        "nri pod inspect web/app | jq .info.runtimeSpec.linux.resources",
    ],
)
@click.argument("name", metavar="POD|CONTAINER")
@cri_option
@click.pass_obj
def command(settings: Settings, name: str, cri_socket: str | None) -> None:
    """Print the status of a pod and its containers, or of one container, with the runtime's details.

    A pod is NAME, NAMESPACE/NAME or the beginning of its id; a container is POD/NAME, NAMESPACE/POD/NAME, NAME or the
    beginning of its id. The result is JSON, or YAML with -o yaml.
    """
    with support.connect(settings, cri_socket) as cri:
        pods, containers = support.list_pods(cri), support.list_containers(cri)
        try:
            pod = support.find_pod(name, pods)
        except Failure as error:
            if error.code != FAILED:
                raise
            try:
                container = support.find_container(name, containers, {one.id: one for one in pods})
            except Failure as missing:
                text = f'no pod or container "{name}". try: nri pod ps -a'
                raise Failure(text, FAILED) if missing.code == FAILED else missing from None
            answer = _container(cri, container.id)
        else:
            pod_containers = [_container(cri, one.id) for one in containers if one.pod_sandbox_id == pod.id]
            answer = {**_verbose_status(cri, "PodSandboxStatus", pod_sandbox_id=pod.id), "containers": pod_containers}
    Output(settings).document(answer)


def _container(cri: CriClient, identity: str) -> dict[str, Any]:
    return _verbose_status(cri, "ContainerStatus", container_id=identity)


def _verbose_status(cri: CriClient, method: str, **arguments: str) -> dict[str, Any]:
    """A verbose status as plain values; details that the runtime adds as JSON are parsed."""
    from google.protobuf.json_format import MessageToDict

    from nri.config.syntax import parse_json
    from nri.cri.pb import api_pb2 as pb

    reply = cri.call(method, getattr(pb, f"{method}Request")(verbose=True, **arguments))
    info: Any = {}
    for key, text in sorted(reply.info.items()):
        try:
            info[key] = parse_json(text)
        except ValueError:
            info[key] = text
    status = MessageToDict(reply.status, always_print_fields_with_no_presence=True)
    return {"status": status, "info": info["info"] if [*info] == ["info"] else info}
