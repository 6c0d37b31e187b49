"""Evictors of pods: through the apiserver, which respects disruption budgets, or through the runtime, immediately.

An eviction is requested, not waited for. Its evictor follows from the source of pods. Evictors are imported on use,
because they need packages that an agent with pods from files does without.
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

__all__ = ["ApiserverEvictor", "CriEvictor", "Evictor", "NoEvictor", "NriEvictor", "evictor_of"]

_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_GRACE_S: Final = 0
#: Set where the service account of a pod reaches the apiserver.
_IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"


class Evictor(Protocol):
    """Evicts pods."""

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Request the eviction of a pod; return "" if it was accepted, else the reason."""
        ...


class NoEvictor:
    """Refuses every eviction."""

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Refuse."""
        return f"{key_of(pod)} stays: this agent knows neither apiserver nor runtime ({reason})"


class ApiserverEvictor:
    """Evicts by the apiserver.

    Args:
        kubeconfig: how to reach it; "" as a pod does.
    """

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._client: Any = None

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:  # noqa: ARG002  the log has it
        """Ask for an eviction, for which the API has no reason to give; a disruption budget may forbid it."""
        namespace, _, name = key_of(pod).partition("/")
        try:
            if self._client is None:
                self._client = importlib.import_module("nri.kube.client").connect(self._kubeconfig)
            self._client.evict(namespace, name, uid_of(pod))
        except NriError as error:
            return str(error)
        return ""


class CriEvictor:
    """Stops the containers of a pod by the runtime; the manager of the pod sees them end.

    Args:
        socket: the runtime's CRI socket.
    """

    def __init__(self, socket: str) -> None:
        self._socket = socket

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:  # noqa: ARG002  the log has it
        """Stop all containers at once; the first that cannot be stopped is the reason."""
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
    """Evicts containers by the runtime's NRI.

    Args:
        pods: know which runtime has a container.
        otherwise: who evicts where the runtime does nothing for an eviction.
    """

    def __init__(self, pods: NriPods, otherwise: Evictor) -> None:
        self._pods, self._otherwise = pods, otherwise

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Ask the runtime to evict all containers of a pod; the first refusal is the reason."""
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
    """The ids of a pod's containers, without their runtime."""
    status = pod.get("status") or {}
    numbers = [container.get("containerID") or "" for key in _STATUSES for container in status.get(key) or ()]
    return filter(None, (number.partition("://")[2] for number in numbers))


def evictor_of(settings: AgentSettings, pods: PodSource | None = None) -> Evictor:
    """The evictor that the settings make possible; `pods` is the source of pods."""
    if isinstance(pods, NriPods):
        has_apiserver = settings.rules.source == "apiserver" or settings.rules.kubeconfig or os.environ.get(_IN_CLUSTER)
        return NriEvictor(
            pods, ApiserverEvictor(settings.rules.kubeconfig) if has_apiserver else CriEvictor(settings.cri_socket)
        )
    if settings.pods.source == "apiserver" or settings.rules.source == "apiserver":
        return ApiserverEvictor(settings.rules.kubeconfig)
    return CriEvictor(settings.cri_socket) if settings.pods.source == "cri" else NoEvictor()
