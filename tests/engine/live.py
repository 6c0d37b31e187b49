"""An engine that is served over its socket, with a busybox image and a bridge of its own, for tests of calls.

One job: :class:`Live`. All that it puts onto the machine carries the machine's name, so that `Machine.close`
finds what a test leaves behind.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import CgroupConfig, ContainerConfig, EngineConfig, NetworkConfig, NriConfig, OciRuntime
from nri.engine.daemon import Daemon
from tests.engine.machine import Machine
from tests.engine.registry import busybox
from tests.support.cri_client import CriClient
from tests.support.needs import need, need_tool

IMAGE = "localhost/nri/busybox:1"
FOREVER = ("sleep", "1000000")
PLUGINS = Path("/usr/lib/cni")


class Live:
    """One life of an engine. `changes` are fields of its configuration."""

    def __init__(self, machine: Machine, **changes: Any) -> None:
        for tool in ("conmon", "skopeo", "umoci", "runc", "crun"):
            need_tool(tool)
        need((PLUGINS / "bridge").exists(), "the CNI plugins (containernetworking-plugins)")
        self.machine = machine
        self.bridge = "nrie" + machine.name[-8:]
        self.logs = machine.folder / "logs"
        self.config = replace(self._config(), **changes)
        self._forward = Path("/proc/sys/net/ipv4/ip_forward").read_text()

    def _config(self) -> EngineConfig:
        folder = self.machine.folder
        crun = self.machine.runtime("crun").binary  # a wrapper, where crun does not run as it is
        return EngineConfig(
            socket=folder / "cri.sock",
            root=folder / "root",
            state=folder / "state",
            runtimes={"runc": OciRuntime("runc"), "crun": OciRuntime(crun)},
            cgroups=CgroupConfig(parent=f"/{self.machine.name}"),
            network=NetworkConfig(config_dir=folder / "cni", plugin_dirs=(PLUGINS,)),
            containers=ContainerConfig(seccomp_root=folder),
            nri=NriConfig(disable=True),
        )

    def __enter__(self) -> Self:
        self._write_network()
        self.daemon = Daemon(self.config)
        self.engine = self.daemon.engine
        if not self.engine.images.list():
            self.engine.images.load(busybox(self.machine.folder), IMAGE)
        self.daemon.start()
        self.cri = CriClient(self.config.socket)
        return self

    def __exit__(self, *_: object) -> None:
        self.remove_all()
        self.cri.close()
        self.daemon.stop()
        if Path("/sys/class/net", self.bridge).exists():
            subprocess.run([need_tool("ip"), "link", "delete", self.bridge], check=True, timeout=20)
        Path("/proc/sys/net/ipv4/ip_forward").write_text(self._forward)  # the bridge plugin turns it on

    def _write_network(self) -> None:
        folder = self.config.network.config_dir
        folder.mkdir(exist_ok=True)
        bridge = {
            "type": "bridge", "bridge": self.bridge, "isGateway": True, "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.231.78.0/24"}]],
                     "routes": [{"dst": "0.0.0.0/0"}], "dataDir": str(folder / "ipam")},
        }  # fmt: skip
        text = json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]})
        (folder / "10-net.conflist").write_text(text)

    # --- short forms of calls ---

    def pod_config(self, name: str, *, network: int = pb.NODE, **more: Any) -> pb.PodSandboxConfig:
        """A pod on the node's network unless another one is asked for."""
        options = pb.NamespaceOption(network=network, pid=pb.CONTAINER)  # type: ignore[arg-type]
        security = pb.LinuxSandboxSecurityContext(namespace_options=options)
        return pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, uid=str(uuid.uuid4()), namespace="tests"),
            log_directory=str(self.logs / name),
            linux=pb.LinuxPodSandboxConfig(security_context=security),
            **more,
        )

    def pod(self, name: str, handler: str = "", **more: Any) -> str:
        """A pod that runs; its id."""
        config = self.pod_config(name, **more)
        pod_sandbox_id: str = self.cri.call("RunPodSandbox", config=config, runtime_handler=handler).pod_sandbox_id
        return pod_sandbox_id

    def container_config(self, name: str, command: Sequence[str] = FOREVER, **more: Any) -> pb.ContainerConfig:
        return pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=IMAGE),
            command=command,
            log_path=f"{name}.log",
            **more,
        )

    def create(self, pod_id: str, name: str, command: Sequence[str] = FOREVER, **more: Any) -> str:
        """A container that is made; its id."""
        config = self.container_config(name, command, **more)
        return str(self.cri.call("CreateContainer", pod_sandbox_id=pod_id, config=config).container_id)

    def run(self, pod_id: str, name: str, command: Sequence[str] = FOREVER, **more: Any) -> str:
        """A container that runs; its id."""
        container_id = self.create(pod_id, name, command, **more)
        self.cri.call("StartContainer", container_id=container_id)
        return container_id

    def status(self, container_id: str) -> pb.ContainerStatus:
        container_status: pb.ContainerStatus = self.cri.call("ContainerStatus", container_id=container_id).status
        return container_status

    def wait_exited(self, container_id: str) -> pb.ContainerStatus:
        self.machine.wait_for(lambda: self.status(container_id).state == pb.CONTAINER_EXITED, "its end")
        return self.status(container_id)

    def remove_all(self) -> None:
        for pod in self.cri.call("ListPodSandbox").items:
            self.cri.call("RemovePodSandbox", pod_sandbox_id=pod.id)
