"""Resources of pods under a real kubelet: in the cgroups and in the kubelet's statistics."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kubernetes.conftest import RunPod
from tests.kubernetes.node import Node
from tests.kubernetes.pods import container, pod
from tools.runtimes.cgroups import is_v1

RESOURCES = {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}


def test_limits_are_in_the_containers_cgroup(run: RunPod) -> None:
    static = run(pod("limited", container(resources=RESOURCES)))
    static.wait_ready()
    assert static.cgroup("memory", "memory.limit_in_bytes", "memory.max") == str(64 << 20)
    assert static.cgroup("cpu", "cpu.cfs_quota_us", "cpu.max").split()[0] == "10000"
    if is_v1(static.pid(), "cpu"):
        assert static.cgroup("cpu", "cpu.shares", "") == "51"


def test_the_containers_cgroup_is_below_the_kubelets_pod_cgroup(run: RunPod, node: Node) -> None:
    static = run(pod("placed", container(resources=RESOURCES)))
    static.wait_ready()
    uid = node.kubelet.client.pods()[static.name]["metadata"]["uid"]
    lines = Path(f"/proc/{static.pid()}/cgroup").read_text().splitlines()
    memory = next(path for _, name, path in (line.split(":", 2) for line in lines) if name in ("memory", ""))
    assert f"/{node.runtime.run_dir.name}/kubepods/burstable/pod{uid}/" in memory


def test_a_guaranteed_container_has_the_lowest_oom_score(run: RunPod) -> None:
    limits = {"cpu": "100m", "memory": "64Mi"}
    static = run(pod("guaranteed", container(resources={"limits": limits, "requests": limits})))
    status = static.wait_ready()
    assert status["qosClass"] == "Guaranteed"
    best_effort = run(pod("best-effort"))
    assert best_effort.wait_ready()["qosClass"] == "BestEffort"
    scores = [int(Path(f"/proc/{one.pid()}/oom_score_adj").read_text()) for one in (static, best_effort)]
    # Without the right to go below our own score a runtime leaves it there.
    own_score = int(Path("/proc/self/oom_score_adj").read_text())
    assert scores[0] in (-997, own_score)
    assert scores[1] == 1000


def test_kubelet_measures_memory_cpu_and_disk_of_a_container(run: RunPod, node: Node) -> None:
    static = run(pod("measured", container("main", "dd if=/dev/zero of=/tmp/big bs=1M count=3; while :; do :; done")))
    static.wait_ready()
    deadline = time.monotonic() + 60
    while True:
        summary = node.kubelet.client.summary()
        actual = [row for row in summary["pods"] if row["podRef"]["name"] == static.name]
        row = actual[0]["containers"][0] if actual and actual[0].get("containers") else {}
        used = row.get("rootfs", {}).get("usedBytes", 0)
        if used >= 3 << 20 and row.get("cpu", {}).get("usageCoreNanoSeconds") and row.get("memory"):
            break
        assert time.monotonic() < deadline, f"kubelet measured {row}"
        time.sleep(0.5)
    assert row["memory"]["workingSetBytes"] > 0
    assert summary["node"]["runtime"]["imageFs"]["usedBytes"] > 0
