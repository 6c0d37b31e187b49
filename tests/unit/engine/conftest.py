"""A dry engine with a plugin in it that writes down what it is told: decisions, records and events without root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation import BuiltinPlugin
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.engine import Engine

EVENTS = (
    "run_pod_sandbox", "update_pod_sandbox", "post_update_pod_sandbox", "stop_pod_sandbox", "remove_pod_sandbox",
    "create_container", "post_create_container", "start_container", "post_start_container", "update_container",
    "post_update_container", "stop_container", "remove_container",
)  # fmt: skip


class Told:
    """A plugin inside the engine: event and name of each call; `on` has what it does at an event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.on: dict[str, Callable[..., Any]] = {}
        self.known: list[tuple[list[str], list[str]]] = []
        for event in EVENTS:
            setattr(self, event, self._handler(event))

    def _handler(self, event: str) -> Callable[..., Any]:
        def take(pod: Any, *more: Any) -> Any:
            self.events.append((event, more[0].name if more and hasattr(more[0], "name") else pod.name))
            return self.on[event](pod, *more) if event in self.on else None

        return take

    def synchronize(self, pods: Any, containers: Any) -> None:
        self.known.append(([pod.name for pod in pods], [container.name for container in containers]))

    def of(self, name: str) -> list[str]:
        return [event for event, whose in self.events if whose == name]


class Dry:
    """A dry engine, its plugin, and short forms of calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        nri = NriConfig(
            disable_connections=True, plugin_path=str(folder / "plugins"), policy_path="", admin_socket=""
        )  # fmt: skip
        self.config = EngineConfig(dry=True, socket=folder / "s", root=folder / "root", state=folder / "state", nri=nri)
        self.told = Told()
        self.engine = self._start()

    def _start(self) -> Engine:
        engine = Engine(self.config, builtin=[BuiltinPlugin("10", "told", self.told)])
        engine.start()
        return engine

    def restart(self, **changes: Any) -> Engine:
        self.engine.stop()
        self.config = replace(self.config, **changes)
        self.engine = self._start()
        return self.engine

    def pod_config(self, name: str = "pod") -> pb.PodSandboxConfig:
        metadata = pb.PodSandboxMetadata(name=name, namespace="n", uid=f"u-{name}")
        return pb.PodSandboxConfig(metadata=metadata, log_directory=str(self.folder / "logs"))

    def pod(self, name: str = "pod") -> str:
        return self.engine.pod_creation.run(self.pod_config(name))

    def container_config(self, name: str = "c", **more: Any) -> pb.ContainerConfig:
        metadata = pb.ContainerMetadata(name=name)
        return pb.ContainerConfig(metadata=metadata, image=pb.ImageSpec(image="busybox"), command=["sh"], **more)

    def create(self, pod: str, name: str = "c", **more: Any) -> str:
        return self.engine.container_creation.create(pod, self.container_config(name, **more))

    def run(self, pod: str, name: str = "c", **more: Any) -> str:
        container_id = self.create(pod, name, **more)
        self.engine.container_start.start(container_id)
        return container_id


@pytest.fixture
def dry(tmp_path: Path) -> Iterator[Dry]:
    dry_ = Dry(tmp_path)
    try:
        yield dry_
    finally:
        dry_.engine.stop()
