"""`nri.host` on a real kernel: its values are in the cgroup of a container that runc created.

Neutral names alone, so the same tests run on cgroup v1 here and on cgroup v2 in the guest of tests/guest.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nri.host import (
    CoreScheduler,
    Hierarchies,
    Outcome,
    Root,
    Unsupported,
    Write,
    Writer,
    cgroup_pressure,
    cgroup_usage,
    detect,
    set_oom_scores,
)
from nri.host import process as processes
from nri.host.cgroups.units import Value
from nri.host.core_sched import Scope
from tests.real.bundles import Bundles, rootfs, wait_own_process
from tests.support.needs import need_machine, need_root, need_tool

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Pod:
    """A container that sleeps, the cgroup of its pod above it, and what writes them."""

    hierarchies: Hierarchies
    pod: str
    container: str
    pid: int
    bundles: Bundles
    name: str

    def writer(self) -> Writer:
        return Writer(self.hierarchies)

    def both(self, name: str, pod: Value, container: Value) -> list[Write]:
        """Writes for container and pod, in the order that a kernel refuses when values shrink or grow."""
        return [Write(self.pod, name, pod), Write(self.container, name, container)]

    def delete(self) -> None:
        self.bundles.call("delete", "--force", self.name, check=False)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Pod]:
    """A pod with its container; both are gone afterwards."""
    need_root()
    need_tool("runc")
    bundles = Bundles(folder, rootfs(folder / "rootfs"))
    spec = bundles.spec("sleep 600")
    top = f"nri-host-{uuid.uuid4().hex[:8]}"
    path = f"{top}/pod/container"
    spec["linux"]["cgroupsPath"] = f"/{path}"
    root = Root()
    try:
        bundles.start(str(bundles.bundle(top, spec)), top)
        pid = json.loads(bundles.call("state", top))["pid"]
        wait_own_process(pid)
        yield Pod(detect(root), f"{top}/pod", path, pid, bundles, top)
    finally:
        bundles.call("delete", "--force", top, check=False)
        for row in detect(root).rows:
            for name in (path, f"{top}/pod", top):
                if root.exists(f"{row.path}/{name}"):
                    root.remove_folder(f"{row.path}/{name}")


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """One pod for all tests: each test begins with its own values."""
    with started(tmp_path_factory.mktemp("pod")) as pod_run:
        yield pod_run


def applied(pod: Pod, writes: list[Write]) -> None:
    """Write, and see that the kernel has it, by reading anew."""
    results = pod.writer().write_all(writes)
    assert all(result.in_force for result in results), list(map(str, results))
    for write in writes:
        assert pod.writer().read(write.cgroup, write.name) == write.value


def test_the_containers_process_is_in_its_cgroup(pod: Pod) -> None:
    assert pod.hierarchies.processes(pod.container) == [pod.pid]
    assert pod.hierarchies.threads(pod.container) == [pod.pid]
    cgroups = processes.cgroups(Root(), pod.pid)
    assert cgroups is not None and f"/{pod.container}" in cgroups.values()
    assert pod.hierarchies.below(pod.pod, "memory") == ["container"]


def test_a_cpuset_shrinks_grows_and_moves_in_pod_and_container(pod: Pod) -> None:
    need_machine((os.cpu_count() or 1) > 1, "second CPU")
    for cpus in ({0, 1}, {1}, {0}, {0, 1}, {0}):
        applied(pod, pod.both("cpuset.cpus", frozenset(cpus), frozenset(cpus)))
        assert os.sched_getaffinity(pod.pid) == cpus


@pytest.mark.parametrize(("first", "second"), [((50_000, 40_000), (30_000, 20_000)), ((30_000, 20_000), (-1, 90_000))])
def test_a_quota_shrinks_and_grows_in_pod_and_container(
    pod: Pod, first: tuple[int, int], second: tuple[int, int]
) -> None:
    for values in (first, second, first):
        applied(pod, pod.both("cpu.cfs_quota", *values))


def test_a_burst_follows_its_quota(pod: Pod) -> None:
    applied(pod, pod.both("cpu.cfs_quota", -1, -1))
    for quota, burst in ((50_000, 50_000), (20_000, 10_000), (60_000, 55_000)):
        writes = [Write(pod.container, "cpu.cfs_burst", burst), Write(pod.container, "cpu.cfs_quota", quota)]
        applied(pod, writes)
        applied(pod, list(reversed(writes)))
    applied(pod, [Write(pod.container, "cpu.cfs_burst", 0)])


def test_a_memory_limit_is_applied_and_rounded_to_pages(pod: Pod) -> None:
    for values in ((96 * MIB, 64 * MIB), (48 * MIB, 32 * MIB), (-1, 80 * MIB)):
        applied(pod, pod.both("memory.limit", *values))
    result = pod.writer().write(Write(pod.container, "memory.limit", 64 * MIB + 5))
    assert (result.outcome, result.after) == (Outcome.CLAMPED, 64 * MIB)


def test_shares_and_idle_are_set_and_reset(pod: Pod) -> None:
    writer = pod.writer()
    one, two = Write(pod.container, "cpu.shares", 512), Write(pod.container, "cpu.idle", 1)
    assert all(result.in_force for result in writer.write_all([two, one]))
    assert writer.read(pod.container, "cpu.idle") == 1
    refused = writer.write(Write(pod.container, "cpu.shares", 600))
    assert (refused.outcome, "cpu.idle is 1" in refused.reason) == (Outcome.REFUSED, True)
    results = writer.write_all([one, Write(pod.container, "cpu.idle", 0)])
    assert [result.outcome for result in results] == [Outcome.APPLIED] * 2, list(map(str, results))
    assert pod.writer().write(one).outcome is Outcome.UNCHANGED


def test_a_pids_limit_is_set_and_reset(pod: Pod) -> None:
    applied(pod, pod.both("pids.limit", 50, 40))
    applied(pod, pod.both("pids.limit", -1, -1))


def test_values_that_the_kernel_refuses_or_clamps_are_reported(pod: Pod) -> None:
    writer = pod.writer()
    applied(pod, pod.both("cpuset.cpus", frozenset({0}), frozenset({0})))
    result = writer.write(Write(pod.container, "cpuset.cpus", frozenset({0, 1})))
    above = pod.hierarchies.of("cpuset")
    assert above is not None
    if above.version == 1:
        assert (result.outcome, result.after) == (Outcome.REFUSED, frozenset({0}))
        assert result.reason.startswith("the parent cgroup does not have all members")
    else:
        assert (result.outcome, result.after) == (Outcome.CLAMPED, frozenset({0}))
    assert writer.write(Write(pod.container, "cpu.bvt", 2)).outcome is Outcome.UNSUPPORTED


def test_an_oom_score_is_applied_to_every_process_of_the_container(pod: Pod) -> None:
    stats = [processes.find(Root(), pid) for pid in pod.hierarchies.processes(pod.container)]
    results = set_oom_scores(Root(), [process for process in stats if process], 321)
    assert [result.outcome for result in results] == [Outcome.APPLIED]
    assert Path(f"/proc/{pod.pid}/oom_score_adj").read_text() == "321\n"


def test_a_core_scheduling_cookie_is_set_and_cleared_or_unsupported_with_a_reason(pod: Pod) -> None:
    scheduler = CoreScheduler()
    findings = scheduler.probe()
    reply = scheduler.create(pod.pid, Scope.PROCESS)
    if findings is not None:
        assert (reply.outcome, reply.reason) == (Outcome.UNSUPPORTED, findings.reason)
        return
    assert reply.after == scheduler.cookie(pod.pid) != 0
    assert [result.outcome for result in scheduler.clear([pod.pid])] == [Outcome.APPLIED]
    assert scheduler.cookie(pod.pid) == 0


def test_the_usage_of_a_container_is_read(pod: Pod) -> None:
    usage = cgroup_usage(pod.hierarchies, pod.container)
    assert usage.cpu_ns and usage.memory_bytes and usage.working_set_bytes is not None
    assert usage.working_set_bytes <= usage.memory_bytes
    pressure = cgroup_pressure(pod.hierarchies, pod.container, "memory")
    assert pressure.reason if isinstance(pressure, Unsupported) else pressure.some


def test_a_deleted_container_is_reported_as_gone(tmp_path: Path) -> None:
    with started(tmp_path) as pod:
        writer = pod.writer()
        write = Write(pod.container, "cpu.shares", 300)
        assert writer.write(write).outcome is Outcome.APPLIED
        pod.delete()
        result = writer.write(write)
        assert (result.outcome, result.reason) == (Outcome.GONE, "the cgroup does not exist")
        with pytest.raises(FileNotFoundError):
            cgroup_usage(pod.hierarchies, pod.container)
