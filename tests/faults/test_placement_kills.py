"""A placement plugin that dies at every step for 100 pods: nothing moves, and no CPU is granted twice.

It dies twice at each step: with the answer on its way, so that the runtime knows nothing of what was decided and
written down, and right after the answer. A dead plugin leaves its state file, and the runtime its containers; one that
is stopped ends also if nobody answers.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

import nri
from nri.api import cpuset
from nri.api import messages as m
from nri.plugins.balloons.plugin import BalloonsPlugin
from nri.plugins.topology_aware.plugin import TopologyAwarePlugin
from nri.testing import FakeRuntime
from tests.support.adapting import PATIENT
from tests.support.placement import sequence
from tests.unit.placement.placing import ask, create, pod, started, stop

PODS = 100
#: At most this many pods at a time, so that most of them fit.
ALIVE = 12
BALLOONS = [
    {"name": "own", "matchExpressions": [{"key": "name", "operator": "Matches", "values": ["own-*"]}],
     "preferNewBalloons": True},
    {"name": "rest", "namespaces": ["*"], "shareIdleCPUsInSame": "numa"},
]  # fmt: skip


@dataclass
class Node:
    """What a runtime has: it outlives the plugin."""

    pods: dict[str, m.PodSandbox] = field(default_factory=dict)
    containers: dict[str, m.Container] = field(default_factory=dict)

    def cpus(self) -> dict[str, str]:
        return {container.name: container.linux.resources.cpu.cpus for container in self.containers.values()}

    def mems(self) -> dict[str, str]:
        return {container.name: container.linux.resources.cpu.mems for container in self.containers.values()}

    def end(self, name: str) -> bool:
        """Let a container end; whether there was one."""
        remainder = {id_: entry for id_, entry in self.containers.items() if entry.name != name}
        remainder, self.containers = self.containers, remainder
        return len(remainder) > len(self.containers)

    def keep(self, runtime: FakeRuntime) -> None:
        self.pods = deepcopy(dict(runtime.pods))
        self.containers = deepcopy(dict(runtime.containers))


def pod_and_container(number: int) -> tuple[m.PodSandbox, m.Container]:
    """A pod of one of five kinds, with its container."""
    kind = number % 5
    if kind < 2:
        return pod(f"own-{number}"), ask(f"own-{number}", 1000 * (kind + 1))
    if kind == 2:
        return pod(f"mixed-{number}"), ask(f"mixed-{number}", 1500)
    if kind == 3:
        return pod(f"part-{number}", "burstable"), ask(f"part-{number}", 300, limit_m=700)
    return pod(f"idle-{number}", "besteffort"), ask(f"idle-{number}", 0)


def do(runtime: FakeRuntime, step: str, number: int) -> None:
    """One step; a container that fits nowhere is not made."""
    sandbox, container = pod_and_container(number)
    if step == "create":
        try:
            create(runtime, sandbox, container)
        except nri.PluginError as error:
            assert "no place for" in str(error)
            runtime.containers.pop(container.id, None)
        return
    entry = next((entry_ for entry_ in runtime.containers.values() if entry_.name == container.name), None)
    if entry is not None:
        stop(runtime, entry)


def own_cpus_are_nobody_else_s(cpus: dict[str, str]) -> None:
    sets = {name: cpuset.parse(words) for name, words in cpus.items()}
    for (name, own_entry), (other, remote) in permutations(sets.items(), 2):
        if name.startswith("own-"):
            assert not own_entry & remote, f"{name} and {other} share CPUs"


@pytest.mark.parametrize(
    ("kind", "options", "idle_follow"),
    [(TopologyAwarePlugin, {}, False), (BalloonsPlugin, {"balloonTypes": BALLOONS}, True)],
    ids=["topology-aware", "balloons"],
)
def test_a_plugin_that_dies_at_any_step_moves_no_container_and_grants_no_cpu_twice(
    tmp_path: Path, kind: Any, options: dict[str, Any], idle_follow: bool
) -> None:
    node, created, refused, freed = Node(), 0, 0, False
    for step, number in sequence(PODS, ALIVE):
        for answer_arrives in (False, True):
            before = node.cpus(), node.mems()
            with FakeRuntime(
                pods=deepcopy(node.pods).values(),
                containers=deepcopy(node.containers).values(),
                real_time=False,
                **PATIENT,
            ) as runtime:
                started(runtime, tmp_path, kind(), **options)
                moved = {runtime.containers[update.container_id].name for update in runtime.updates}
                if not idle_follow:  # idle CPUs that balloons share may come back otherwise than they were lent
                    assert freed or not moved, f"moved when the plugin came back before {step} {number}: {moved}"
                do(runtime, step, number)
                if answer_arrives:
                    node.keep(runtime)
            freed = step == "stop" and not answer_arrives and node.end(pod_and_container(number)[1].name)
            own_cpus_are_nobody_else_s(node.cpus())
            for what, now in zip(before, (node.cpus(), node.mems()), strict=True):
                remaining = [name for name in what if name in now and name.startswith("own-")]
                assert all(now[name] == what[name] for name in remaining), f"{step} {number}"
        if step == "create":
            created += pod_and_container(number)[1].name in node.cpus()
            refused += pod_and_container(number)[1].name not in node.cpus()
    assert node.containers == {}
    assert created > 80, f"only {created} of {created + refused} pods found a place"
