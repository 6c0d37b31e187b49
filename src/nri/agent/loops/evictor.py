"""Evictors: who makes a pod go. By the apiserver, which asks disruption budgets; else by the runtime, at once.

Rules: an eviction is asked for, not waited for; what is in its way comes back as the reason. Which one there is,
the source of pods decides: who knows the apiserver evicts by it; whose pods come from NRI asks there, and one of the
others where the runtime does nothing for that. Both are loaded only then, because they need packages that an agent of
files does without. Next: :mod:`nri.agent.loops.timer`.
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
    """Makes pods go."""

    def evict(self, pod: Mapping[str, Any], reason: str) -> str:
        """Ask for a pod to go; return "" if that is under way, else why not."""
        ...


class NoEvictor:
    """Evicts no pod, and says so."""

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
        """Ask the runtime for all containers of a pod; the first that cannot go is the reason."""
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
    numbers = [each.get("containerID") or "" for key in _STATUSES for each in status.get(key) or ()]
    return filter(None, (each.partition("://")[2] for each in numbers))


def evictor_of(settings: AgentSettings, pods: PodSource | None = None) -> Evictor:
    """The evictor that the settings make possible; `pods` is the source of pods."""
    if isinstance(pods, NriPods):
        known = settings.rules.source == "apiserver" or settings.rules.kubeconfig or os.environ.get(_IN_CLUSTER)
        return NriEvictor(
            pods, ApiserverEvictor(settings.rules.kubeconfig) if known else CriEvictor(settings.cri_socket)
        )
    if settings.pods.source == "apiserver" or settings.rules.source == "apiserver":
        return ApiserverEvictor(settings.rules.kubeconfig)
    return CriEvictor(settings.cri_socket) if settings.pods.source == "cri" else NoEvictor()
