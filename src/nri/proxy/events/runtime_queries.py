"""Query the runtime about a pod or container.

Verbose answers of containerd, CRI-O and our engine contain the configuration and the OCI spec; otherwise only the
status is used. Answers are untrusted: every type is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from google.protobuf import json_format
from google.protobuf.message import Message

from nri.cri.pb import api_pb2 as pb
from nri.cri.verbose import parse_info
from nri.proxy.passing import Backend

M = TypeVar("M", bound=Message)


class PodFacts(NamedTuple):
    """The runtime's information about a pod. `config` may be derived from the status; `spec` may be empty."""

    status: pb.PodSandboxStatus
    config: pb.PodSandboxConfig
    spec: dict[str, Any]
    pid: int


class ContainerFacts(NamedTuple):
    """The runtime's information about a container. `config` may be derived from the status; `spec` may be empty."""

    status: pb.ContainerStatus
    config: pb.ContainerConfig
    spec: dict[str, Any]
    pid: int
    pod_id: str


class RuntimeQueries:
    """Queries to the runtime, with the default timeout or `timeout_s`. They raise RpcError or RuntimeUnavailable."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def lists(self) -> tuple[list[pb.PodSandbox], list[pb.Container]]:
        """All pods and containers."""
        pods = self._backend.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
        containers = self._backend.call("ListContainers", pb.ListContainersRequest()).containers
        return list(pods), list(containers)

    def pod(self, pod_id: str, timeout_s: float | None = None) -> PodFacts:
        """Query a pod."""
        request = pb.PodSandboxStatusRequest(pod_sandbox_id=pod_id, verbose=True)
        answer = self._backend.call("PodSandboxStatus", request, timeout_s)
        status, info = answer.status, parse_info(answer.info)
        config = _message(info.get("config"), pb.PodSandboxConfig())
        if not config.metadata.name:
            config = pb.PodSandboxConfig(metadata=status.metadata, labels=status.labels, annotations=status.annotations)
            if path := info.get("cgroupPath"):
                config.linux.cgroup_parent = str(path)
        spec = _table(info.get("runtimeSpec"))
        if not spec and isinstance(info.get("namespaces"), Mapping):  # our engine's pods do not have a spec
            named = [{"type": str(kind), "path": str(path)} for kind, path in info["namespaces"].items()]
            spec = {"linux": {"namespaces": named, "cgroupsPath": str(info.get("cgroupPath") or "")}}
        return PodFacts(status, config, spec, _number(info.get("pid")))

    def container(self, runtime_id: str, timeout_s: float | None = None) -> ContainerFacts:
        """Query a container."""
        request = pb.ContainerStatusRequest(container_id=runtime_id, verbose=True)
        answer = self._backend.call("ContainerStatus", request, timeout_s)
        status, info = answer.status, parse_info(answer.info)
        config = _message(info.get("config"), pb.ContainerConfig())
        if not config.metadata.name:
            config = pb.ContainerConfig(
                metadata=status.metadata,
                image=status.image,
                mounts=status.mounts,
                labels=status.labels,
                annotations=status.annotations,
            )
            config.linux.resources.CopyFrom(status.resources.linux)
        pod_id = str(info.get("sandboxID") or "")
        return ContainerFacts(status, config, _table(info.get("runtimeSpec")), _number(info.get("pid")), pod_id)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else 0


def _message(value: Any, empty: M) -> M:
    """Parse a message from JSON with names of Go's or protobuf's JSON. Returns `empty` if this fails."""
    if isinstance(value, dict):
        message = type(empty)()
        try:
            return json_format.ParseDict(value, message, ignore_unknown_fields=True)
        except (json_format.ParseError, ValueError, TypeError):
            pass
    return empty
