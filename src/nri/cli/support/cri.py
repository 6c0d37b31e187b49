"""Pods and containers of any runtime over its CRI socket: the connection, finding one by a person's word, rows.

Next: `nri.cri.client` is the connection.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from nri.cli import output
from nri.cli.errors import FAILED, USAGE, Failure
from nri.kube.container_search import NamedContainer, any_of, find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.cli.settings import Settings
    from nri.cri.client import CriClient

cri_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--cri-socket",
    metavar="PATH",
    envvar=["NRI_CRI_SOCKET", "CONTAINER_RUNTIME_ENDPOINT"],
    help="The runtime's CRI socket (environment: NRI_CRI_SOCKET, CONTAINER_RUNTIME_ENDPOINT). Default: the first "
    "that exists of those of the engine, containerd, CRI-O and iSulad.",
)

pods_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--pods-dir",
    metavar="DIR",
    envvar="NRI_PODS_DIR",
    help="The folder of logs and emptyDir volumes (environment: NRI_PODS_DIR). Default: /var/lib/nri-pods, or "
    "~/.local/state/nri-pods for users other than root.",
)


def connect(settings: Settings, path: str | None) -> CriClient:
    """Connect to the socket that was named, or to the first one of this machine."""
    from nri.cri.client import CALL_TIMEOUT_S, CriClient, find_socket

    return CriClient(path or find_socket(), settings.timeout_s or CALL_TIMEOUT_S)


def list_pods(cri: CriClient) -> list[Any]:
    """All pods, the newest first."""
    from nri.cri.pb import api_pb2 as pb

    found = cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
    return sorted(found, key=lambda pod: -pod.created_at)


def list_containers(cri: CriClient) -> list[Any]:
    """All containers, the newest first."""
    from nri.cri.pb import api_pb2 as pb

    found = cri.call("ListContainers", pb.ListContainersRequest()).containers
    return sorted(found, key=lambda container: -container.created_at)


def find_container(word: str, containers: list[Any], pods: Mapping[str, Any]) -> Any:
    """The container that a person means, see `nri.kube.container_search`. Raises Failure, which names all it could be.

    Args:
        word: an id or its beginning, NAME, POD/NAME, NAMESPACE/POD/NAME, or a pod with one container.
        containers: all there are, the newest first.
        pods: by id.
    """
    found = find(word, [_named(one, pods.get(one.pod_sandbox_id)) for one in containers])
    if not found:
        raise Failure(f'no container "{word}". try: nri pod ps -a', FAILED)
    if len(found) > 1:
        raise Failure(any_of(word, found), USAGE)
    return next(one for one in containers if one.id == found[0].id)


def _named(container: Any, pod: Any) -> NamedContainer:
    """A container with its names; without those of a pod that is gone."""
    name, namespace = (pod.metadata.name, pod.metadata.namespace) if pod is not None else ("", "")
    runs = state_name(container) == "running"
    return NamedContainer(container.id, container.metadata.name, name, namespace, container.pod_sandbox_id, runs)


def find_pod(word: str, pods: Iterable[Any]) -> Any:
    """The pod that a person means: an id or its beginning, NAME or NAMESPACE/NAME; of several the only ready one.

    Raises Failure, which names all that could be meant.
    """
    there = list(pods) if word else []
    found = [one for one in there if word in (one.id, one.metadata.name, full_name(one))]
    found = found or [one for one in there if one.id.startswith(word)]
    if not found:
        raise Failure(f'no pod "{word}". try: nri pod ps -a', FAILED)
    if len(found) > 1:
        ready = [one for one in found if one.state == 0]
        found = ready if len(ready) == 1 else found
    if len(found) > 1:
        raise Failure(
            f'"{word}" matches several pods: {", ".join(f"{one.id[:13]} ({full_name(one)})" for one in found)}', USAGE
        )
    return found[0]


def full_name(pod: Any) -> str:
    """Namespace and name of a pod."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def age(created_ns: int, now: float | None = None) -> str:
    """The time since then for a table; "" for a time that was not said."""
    return output.age((time.time() if now is None else now) - created_ns / 1e9) if created_ns > 0 else ""


def state_name(message: Any) -> str:
    """A state as people say it: ``running``, ``notready``."""
    value = message.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number[message.state].name
    return str(value).removeprefix("CONTAINER_").removeprefix("SANDBOX_").lower()
