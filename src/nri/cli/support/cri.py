"""Pods and containers of any runtime over its CRI socket: connect, list, and find a pod or container by name or id."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nri.cli import output
from nri.cli.errors import FAILED, USAGE, Failure
from nri.kube.container_search import NamedContainer, any_of, find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.api.selectors import Selector
    from nri.cli.settings import Settings
    from nri.cri.client import CriClient

cri_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--cri-socket",
    metavar="PATH",
    envvar=["NRI_CRI_SOCKET", "CONTAINER_RUNTIME_ENDPOINT"],
    help="The runtime's CRI socket (environment: NRI_CRI_SOCKET, CONTAINER_RUNTIME_ENDPOINT). Default: the first "
    "existing socket of nri engine, containerd, CRI-O or iSulad.",
)

namespace_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--namespace", "-n", metavar="NAME", help="Use only pods of this Kubernetes namespace."
)

selector_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--selector", "-l", metavar="LABELS", help="Use only pods with these labels, as in kubectl: app=web,tier!=test."
)

container_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--container", "-c", "container_name", metavar="NAME", default="", help="The container of the pod, as in kubectl."
)

pods_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--pods-dir",
    metavar="DIR",
    envvar="NRI_PODS_DIR",
    help="The folder of logs and emptyDir volumes (environment: NRI_PODS_DIR). Default: /var/lib/nri-pods, or "
    "~/.local/state/nri-pods for users other than root.",
)


class Target(NamedTuple):
    """The runtime and the pods that the options of a verb select.

    Attributes:
        cri_socket: the socket of --cri-socket, or None.
        namespace: the namespace of --namespace, or None for all namespaces.
        selector: the text of --selector, or "".
    """

    cri_socket: str | None
    namespace: str | None = None
    selector: str = ""

    @contextmanager
    def connect(self, settings: Settings) -> Iterator[Runtime]:
        """Connect to the runtime. Raises click.UsageError if the selector is invalid."""
        from nri.api.selectors import LabelSelector

        conditions = re.split(r",(?![^(]*\))", self.selector) if self.selector else []
        try:
            selectors = [LabelSelector.parse(condition.strip()) for condition in conditions]
        except ValueError as error:
            raise click.UsageError(f"--selector: {error}") from None
        with connect(settings, self.cri_socket) as cri:
            yield Runtime(cri, self, selectors)


def target_options(*more: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add --cri-socket and --namespace to a verb, which gets their values as its argument `target`.

    `more` are further options, for example `selector_option`, whose value becomes a part of `target`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def verb(
            *args: Any, cri_socket: str | None, namespace: str | None, selector: str | None = None, **kwargs: Any
        ) -> Any:
            return function(*args, target=Target(cri_socket, namespace, selector or ""), **kwargs)

        for option in reversed((*more, namespace_option, cri_option)):
            verb = option(verb)
        return verb

    return decorate


class Runtime:
    """The pods and containers of a connected runtime that a `Target` selects.

    Attributes:
        cri: the connection.
        pods: the selected pods, the newest first.
    """

    def __init__(self, cri: CriClient, target: Target, selectors: Sequence[Selector] = ()) -> None:
        self.cri, self._target, self._selectors = cri, target, selectors
        self.refresh()

    def refresh(self) -> None:
        """Read the pods again, and the containers at their next use."""
        self._all_pods = list_pods(self.cri)
        self.pods = [pod for pod in self._all_pods if self.selects(pod)]
        for name in ("containers", "pod_by_id"):
            self.__dict__.pop(name, None)

    def selects(self, pod: Any) -> bool:
        """Whether the options select a pod: an entry of the runtime's list, or a status."""
        is_in_namespace = self._target.namespace in (None, pod.metadata.namespace)
        return is_in_namespace and all(selector.holds(pod.labels) for selector in self._selectors)

    @cached_property
    def containers(self) -> list[Any]:
        """The containers of the selected pods, the newest first."""
        containers = list_containers(self.cri)
        if self._target.namespace is None and not self._target.selector:
            return containers  # also those whose pod no longer exists
        return [container for container in containers if container.pod_sandbox_id in self.pod_by_id]

    @cached_property
    def pod_by_id(self) -> dict[str, Any]:
        """The selected pods by their ids."""
        return {pod.id: pod for pod in self.pods}

    def pod(self, word: str) -> Any:
        """The pod that a name refers to. Raises Failure like `find_pod`, with the namespace of a pod in another one."""
        try:
            return find_pod(word, self.pods)
        except Failure as error:
            if error.code != FAILED or len(self.pods) == len(self._all_pods):
                raise
        same_name = [full_name(pod) for pod in self._all_pods if word in (pod.id, pod.metadata.name, full_name(pod))]
        chosen = f"-n {self._target.namespace}" if self._target.namespace is not None else f"-l {self._target.selector}"
        hint = f", but there is {same_name[0]}" if same_name else ". try: nri pod ps -a"
        raise Failure(f'no pod "{word}" with {chosen}{hint}', FAILED)

    def ready_pod(self, word: str) -> Any:
        """The pod that a name refers to. Raises Failure as `pod`, or if it is not ready."""
        pod = self.pod(word)
        if state_name(pod) != "ready":
            raise Failure(f"pod {full_name(pod)} is not ready: it was stopped", FAILED)
        return pod

    def selected(self, words: Sequence[str]) -> list[Any]:
        """The pods that `words` refer to, each once; all selected pods without words."""
        return [*{pod.id: pod for pod in map(self.pod, words)}.values()] if words else self.pods

    def container(self, word: str, name: str = "") -> Any:
        """The container that a word refers to, or the container `name` of the pod that the word refers to.

        Raises Failure as `find_container`, or if the pod has no container of this name.
        """
        if not name:
            return find_container(word, self.containers, self.pod_by_id)
        pod = self.pod(word)
        by_name = {one.metadata.name: one for one in reversed(self.containers) if one.pod_sandbox_id == pod.id}
        if name not in by_name:
            names = ", ".join(sorted(by_name)) or "no containers"
            raise Failure(f'pod {full_name(pod)} has no container "{name}"; it has {names}', FAILED)
        return by_name[name]

    def running_container(self, word: str, name: str = "") -> Any:
        """The running container that a word refers to. Raises Failure as `container`, or if it does not run."""
        container = self.container(word, name)
        if state_name(container) != "running":
            raise Failure(f"container {name or word} is not running: it is {state_name(container)}", FAILED)
        return container


def to_document(message: Any, pod: Any = None) -> dict[str, Any]:
    """A message of the CRI as plain values, with all its fields; `pod` adds the key `pod`, the pod's full name."""
    from google.protobuf.json_format import MessageToDict

    document: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return document if pod is None else {"pod": full_name(pod), **document}


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
