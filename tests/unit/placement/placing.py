"""A machine, a plugin on it, and pods as a kubelet makes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nri.api import messages as m
from nri.placement.plugin import PlacementPlugin
from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.testing import FakeRuntime, make_container, make_pod
from nri.testing.replies import CreateReply, StopReply
from tests.support.placement import guest, write_machine


def config(folder: Path, **options: Any) -> str:
    """The configuration of a plugin on the machine in this folder, which is made: two packages of two nodes."""
    if not (folder / "sys").exists():
        write_machine(folder, guest())
    options = {"reservedResources": {"cpu": "cpuset:0"}, **options}
    return json.dumps({"hostRoot": str(folder), "stateDir": str(folder / "state"), **options})


def pod(name: str, qos: str = "", **annotations: str) -> m.PodSandbox:
    """A pod of a class; annotations without their domain, `_` for `-`."""
    values = {f"{key.replace('_', '-')}.resource-policy.nri.io": value for key, value in annotations.items()}
    parent = f"/kubepods/{qos}/pod{name}" if qos else f"/kubepods/pod{name}"
    return make_pod(name, uid=name, annotations=values, linux=m.LinuxPodSandbox(cgroup_parent=parent))


def ask(name: str, cpu_m: int, **fields: Any) -> m.Container:
    """A container that requests so many thousandths of a CPU; with `limit_m` limited."""
    limit = fields.pop("limit_m", 0)
    more = {"cpu_quota": limit * 100, "cpu_period": 100000} if limit else {}
    return make_container(name, cpu_shares=max(2, cpu_m * 1024 // 1000), **more, **fields)


def started(runtime: FakeRuntime, folder: Path, plugin: PlacementPlugin | None = None, **options: Any) -> Any:
    """A plugin that takes part."""
    plugin = plugin or TopologyAwarePlugin()
    runtime.add(plugin, idx="90", config=config(folder, **options))
    return plugin


def create(runtime: FakeRuntime, of: m.PodSandbox, container: m.Container) -> CreateReply:
    """Create a container, and give all others what the answer has for them, as a runtime does."""
    reply = runtime.create_container(of, container)
    _apply(runtime, reply)
    runtime.containers[container.id].state = m.ContainerState.CONTAINER_RUNNING
    return reply


def stop(runtime: FakeRuntime, container: m.Container) -> None:
    """Stop a container, likewise; it is gone then."""
    _apply(runtime, runtime.stop_container(runtime.pods[container.pod_sandbox_id], container))
    del runtime.containers[container.id]


def _apply(runtime: FakeRuntime, reply: StopReply) -> None:
    for name, update in reply.updates.items():
        runtime.containers[name].linux.resources.MergeFrom(update.message.linux.resources)


def cpus(runtime: FakeRuntime) -> dict[str, str]:
    """The CPUs of every container, by its name, as the runtime has them."""
    return {container.name: container.linux.resources.cpu.cpus for container in runtime.containers.values()}
