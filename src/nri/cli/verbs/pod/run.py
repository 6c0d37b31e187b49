"""`nri pod run`: the pods of a manifest on a CRI socket. Next: `nri.pods.requests`, and `lifecycle`."""

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


def _alone(context: click.Context, _: click.Parameter, words: tuple[str, ...]) -> None:
    """Refuse a word without an option: nearly always a manifest, as `nri try` and others take it."""
    if words:
        raise click.UsageError(f"{words[0]}: a manifest comes after -f: nri pod run -f {words[0]}", context)


@click.command("run", cls=Verb, examples=EXAMPLES, short_help="run the pods of Kubernetes manifests")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|-",
    help="YAML or JSON of pods, or of anything with a pod template; as often as you like.",
)
@click.option("--replace", is_flag=True, help="Remove a pod of the same namespace and name first.")
@click.option("--strict", is_flag=True, help="Run nothing if a key of the manifest is left out.")
@click.option("--runtime-handler", metavar="NAME", help="The OCI runtime, for pods without runtimeClassName.")
@click.option("--cgroup-root", metavar="PATH", default="", help="The cgroup above kubepods, as the kubelet's.")
@click.argument("words", nargs=-1, metavar="", is_eager=True, expose_value=False, callback=_alone)
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
    """Run the pods of Kubernetes manifests: images are pulled, the sandbox is made, containers are started in order.

    It follows a kubelet in QoS classes, cgroups below kubepods, init containers and sidecars, hostPath and emptyDir
    volumes, host ports and security contexts. A note names each key that has no effect, with file and line. If a
    container would be wrong without a key, such as a volume of a cluster, that is an error before anything runs. If a
    part of a pod cannot be started, the pod is removed again.

    An init container may take ten minutes, or --timeout. With -q only ids are printed. A run that is ended by Ctrl-C,
    SIGTERM or SIGHUP removes the pod that it has not finished.
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
        total = parse_memory(Root().find("/proc/meminfo") or "").get("MemTotal", 0)
        node = Node(socket.gethostname(), folder, cgroup_root, lifecycle.driver_of(cri), total)
        wanted = [pod for file in files for pod in read_pods(read_source(file), node)]
        notes = [note for pod in wanted for note in pod.notes]
        if notes and strict:
            raise Failure("\n".join(notes), FAILED)
        for note in notes:
            out.note(f"note: {note}")
        _make_room(cri, wanted, folder, replace=replace)
        made = []
        for pod in wanted:
            pod.handler = pod.handler or runtime_handler or ""
            made.append(lifecycle.run(cri, pod, out.note, settings.timeout_s or lifecycle.INIT_S, stop.held))
        found = {one.id: one for one in support.list_pods(cri)}
        show(out, cri, [found[identity] for identity in made if identity in found], everything=False)
    return 0


def _make_room(cri: CriClient, wanted: list[PodRequest], folder: str, *, replace: bool) -> None:
    """Remove pods of the same names, or refuse to run next to them; a pod of the same uid is always refused."""
    from nri.pods.lifecycle import remove

    names = {pod.name for pod in wanted}
    if len(names) < len(wanted):
        raise Failure("two of the files have a pod of the same namespace and name", FAILED)
    pods: list[Any] = support.list_pods(cri)
    name_by_uid = {pod.metadata.uid: support.full_name(pod) for pod in pods if support.full_name(pod) not in names}
    for request in wanted:
        uid = request.config.metadata.uid
        if uid in name_by_uid:
            other = f"pod {name_by_uid[uid]} already has the uid {uid}"
            raise Failure(f"pod {request.name}: {other}; remove it, or leave metadata.uid out of the manifest", FAILED)
    for pod in pods:
        name = support.full_name(pod)
        if name not in names:
            continue
        if not replace:
            raise Failure(
                f"pod {name} is there already ({pod.id[:13]}). Use --replace, or: nri pod rm -f {name}", FAILED
            )
        remove(cri, pod, folder)
