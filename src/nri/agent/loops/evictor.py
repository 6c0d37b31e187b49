"""Evictors: who makes a pod go. By the apiserver, which asks disruption budgets; else by the runtime, at once.

Rules: an eviction is asked for, not waited for; what stands in its way comes back as the reason. Which one there is,
the source of pods decides: who knows the apiserver evicts by it. Both are loaded only then, because they need packages
that an agent of files does without. Next: :mod:`nri.agent.loops.timer`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, Protocol

from nri.agent.pods.running import key_of, uid_of
from nri.agent.settings.values import AgentSettings
from nri.errors import NriError

__all__ = ["ApiserverEvictor", "CriEvictor", "Evictor", "NoEvictor", "evictor_of"]

_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_GRACE_S: Final = 0


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
        status, errors = pod.get("status") or {}, []
        numbers = [each.get("containerID") or "" for key in _STATUSES for each in status.get(key) or ()]
        try:
            with client.CriClient(self._socket, option="--set pods.cri=PATH") as cri:
                for number in filter(None, (each.partition("://")[2] for each in numbers)):
                    try:
                        cri.call("StopContainer", messages.StopContainerRequest(container_id=number, timeout=_GRACE_S))
                    except NriError as error:
                        errors.append(str(error))
        except NriError as error:
            return str(error)
        return errors[0] if errors else ""


def evictor_of(settings: AgentSettings) -> Evictor:
    """The evictor that the settings make possible."""
    if settings.pods.source == "apiserver" or settings.rules.source == "apiserver":
        return ApiserverEvictor(settings.rules.kubeconfig)
    return CriEvictor(settings.cri_socket) if settings.pods.source == "cri" else NoEvictor()
