"""Pods and containers of any runtime over its CRI socket: connect, list, and find a pod or container by name or id."""

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
    "existing socket of nri engine, containerd, CRI-O or iSulad.",
)

pods_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--pods-dir",
    metavar="DIR",
    envvar="NRI_PODS_DIR",
    help="The folder of logs and emptyDir volumes (environment: NRI_PODS_DIR). Default: /var/lib/nri-pods, or "
    "~/.local/state/nri-pods for users other than root.",
)


def connect(settings: Settings, path: str | None) -> CriClient:
    """Connect to a CRI socket. Without `path`, connect to the first known socket that exists on this machine."""
    from nri.cri.client import CALL_TIMEOUT_S, CriClient

    return CriClient(path or "", settings.timeout_s or CALL_TIMEOUT_S)


def list_pods(cri: CriClient) -> list[Any]:
    """All pods, the newest first."""
    from nri.cri.pb import api_pb2 as pb

    pods = cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
    return sorted(pods, key=lambda pod: -pod.created_at)


def list_containers(cri: CriClient) -> list[Any]:
    """All containers, the newest first."""
    from nri.cri.pb import api_pb2 as pb

    containers = cri.call("ListContainers", pb.ListContainersRequest()).containers
    return sorted(containers, key=lambda container: -container.created_at)


def find_container(word: str, containers: list[Any], pods: Mapping[str, Any]) -> Any:
    """The container that a name on the command line refers to. Raises Failure with all matches if it is not unique.

    Args:
        word: an id or its beginning, NAME, POD/NAME, NAMESPACE/POD/NAME, or a pod with one container.
            containers: all existing containers, the newest first.
            pods: all pods, by id.
    """
    matches = find(word, [_with_names(container, pods.get(container.pod_sandbox_id)) for container in containers])
    if not matches:
        raise Failure(f'no container "{word}". try: nri pod ps -a', FAILED)
    if len(matches) > 1:
        raise Failure(any_of(word, matches), USAGE)
    return next(container for container in containers if container.id == matches[0].id)


def _with_names(container: Any, pod: Any) -> NamedContainer:
    """A container with its names. The pod's name is empty if the pod no longer exists."""
    name, namespace = (pod.metadata.name, pod.metadata.namespace) if pod is not None else ("", "")
    runs = state_name(container) == "running"
    return NamedContainer(container.id, container.metadata.name, name, namespace, container.pod_sandbox_id, runs)


def find_pod(word: str, pods: Iterable[Any]) -> Any:
    """The pod that a name refers to: an id or its beginning, NAME or NAMESPACE/NAME.

    Of several pods with this name, the only ready pod is chosen. Raises Failure with all matches if the choice is not
    unique.
    """
    candidates = list(pods) if word else []
    matches = [pod for pod in candidates if word in (pod.id, pod.metadata.name, full_name(pod))]
    matches = matches or [pod for pod in candidates if pod.id.startswith(word)]
    if not matches:
        raise Failure(f'no pod "{word}". try: nri pod ps -a', FAILED)
    if len(matches) > 1:
        ready = [pod for pod in matches if pod.state == 0]
        matches = ready if len(ready) == 1 else matches
    if len(matches) > 1:
        raise Failure(
            f'"{word}" matches several pods: {", ".join(f"{pod.id[:13]} ({full_name(pod)})" for pod in matches)}', USAGE
        )
    return matches[0]


def full_name(pod: Any) -> str:
    """Namespace and name of a pod."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def age(created_ns: int, now: float | None = None) -> str:
    """The time since `created_ns`, for a table. Returns "" if the time of creation is not known."""
    return output.age((time.time() if now is None else now) - created_ns / 1e9) if created_ns > 0 else ""


def state_name(message: Any) -> str:
    """The name of a state without the prefix of its enumeration: ``running``, ``notready``."""
    value = message.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number[message.state].name
    return str(value).removeprefix("CONTAINER_").removeprefix("SANDBOX_").lower()
