"""`nri pod run`: run the pods of a manifest on a CRI socket."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Output
from nri.cli.settings import Settings
from nri.cli.support import cri as support
from nri.cli.support.cri import cri_option, pods_option
from nri.cli.support.verb import Verb
from nri.cli.verbs.pod.ps import show

if TYPE_CHECKING:
    from nri.cri.client import CriClient
    from nri.pods.requests import PodRequest

EXAMPLES = [
    "nri pod run -f web.yaml",
    "nri pod run -f web.yaml -f db.yaml --replace -q",
    "kubectl get pod web -o yaml | nri pod run -f -",
    "nri pod run -f web.yaml --cri-socket /run/containerd/containerd.sock --runtime-handler crun",
]


def _refuse_argument(context: click.Context, _: click.Parameter, arguments: tuple[str, ...]) -> None:
    """Refuse an argument without an option, which is usually a manifest."""
    if arguments:
        raise click.UsageError(
            f"{arguments[0]}: -f is required before a manifest: nri pod run -f {arguments[0]}", context
        )


@click.command("run", cls=Verb, examples=EXAMPLES, short_help="run the pods of Kubernetes manifests")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|-",
    help="YAML or JSON of pods, or of resources with a pod template; repeatable.",
)
@click.option("--replace", is_flag=True, help="First remove an existing pod of the same namespace and name.")
@click.option("--strict", is_flag=True, help="Fail if a key of the manifest has no effect.")
@click.option("--runtime-handler", metavar="NAME", help="The OCI runtime for pods without runtimeClassName.")
@click.option("--cgroup-root", metavar="PATH", default="", help="The parent cgroup of kubepods, as set in the kubelet.")
@click.argument("arguments", nargs=-1, metavar="", is_eager=True, expose_value=False, callback=_refuse_argument)
@pods_option
@cri_option
@click.pass_obj
def command(
    settings: Settings,
    files: tuple[str, ...],
    replace: bool,
    strict: bool,
    runtime_handler: str | None,
    cgroup_root: str,
    pods_dir: str | None,
    cri_socket: str | None,
) -> int:
    """Run the pods of Kubernetes manifests: pull images, create the sandbox, start containers in order.

    QoS classes, cgroups below kubepods, init containers, sidecars, hostPath and emptyDir volumes, host ports and
    security contexts work as with a kubelet. Keys without effect are reported with file and line. An unsupported key
    that a container requires, for example a volume of a cluster, is an error, and then no pod is started.

    If a container of a pod cannot be started, or after Ctrl-C, SIGTERM or SIGHUP, the incomplete pod is removed.
    --timeout limits each init container; the default is 10 minutes. -q prints only ids.
    """
    from nri.cli.support.inputs import read_source
    from nri.host import Root
    from nri.host.usage import parse_memory
    from nri.pods import lifecycle
    from nri.pods.requests import Node, read_pods
    from nri.service.interruption import SignalStop

    out = Output(settings)
    with SignalStop() as stop, support.connect(settings, cri_socket) as cri:
        folder = os.path.abspath(pods_dir or lifecycle.state_folder())
        memory_bytes = parse_memory(Root().find("/proc/meminfo") or "").get("MemTotal", 0)
        driver, seccomp_root = lifecycle.driver_of(cri), lifecycle.seccomp_root(cri)
        node = Node(socket.gethostname(), folder, cgroup_root, driver, memory_bytes, seccomp_root)
        requests = [pod for file in files for pod in read_pods(read_source(file), node)]
        notes = [note for pod in requests for note in pod.notes]
        if notes and strict:
            raise Failure("\n".join(notes), FAILED)
        for note in notes:
            out.note(f"note: {note}")
        _clear_names(cri, requests, folder, replace=replace)
        pod_ids = []
        for pod in requests:
            pod.handler = pod.handler or runtime_handler or ""
            pod_ids.append(lifecycle.run(cri, pod, out.note, settings.timeout_s or lifecycle.INIT_S, stop.held))
        pod_by_id = {one.id: one for one in support.list_pods(cri)}
        show(out, cri, [pod_by_id[identity] for identity in pod_ids if identity in pod_by_id], everything=False)
    return 0


def _clear_names(cri: CriClient, requests: list[PodRequest], folder: str, *, replace: bool) -> None:
    """Remove the pods that have the names of `requests` if `replace` is true.

    Raises Failure if such a pod exists and `replace` is false, or if another pod has the uid of a request.
    """
    from nri.pods.lifecycle import remove

    names = {pod.name for pod in requests}
    if len(names) < len(requests):
        raise Failure("two pods in the manifests have the same namespace and name", FAILED)
    pods: list[Any] = support.list_pods(cri)
    name_by_uid = {pod.metadata.uid: support.full_name(pod) for pod in pods if support.full_name(pod) not in names}
    for request in requests:
        uid = request.config.metadata.uid
        if uid in name_by_uid:
            other = f"pod {name_by_uid[uid]} already has the uid {uid}"
            raise Failure(f"pod {request.name}: {other}; remove it, or leave metadata.uid out of the manifest", FAILED)
    for pod in pods:
        name = support.full_name(pod)
        if name not in names:
            continue
        if not replace:
            raise Failure(f"pod {name} already exists ({pod.id[:13]}). Use --replace, or: nri pod rm -f {name}", FAILED)
        remove(cri, pod, folder)
