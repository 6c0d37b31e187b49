"""Placement plugins on real containers of our own engine, as programs: cpusets are read back from inside."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.kube.requests import ANNOTATION
from tests.engine.node import Node
from tests.engine.test_bundled_plugins import bundled
from tests.engine.view import EngineView
from tests.real.placing import (
    ALL,
    CONFIGS,
    CPUS,
    Sets,
    assert_found_as_decided,
    assert_kills_move_nothing,
    placing,
    sets_of,
)
from tests.support.needs import need, need_root, need_tool
from tests.support.plugin_program import PluginProgram
from tests.support.waiting import wait_for
from tools.runtimes.engine import PACKAGES, Engine
from tools.runtimes.machine import PATIENCE

#: On demand 100.
PODS = int(os.environ.get("NRI_PODS", "12"))


@contextmanager
def beside(node: Node, name: str) -> Iterator[PluginProgram]:
    """A policy's plugin beside the engine, with its state in the node's folder."""
    need(len(CPUS) > 1, "two CPUs")
    config = node.folder / "placement.json"
    config.write_text(json.dumps({**CONFIGS[name], "stateDir": str(node.folder / "placement")}))
    with bundled(node, name, "-config", str(config)) as program:
        yield program


def inside(node: Node, container: str) -> Sets:
    """The CPUs and memory nodes of a container, as a process in it finds them."""
    return sets_of(EngineView(node, container, Path()).exec("cat", "/proc/self/status"))


def pod(node: Node, name: str, cpu: str) -> str:
    """A Guaranteed pod whose container c asks for so much CPU."""
    config: pb.PodSandboxConfig = node.pod_config(name)
    resources = {"cpu": cpu, "memory": "16Mi"}
    config.annotations[ANNOTATION] = json.dumps({"containers": {"c": {"requests": resources, "limits": resources}}})
    return node.engine.pod_creation.run(config, "")


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_cpu_of_one_s_own_is_kept_over_restarts_of_plugin_and_runtime(node: Node, name: str) -> None:
    with beside(node, name) as plugin:
        own_pod = pod(node, "own", "1")
        container_id = node.run(own_pod, "c")
        cpus, mems = inside(node, container_id)
        assert len(cpus) == 1 and cpus < ALL[0] and mems <= ALL[1]
        if name == "topology-aware":
            assert cpus != {CPUS[0]}, "the reserved CPU"
        second_pod = pod(node, "second", str(len(CPUS) - 1))
        with pytest.raises(NriError, match="no place for tests/second/c: "):
            node.run(second_pod, "c")
        os.kill(plugin.process.pid, 9)
        plugin.process.wait()
    with beside(node, name):
        assert inside(node, container_id) == (cpus, mems), "after the plugin was killed"
        with pytest.raises(NriError, match="no place for tests/second/c: "):
            node.run(second_pod, "c")
    node.restart()
    with beside(node, name):
        assert inside(node, container_id) == (cpus, mems), "after the runtime was started again"
        with pytest.raises(NriError, match="no place for tests/second/c: "):
            node.run(second_pod, "c")
        node.remove(own_pod)
        third_pod = pod(node, "third", "1")
        assert inside(node, node.run(third_pod, "c"))[0] == cpus, "its CPU is free again"
        node.remove(second_pod, third_pod)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine as a process of its own, which waits for plugins as long as a busy machine takes."""
    need_root()
    for tool in PACKAGES:
        need_tool(tool)
    engine_ = Engine(say=lambda _: None, request_timeout_s=10 * PATIENCE)
    try:
        engine_.start()
        yield engine_
    finally:
        engine_.close()


@pytest.mark.parametrize("name", list(CONFIGS))
def test_containers_find_the_cpus_and_memory_nodes_that_were_decided(engine: Engine, name: str, tmp_path: Path) -> None:
    with placing(engine, name, tmp_path) as beside:
        assert_found_as_decided(beside)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_configuration_that_changes_is_found_inside_and_a_broken_one_is_not(
    engine: Engine, name: str, tmp_path: Path
) -> None:
    with placing(engine, name, tmp_path) as beside:
        program = beside.start()
        assert beside.create("own")
        cpus = beside.inside("own")
        assert cpus[0] < ALL[0]
        beside.configure(pinCPU=False)
        wait_for(lambda: beside.inside("own")[0] == ALL[0], "all CPUs")
        beside.configure()
        wait_for(lambda: beside.inside("own") == cpus, "its own CPUs again")
        beside.configure("{")
        program.wait_text("configuration not changed: ")
        beside.restart_runtime()
        assert beside.inside("own") == cpus
        assert program.process.poll() is None, "it ended over a file that it had refused before"


@pytest.mark.timeout(60 + 12 * PODS)
@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_plugin_that_is_killed_in_a_sequence_of_pods_moves_nothing_and_grants_nothing_twice(
    engine: Engine, name: str, tmp_path: Path
) -> None:
    with placing(engine, name, tmp_path) as beside:
        assert_kills_move_nothing(beside, PODS)
