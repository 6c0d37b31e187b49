"""`nri pod inspect`: print everything that a runtime reports about a pod or a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import Runtime, Target
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
@support.target_options()
@click.pass_obj
def command(settings: Settings, name: str, target: Target) -> None:
    """Print the status of a pod and its containers, or of one container, with the runtime's details.

    A pod is NAME, NAMESPACE/NAME or the beginning of its id; a container is POD/NAME, NAMESPACE/POD/NAME, NAME or the
    beginning of its id. The result is JSON, or YAML with -o yaml.
    """
    with target.connect(settings) as runtime:
        try:
            pod = runtime.pod(name)
        except Failure as error:
            if error.code != FAILED:
                raise
            try:
                container = runtime.container(name)
            except Failure as missing:
                text = f'no pod or container "{name}". try: nri pod ps -a'
                raise Failure(text, FAILED) if missing.code == FAILED else missing from None
            pod = runtime.pod_by_id.get(container.pod_sandbox_id)
            names = {} if pod is None else {"pod": support.full_name(pod)}
            answer = {**names, **container_document(runtime.cri, container.id)}
        else:
            answer = pod_document(runtime, pod)
    Output(settings).document(answer)


def pod_document(runtime: Runtime, pod: Any) -> dict[str, Any]:
    """The verbose status of a pod and of its containers, as plain values."""
    status = _verbose_status(runtime.cri, "PodSandboxStatus", pod_sandbox_id=pod.id)
    containers = [container_document(runtime.cri, one.id) for one in runtime.containers if one.pod_sandbox_id == pod.id]
    return {"pod": support.full_name(pod), **status, "containers": containers}


def container_document(cri: CriClient, identity: str) -> dict[str, Any]:
    """The verbose status of a container, as plain values."""
    return _verbose_status(cri, "ContainerStatus", container_id=identity)


def _verbose_status(cri: CriClient, method: str, **arguments: str) -> dict[str, Any]:
    """A verbose status as plain values; details that the runtime adds as JSON are parsed."""
    from nri.config.syntax import parse_json
    from nri.cri.pb import api_pb2 as pb

    reply = cri.call(method, getattr(pb, f"{method}Request")(verbose=True, **arguments))
    info: Any = {}
    for key, text in sorted(reply.info.items()):
        try:
            info[key] = parse_json(text)
        except ValueError:
            info[key] = text
    return {"status": support.to_document(reply.status), "info": info["info"] if [*info] == ["info"] else info}
