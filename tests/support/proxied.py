"""A proxy in front of a dry engine without NRI, in this process, with plugins connected to it: no root, no programs.

One job: :class:`Proxied`, for tests of what plugins are told and what reaches the runtime.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.daemon import Daemon
from nri.proxy import PluginSettings, Proxy, ProxySettings
from nri.testing.plugin_connection import Attached
from tests.support.cri_client import CriClient

WAIT_S = 20.0


class Proxied:
    """A runtime (`engine`), a proxy before it, a client of the proxy (`cri`) and one of the runtime (`direct`)."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._plugins: list[Attached] = []
        self.engine: Daemon | None = None
        self.proxy: Proxy | None = None
        nri_settings = PluginSettings(
            socket_path=str(folder / "nri.sock"),
            plugin_path=str(folder / "plugins"),
            plugin_config_path=str(folder / "conf.d"),
            policy_path=str(folder / "policy.toml"),
            admin_socket="",
        )
        self.settings = ProxySettings(
            listen=str(folder / "p" / "proxy.sock"),
            runtime_endpoint=str(folder / "r" / "cri.sock"),
            state=folder / "kept",
            nri=nri_settings,
            **settings,
        )

    def start_runtime(self) -> Daemon:
        """A new life of the engine."""
        self.make_runtime().start()
        assert self.engine is not None
        return self.engine

    def make_runtime(self) -> Daemon:
        """A new life of the engine, which is still to be started."""
        config = EngineConfig(
            dry=True,
            socket=self.folder / "r" / "cri.sock",
            root=self.folder / "root",
            state=self.folder / "state",
            nri=NriConfig(disable=True),
        )
        config = replace(config, streaming=replace(config.streaming, address="127.0.0.1"))
        self.engine = Daemon(config)
        return self.engine

    def stop_runtime(self) -> None:
        if self.engine is not None:
            self.engine.stop()
            self.engine = None

    def start(self, **more: Any) -> Proxy:
        """A new life of the proxy."""
        self.proxy = Proxy(self.settings, **more)
        self.proxy.start()
        return self.proxy

    def stop(self) -> None:
        for plugin in self._plugins:
            plugin.stop()
        self._plugins = []
        if self.proxy is not None:
            self.proxy.stop()
            self.proxy = None

    def attach(self, plugin: nri.Plugin, index: str = "10", name: str = "test") -> Any:
        """Connect a plugin to the proxy, and wait until it takes part."""
        attached = Attached(plugin, index, name, "")
        self._plugins.append(attached)
        assert self.proxy is not None
        attached.connect(self.proxy.adaptation)
        attached.wait(self.proxy.adaptation)
        return plugin

    # --- the kubelet's calls ---

    def client(self, path: str) -> CriClient:
        return self._stack.enter_context(CriClient(Path(path)))

    def close_clients(self) -> None:
        """End the connections of all clients so far."""
        self._stack.pop_all().close()

    @property
    def cri(self) -> CriClient:
        """A client of the proxy."""
        return self.client(self.settings.listen)

    @property
    def direct(self) -> CriClient:
        """A client of the runtime, around the proxy."""
        return self.client(self.settings.runtime_endpoint)

    def pod_config(self, name: str = "pod", **more: Any) -> pb.PodSandboxConfig:
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, namespace="tests", uid=str(uuid.uuid4())),
            log_directory=str(self.folder / "logs" / name),
            **more,
        )
        config.linux.cgroup_parent = f"/kubepods/{name}"
        config.linux.security_context.namespace_options.network = pb.NODE
        return config

    def run_pod(self, config: pb.PodSandboxConfig | None = None, cri: CriClient | None = None) -> str:
        answer = (cri or self.cri).call("RunPodSandbox", config=config or self.pod_config())
        return str(answer.pod_sandbox_id)

    def create(self, pod_id: str, name: str = "c", cri: CriClient | None = None, **more: Any) -> str:
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image="img"),
            command=more.pop("command", ["sleep", "1000"]),
            log_path=f"{name}.log",
            **more,
        )
        answer = (cri or self.cri).call("CreateContainer", pod_sandbox_id=pod_id, config=config)
        return str(answer.container_id)

    def run(self, pod_id: str, name: str = "c", **more: Any) -> str:
        reply = self.create(pod_id, name, **more)
        self.cri.call("StartContainer", container_id=reply)
        return reply

    def spec(self, container_id: str) -> dict[str, Any]:
        """The OCI spec that the runtime has made."""
        assert self.engine is not None
        results: dict[str, Any] = self.engine.engine.inventory.container(container_id).spec
        return results

    def close(self) -> None:
        self.stop()
        self.stop_runtime()
        self._stack.close()
