"""Placement plugins on real containers of our own engine, as programs: cpusets are read back from inside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.host import Root, read_topology
from nri.kube.requests import ANNOTATION
from tests.engine.node import Node
from tests.engine.test_bundled_plugins import bundled
from tests.engine.view import EngineView
from tests.support.needs import need
from tests.support.plugin_program import PluginProgram

TOPOLOGY = read_topology(Root("/"))
CPUS = sorted(TOPOLOGY.online)
MEMS = ",".join(str(number) for number, node in TOPOLOGY.nodes.items() if node.memory_bytes)
CONFIGS: dict[str, dict[str, Any]] = {
    "topology-aware": {"reservedResources": {"cpu": f"cpuset:{CPUS[0]}"}},
    "balloons": {
        "reservedResources": {"cpu": "1"},
        "balloonTypes": [{"name": "own", "namespaces": ["tests"], "preferNewBalloons": True, "maxCPUs": 1},
                         {"name": "default", "minBalloons": 0}],
    },
}  # fmt: skip


@contextmanager
def placing(node: Node, name: str) -> Iterator[PluginProgram]:
    """The plugin beside the engine, with its state in the node's folder."""
    need(len(CPUS) > 1, "two CPUs")
    config = node.folder / "placement.json"
    config.write_text(json.dumps({**CONFIGS[name], "stateDir": str(node.folder / "placement")}))
    with bundled(node, name, "-config", str(config)) as program:
        yield program


def pod(node: Node, name: str, cpu: str) -> str:
    """A Guaranteed pod whose container c asks for so much CPU."""
    config: pb.PodSandboxConfig = node.pod_config(name)
    asked = {"cpu": cpu, "memory": "16Mi"}
    config.annotations[ANNOTATION] = json.dumps({"containers": {"c": {"requests": asked, "limits": asked}}})
    return node.engine.pods.run(config, "")


def inside(node: Node, container: str) -> tuple[str, str]:
    """The CPUs and memory nodes of a container, as a process in it finds them."""
    found = {}
    for line in EngineView(node, container, Path()).exec("cat", "/proc/self/status").splitlines():
        key, _, value = line.partition(":")
        found[key] = value.strip()
    return found["Cpus_allowed_list"], found["Mems_allowed_list"]


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_cpu_of_one_s_own_is_kept_over_restarts_of_plugin_and_runtime(node: Node, name: str) -> None:
    with placing(node, name) as plugin:
        own_pod = pod(node, "own", "1")
        own = node.run(own_pod, "c")
        cpus, mems = inside(node, own)
        assert len(cpus) == 1 and int(cpus) in CPUS and mems == MEMS
        if name == "topology-aware":
            assert int(cpus) != CPUS[0], "the reserved CPU"
        second_pod = pod(node, "second", str(len(CPUS) - 1))
        with pytest.raises(NriError, match="no place for tests/second/c: "):
            node.run(second_pod, "c")
        os.kill(plugin.process.pid, 9)
        plugin.process.wait()
    with placing(node, name):
        assert inside(node, own) == (cpus, mems), "after the plugin was killed"
        with pytest.raises(NriError, match="no place for tests/second/c: "):
            node.run(second_pod, "c")
    node.restart()
    with placing(node, name):
        assert inside(node, own) == (cpus, mems), "after the runtime was started again"
        with pytest.raises(NriError, match="no place for tests/second/c: "):
            node.run(second_pod, "c")
        node.remove(own_pod)
        third_pod = pod(node, "third", "1")
        assert inside(node, node.run(third_pod, "c"))[0] == cpus, "its CPU is free again"
        node.remove(second_pod, third_pod)
