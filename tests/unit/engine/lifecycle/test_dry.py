"""A dry engine has the same calls, records, specs and plugins, and changes nothing on the machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.adaptation import BuiltinPlugin
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig, NriConfig
from nri.engine.engine import Engine
from nri.engine.lifecycle.dry import DryMachinery
from nri.engine.state import ContainerState, PodState


class Plugin:
    """Records its events, and adds a variable."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def run_pod_sandbox(self, pod) -> None:
        self.events.append(f"run {pod.name}")

    def create_container(self, pod, container):
        import nri

        self.events.append(f"create {container.name}")
        return nri.Adjustment().add_env("POD", pod.name)

    def stop_container(self, pod, container) -> None:
        self.events.append(f"stop {container.name}")


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
def engine(tmp_path: Path, plugin: Plugin) -> Engine:
    nri = NriConfig(disable_connections=True, plugin_path=str(tmp_path / "plugins"), admin_socket="", policy_path="")
    config = EngineConfig(dry=True, socket=tmp_path / "s", root=tmp_path / "root", state=tmp_path / "state", nri=nri)
    with Engine(config, builtin=[BuiltinPlugin("10", "p", plugin)]) as engine_:
        yield engine_


def make(engine: Engine, command: tuple[str, ...] = ("sh",)) -> tuple[str, str]:
    pod_config = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="web", uid="u", namespace="n"), hostname="web")
    pod = engine.pod_creation.run(pod_config, "")
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="busybox"), command=command
    )
    config.linux.resources.memory_limit_in_bytes = 64 << 20
    return pod, engine.container_creation.create(pod, config)


def spec_of(engine: Engine, container: str) -> dict:
    return json.loads((Path(engine.inventory.container(container).record.bundle) / "config.json").read_bytes())


def test_plugins_receive_the_events_of_a_dry_pod(engine: Engine, plugin: Plugin) -> None:
    pod, container = make(engine)
    engine.container_start.start(container)
    assert engine.inventory.container(container).record.state is ContainerState.RUNNING
    assert "POD=web" in spec_of(engine, container)["process"]["env"]
    assert engine.running_containers.exec_sync(container, ["true"]).code == 0
    engine.container_removal.stop(container, 1)
    assert engine.inventory.container(container).record.exit_code == 128 + 15
    engine.pod_removal.stop(pod)
    assert engine.inventory.pod(pod).record.state is PodState.STOPPED
    engine.pod_removal.remove(pod)
    assert plugin.events == ["run web", "create app", "stop app"]
    assert not engine.inventory.pods()


def test_an_update_is_written_into_the_spec(engine: Engine) -> None:
    _, container = make(engine)
    engine.resource_updates.update_container(container, pb.LinuxContainerResources(memory_limit_in_bytes=32 << 20))
    assert spec_of(engine, container)["linux"]["resources"]["memory"]["limit"] == 32 << 20


def test_the_machine_is_not_changed(engine: Engine, tmp_path: Path) -> None:
    make(engine)
    assert isinstance(engine.machinery, DryMachinery)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_every_image_name_exists(engine: Engine) -> None:
    assert engine.images.pull("docker.io/library/x:1").id == engine.images.get("docker.io/library/x:1").id
    assert not engine.images.list()


def test_a_container_without_a_command_gets_a_placeholder(engine: Engine) -> None:
    _, container = make(engine, command=())
    engine.container_start.start(container)
    assert spec_of(engine, container)["process"]["args"] == ["(the command of the image)"]
