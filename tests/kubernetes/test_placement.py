"""topology-aware and balloons under a real kubelet: pods have the decided CPUs and memory nodes.

The kubelet's numbers (shares, quotas, cgroup parents) are all that the policies know of requests. What should be found
is decided on paper by the same policy, as in tests/real/placing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.api import cpuset
from nri.placement.choices import Choices
from nri.placement.containers import Pins
from nri.placement.machine import Machine
from nri.placement.recorded.machines import make_policy
from tests.kubernetes.conftest import RunPod, started
from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.pods import container, pod
from tests.real.placing import ALL, CONFIGS, CPUS, TOPOLOGY, Placing, Sets, placing, sets_of
from tests.support.placement import container as on_paper
from tests.support.waiting import wait_for
from tools.runtimes.daemon import Runtime

_MEMORY = 16 << 20
#: What pods ask for, by name: Kubernetes' class, thousandths of a CPU, the resources of their container.
ASKED = {
    "own": ("Guaranteed", 1000, {"limits": {"cpu": "1", "memory": "16Mi"}}),
    "part": ("Burstable", 200, {"requests": {"cpu": "200m", "memory": "16Mi"}}),
    "idle": ("BestEffort", 0, {}),
}


@pytest.fixture(params=list(CONFIGS))
def policy_plugin(request: pytest.FixtureRequest, node: Node, tmp_path: Path) -> Iterator[Placing]:
    """A policy's plugin, started next to the node's runtime."""
    assert isinstance(node.runtime, Runtime)
    with placing(node.runtime, request.param, tmp_path) as placed:
        placed.start()
        yield placed


def process_sets(static: StaticPod) -> Sets:
    """The CPUs and memory nodes of a process in the pod."""
    return sets_of(static.run("cat", "/proc/self/status"))


def test_pods_keep_the_decided_cpus_without_the_plugin_and_the_kubelet(
    policy_plugin: Placing, node: Node, run: RunPod
) -> None:
    policy = make_policy(policy_plugin.name, Machine.of(TOPOLOGY), CONFIGS[policy_plugin.name], Choices.DEFAULT)
    statics: dict[str, StaticPod] = {}

    def create(name: str) -> None:
        qos, cpu_m, resources = ASKED[name]
        paper = on_paper(name, cpu_m, _MEMORY if cpu_m else 0, qos)
        paper.requests = paper.requests._replace(memory_limit_bytes=0 if qos == "Burstable" else _MEMORY)
        policy.create(paper)
        statics[name] = run(pod(name, container(resources=resources)))
        statics[name].wait_ready()

    def expected() -> dict[str, Sets]:
        pins = {name: policy.pins.get(name, Pins()) for name in statics}
        return {name: (_set(pin.cpus, 0), _set(pin.mems, 1)) for name, pin in pins.items()}

    def all_sets() -> dict[str, Sets]:
        return {name: process_sets(static) for name, static in statics.items()}

    create("own")
    assert all_sets() == expected()
    policy_plugin.kill()
    node.kubelet.kill()
    node.kubelet.start()
    policy_plugin.start()
    assert all_sets() == expected(), "after plugin and kubelet were killed"
    policy.release("own")
    statics.pop("own").remove()
    wait_for(lambda: all_sets() == expected(), lambda: f"{all_sets()} is not {expected()}", 90)
    create("idle")
    create("part")
    assert all_sets() == expected()


def test_a_kubelet_with_static_cpus_is_reported_and_overruled(
    runtime_name: str, kubelet_program: Path, tmp_path: Path
) -> None:
    """In a pod the plugin cannot read the kubelet's files; it learns this from the kubelet's requests."""
    with started(runtime_name, kubelet_program, cpuManagerPolicy="static", reservedSystemCPUs=str(CPUS[-1])) as node:
        assert isinstance(node.runtime, Runtime)
        with placing(node.runtime, "topology-aware", tmp_path) as policy_plugin:
            message = policy_plugin.start()
            static = node.run(pod("own", container(resources=ASKED["own"][2])))
            static.wait_ready()
            wait_for(lambda: "set cpuManagerPolicy to none" in message.text(), message.text)
            assert process_sets(static)[0] == {CPUS[1]}, "the CPU that is decided, and not the one that kubelet takes"


def _set(text: str | None, which: int) -> frozenset[int]:
    return cpuset.parse(text or "") or ALL[which]
