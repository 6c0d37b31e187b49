"""Control loops on a real kernel: throttled containers get more CPU, best-effort pods less, for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import names as n
from nri.agent.loops import Loops
from nri.agent.loops.samples import Sample, Sampler
from nri.agent.settings.values import AgentSettings
from tests.real.test_standalone import MIB, Machine, machine, pod
from tools.runtimes.machine import PATIENCE

__all__ = ["machine"]

BE = "kubepods/besteffort"
BUSY = "while :; do :; done"


class Nobody:
    """Evicts nobody."""

    def evict(self, pod: object, reason: str) -> str:
        """Refuse."""
        return f"{pod} stays: {reason}"


@pytest.fixture
def loops(machine: Machine) -> Loops:
    gates: Any = {"CgroupReconcile": True}
    return Loops(AgentSettings(gates=gates), machine.parts, evictor=Nobody())


def until(loops: Loops, holds: Callable[[], bool]) -> None:
    """Rounds, half a second apart, until something holds."""
    end = time.monotonic() + 20 * PATIENCE
    while not holds():
        assert time.monotonic() < end, loops.health()
        time.sleep(0.5)
        loops.round()


def test_a_throttled_container_gets_more_cpu_and_returns_it(
    machine: Machine, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Sampler.take

    def of_an_idle_node(self: Sampler, folders: Iterable[str], cpus: int) -> Sample:
        """The machine may be busy with other tests, and then nobody gets more."""
        sample = take(self, folders, cpus)
        return sample._replace(milli=None if sample.milli is None else 0)

    monkeypatch.setattr(Sampler, "take", of_an_idle_node)
    sensitive = pod(n.LS, paths.BURSTABLE, limit="20m")
    pod_folder, container, _ = machine.run(sensitive, BUSY)
    for folder in (pod_folder, container):
        machine.overwrite(folder, "cpu.cfs_quota", "2000" if machine.hierarchies.mode != "v2" else "2000 100000")
    machine.source.replace([sensitive])
    machine.store.put("NodeSLO", {"spec": {"cpuBurstStrategy": {"policy": "auto"}}}, "t")
    until(loops, lambda: machine.value(container, "cpu.cfs_quota") >= 2800)
    assert machine.value(pod_folder, "cpu.cfs_quota") >= 2800
    assert 0 < machine.value(container, "cpu.cfs_burst") <= machine.value(container, "cpu.cfs_quota")
    machine.store.put("NodeSLO", {"spec": {}}, "t")
    until(loops, lambda: machine.value(container, "cpu.cfs_quota") == 2000)
    assert machine.value(pod_folder, "cpu.cfs_quota") == 2000
    assert machine.value(container, "cpu.cfs_burst") == 0


def test_best_effort_pods_are_limited_by_unused_cpu_and_released(machine: Machine, loops: Loops) -> None:
    batch = pod(n.BE, paths.BEST_EFFORT)
    machine.run(batch, BUSY)
    machine.source.replace([batch])
    threshold = {"enable": True, "cpuSuppressPolicy": "cfsQuota", "cpuSuppressThresholdPercent": 50}
    machine.store.put("NodeSLO", {"spec": {"resourceUsedThresholdWithBE": threshold}}, "t")
    until(loops, lambda: 0 < machine.value(BE, "cpu.cfs_quota") <= 100_000)
    machine.store.put("NodeSLO", {"spec": {}}, "t")
    until(loops, lambda: machine.value(BE, "cpu.cfs_quota") == -1)


def test_pod_memory_is_protected_or_unsupported_with_a_reason(machine: Machine, loops: Loops) -> None:
    sensitive = pod(n.LS, paths.BURSTABLE)
    sensitive["spec"]["containers"][0]["resources"] = {"requests": {"memory": "8Mi"}}
    pod_folder, container, _ = machine.run(sensitive)
    machine.source.replace([sensitive])
    memory = {"lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 50}}}
    machine.store.put("NodeSLO", {"spec": {"resourceQOSStrategy": memory}}, "t")
    loops.round()
    message = machine.history.account("ns/ls")
    assert message is not None
    rows = {(row["container"], row["name"]): row for row in message["writes"]}
    outcome = rows["c", "memory.min"]["outcome"]
    if machine.hierarchies.mode == "v2":
        assert outcome == "applied"
        assert [machine.value(entry, "memory.min") for entry in (pod_folder, container)] == [4 * MIB] * 2
    else:
        assert (outcome, "cgroup v1" in rows["c", "memory.min"]["reason"]) == ("unsupported", True)
