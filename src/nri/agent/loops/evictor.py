"""Evict pods, through the apiserver, which respects disruption budgets, or through the runtime, immediately.

An eviction is requested without waiting for its end. The source of pods determines the evictor. Evictors are imported
on use, because they need packages that an agent with pods from files does not have.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

from nri.agent.pods import PodSource
from nri.agent.pods.manifest import key_of, uid_of
from nri.agent.pods.nri import NriPods
from nri.agent.settings.values import AgentSettings
from nri.errors import NriError, RpcError
from nri.ttrpc.codes import Code

_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
#: The time in seconds that a runtime waits before it kills a container.
_GRACE_S: Final = 0
#: This variable is set if the service account of a pod can be used.
_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"


class Evictor(Protocol):
    """An object that evicts pods."""

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Request the eviction of a pod; return "" if it was accepted, or else the reason."""
        ...


class NoEvictor:
    """An evictor that refuses every eviction."""

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Return the refusal."""
        return f"{key_of(pod)} is not evicted: this agent is connected to neither an apiserver nor a runtime ({reason})"


class ApiserverEvictor:
    """Evicts pods through the apiserver.

    Args:
        kubeconfig: the kubeconfig file; "" means the service account of the agent's pod.
    """

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._client: Any = None

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:  # noqa: ARG002  the log contains the reason
        """Request an eviction, which a disruption budget may forbid. The API has no field for the reason."""
        namespace, _, name = key_of(pod).partition("/")
        try:
            if self._client is None:
                self._client = importlib.import_module("nri.kube.client").connect(self._kubeconfig)
            self._client.evict(namespace, name, uid_of(pod))
        except NriError as error:
            return str(error)
        return ""


class CriEvictor:
    """Stops the containers of a pod through the runtime; the kubelet then sees that they have ended.

    Args:
        socket: the runtime's CRI socket.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:  # noqa: ARG002  the log contains the reason
        """Stop all containers of a pod immediately, and return the first error."""
        client = importlib.import_module("nri.cri.client")
        messages = importlib.import_module("nri.cri.pb.api_pb2")
        errors = []
        try:
            with client.CriClient(self._socket, option="--set pods.cri=PATH") as cri:
                for number in _containers(pod):
                    try:
                        cri.call("StopContainer", messages.StopContainerRequest(container_id=number, timeout=_GRACE_S))
                    except NriError as error:
                        errors.append(str(error))
        except NriError as error:
            return str(error)
        return errors[0] if errors else ""


class NriEvictor:
    """Evicts containers through NRI.

    Args:
        pods: the pods, which tell the runtime of a container.
        otherwise: the evictor to use if the runtime does not support evictions.
    """

    def __init__(self, pods: NriPods, otherwise: Evictor) -> None:
        self._pods, self._otherwise = pods, otherwise

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Ask the runtime to evict all containers of a pod, and return the first refusal."""
        errors = []
        for number in _containers(pod):
            try:
                self._pods.evict(number, reason)
            except RpcError as error:
                if error.code == Code.UNIMPLEMENTED:
                    return self._otherwise.evict(pod, reason)
                errors.append(str(error))
            except NriError as error:
                errors.append(str(error))
        return errors[0] if errors else ""


def _containers(pod: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of a pod's containers, without the prefix of the runtime."""
    status = pod.get("status") or {}
    numbers = [container.get("containerID") or "" for key in _STATUSES for container in status.get(key) or ()]
    return filter(None, (number.partition("://")[2] for number in numbers))


def evictor_of(settings: AgentSettings, pods: PodSource | None = None) -> Evictor:
    """Return the evictor that the settings imply. `pods` is the source of pods."""
    if isinstance(pods, NriPods):
        has_apiserver = settings.rules.source == "apiserver" or settings.rules.kubeconfig or os.environ.get(_IN_CLUSTER)
        return NriEvictor(
            pods, ApiserverEvictor(settings.rules.kubeconfig) if has_apiserver else CriEvictor(settings.cri_socket)
        )
    if settings.pods.source == "apiserver" or settings.rules.source == "apiserver":
        return ApiserverEvictor(settings.rules.kubeconfig)
    return CriEvictor(settings.cri_socket) if settings.pods.source == "cri" else NoEvictor()
