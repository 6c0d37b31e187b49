"""A client of the container runtime interface for tests and the demo.

It has a generic `call` and short forms of frequent calls. Pods use the node's network by default. Every call has a
deadline.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from nri.cri.pb import api_pb2 as pb
from tools.runtimes.images import BUSYBOX, FOREVER
from tools.runtimes.machine import PATIENCE

CALL_TIMEOUT_S = 60.0 * PATIENCE
EXEC_TIMEOUT_S = int(30 * PATIENCE)
#: How long a pod that does not stop is asked to.
STOP_TRIES_S = 10.0 * PATIENCE
_SERVICE = pb.DESCRIPTOR.services_by_name["RuntimeService"]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod sandbox that runs, with the configuration that made it (the CRI wants both)."""

    id: str
    config: pb.PodSandboxConfig


class Cri:
    """A connection to a CRI socket. `cgroup_parent` is the cgroup of all pods made here."""

    def __init__(self, socket: Path, cgroup_parent: str) -> None:
        # A proxy in the environment must not get in the way of a unix socket.
        self._channel = grpc.insecure_channel(f"unix://{socket}", options=[("grpc.enable_http_proxy", 0)])
        self._cgroup_parent = cgroup_parent
        self._log_dir = socket.parent / "logs"

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def call(self, method: str, request: Message, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Call a method of the RuntimeService; raises `grpc.RpcError`."""
        reply = GetMessageClass(_SERVICE.methods_by_name[method].output_type)
        invoke = self._channel.unary_unary(
            f"/{_SERVICE.full_name}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString,
        )
        return invoke(request, timeout=timeout_s)

    def answers(self) -> bool:
        """Whether the runtime serves the CRI by now. (It answers Version before it is ready.)"""
        try:
            self.call("Status", pb.StatusRequest(), timeout_s=0.5 * PATIENCE)
        except grpc.RpcError:
            return False
        return True

    def version(self) -> str:
        """The runtime's name and version."""
        reply = self.call("Version", pb.VersionRequest())
        return f"{reply.runtime_name} {reply.runtime_version}"

    def run_pod(
        self,
        name: str,
        *,
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        own_network: bool = False,
        shared_processes: bool = False,
        handler: str = "",
        under: str = "",
    ) -> Pod:
        """Create and start a pod sandbox in the namespace `default`; `handler` names an OCI runtime.

        `under` is a folder of its cgroup's parent, from which plugins read the class of service.
        """
        network = pb.POD if own_network else pb.NODE
        pid = pb.POD if shared_processes else pb.CONTAINER
        namespaces = pb.NamespaceOption(network=network, pid=pid, ipc=pb.POD)
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, uid=str(uuid.uuid4()), namespace="default"),
            hostname=name if own_network else "",
            log_directory=str(self._log_dir),
            labels=labels or {},
            annotations=annotations or {},
            linux=pb.LinuxPodSandboxConfig(
                cgroup_parent=f"/{self._cgroup_parent}/{under}".rstrip("/"),
                security_context=pb.LinuxSandboxSecurityContext(namespace_options=namespaces),
            ),
        )
        reply = self.call("RunPodSandbox", pb.RunPodSandboxRequest(config=config, runtime_handler=handler))
        return Pod(reply.pod_sandbox_id, config)

    def create(
        self,
        pod: Pod,
        name: str,
        command: Sequence[str] = FOREVER,
        *,
        env: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **resources: Any,
    ) -> str:
        """Create a container from the busybox image; returns its id. `resources` as in the CRI."""
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=BUSYBOX, user_specified_image=BUSYBOX),
            command=command,
            envs=[pb.KeyValue(key=key, value=value.encode()) for key, value in (env or {}).items()],
            annotations=annotations or {},
            log_path=f"{pod.id}-{name}.log",
            linux=pb.LinuxContainerConfig(
                resources=pb.LinuxContainerResources(**resources),
                security_context=pb.LinuxContainerSecurityContext(
                    namespace_options=pod.config.linux.security_context.namespace_options
                ),
            ),
        )
        request = pb.CreateContainerRequest(pod_sandbox_id=pod.id, config=config, sandbox_config=pod.config)
        container_id: str = self.call("CreateContainer", request).container_id
        return container_id

    def start(self, container_id: str) -> None:
        """Start a created container."""
        self.call("StartContainer", pb.StartContainerRequest(container_id=container_id))

    def run(self, pod: Pod, name: str, command: Sequence[str] = FOREVER, **options: Any) -> str:
        """Create and start a container; returns its id."""
        container_id = self.create(pod, name, command, **options)
        self.start(container_id)
        return container_id

    def exec(self, container_id: str, *command: str) -> str:
        """Run a command inside a container and return what it prints."""
        request = pb.ExecSyncRequest(container_id=container_id, cmd=command, timeout=EXEC_TIMEOUT_S)
        reply = self.call("ExecSync", request)
        if reply.exit_code != 0:
            error = reply.stderr.decode(errors="replace").strip()
            raise RuntimeError(f"{' '.join(command)} in the container: exit code {reply.exit_code}: {error}")
        output: str = reply.stdout.decode(errors="replace")
        return output

    def update(self, container_id: str, **resources: Any) -> None:
        """Change a container's resources, named as in the CRI."""
        request = pb.UpdateContainerResourcesRequest(
            container_id=container_id, linux=pb.LinuxContainerResources(**resources)
        )
        self.call("UpdateContainerResources", request)

    def info(self, container_id: str) -> dict[str, Any]:
        """The runtime's own view of a container: `pid`, `runtimeSpec` (the OCI spec) and more."""
        request = pb.ContainerStatusRequest(container_id=container_id, verbose=True)
        info: dict[str, Any] = json.loads(self.call("ContainerStatus", request).info["info"])
        return info

    def stop(self, container_id: str) -> None:
        """Kill a container at once."""
        self.call("StopContainer", pb.StopContainerRequest(container_id=container_id, timeout=0))

    def remove(self, container_id: str) -> None:
        """Remove a stopped container."""
        self.call("RemoveContainer", pb.RemoveContainerRequest(container_id=container_id))

    def wait_exited(self, container_id: str, timeout_s: float = CALL_TIMEOUT_S) -> None:
        """Wait until the runtime has noticed that a container's process has ended. TimeoutError if it does not."""
        until = time.monotonic() + timeout_s
        request = pb.ContainerStatusRequest(container_id=container_id)
        while self.call("ContainerStatus", request).status.state != pb.CONTAINER_EXITED:
            if time.monotonic() > until:
                raise TimeoutError(f"container {container_id} has not exited within {timeout_s:g} s")
            time.sleep(0.02)

    def stop_pod(self, pod_id: str) -> None:
        """Stop a pod sandbox with all its containers.

        As the kubelet does, it tries again: containerd fails to stop a container that is just ending by itself.
        """
        until = time.monotonic() + STOP_TRIES_S
        while True:
            try:
                self.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod_id))
                return
            except grpc.RpcError as error:
                if time.monotonic() > until or error.code() is not grpc.StatusCode.UNKNOWN:
                    raise
                time.sleep(0.5)

    def remove_pod(self, pod_id: str) -> None:
        """Stop and remove a pod sandbox with all its containers."""
        self.stop_pod(pod_id)
        self.call("RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=pod_id))

    def remove_all(self) -> None:
        """Remove every pod."""
        for pod in self.call("ListPodSandbox", pb.ListPodSandboxRequest()).items:
            self.remove_pod(pod.id)
