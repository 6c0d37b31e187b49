"""A kubelet with runtime events instead of polling, and with the runtime's own statistics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.conftest import started
from tests.kubernetes.node import Node, one_container
from tests.kubernetes.pods import container, pod
from tools.runtimes.config import pod_gateway

GATES = ("EventedPLEG", "PodAndContainerStatsFromCRI")


@pytest.fixture(scope="module")
def gated(runtime_name: str, kubelet_program: Path) -> Iterator[Node]:
    """A node with both gates open."""
    with started(runtime_name, kubelet_program, GATES) as started_node:
        yield started_node


def test_the_kubelet_learns_of_starts_and_exits_from_runtime_events(gated: Node) -> None:
    static = gated.run(pod("told", container("main", "sleep 2; exit 9")))
    row = one_container(static.wait_restarted(), "main")
    # What ran last may have ended as well by now.
    ended = row["state"].get("terminated") or row["lastState"]["terminated"]
    assert ended["exitCode"] == 9
    # With events it looks only every five minutes by itself.
    metrics = dict(line.split(" ", 1) for line in gated.kubelet.client.get("/metrics").splitlines() if line[:1] != "#")
    assert "kubelet_evented_pleg_connection_success_count" in metrics, "it does not listen to events"
    assert float(metrics["kubelet_evented_pleg_connection_success_count"]) >= 1
    static.remove()
    static.wait_gone()


def test_the_kubelet_passes_on_the_runtimes_statistics_of_a_pod(gated: Node) -> None:
    ping = f"ping -c 1 -w 1 {pod_gateway(gated.runtime.run_dir)} >/dev/null"
    talk = f"while :; do {ping}; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done"
    static = gated.run(pod("measured", container("main", talk), container("other")))
    static.wait_ready()
    deadline = time.monotonic() + 60
    while True:
        rows = [row for row in gated.kubelet.client.summary()["pods"] or [] if row["podRef"]["name"] == static.name]
        row = rows[0] if rows else {}
        names = sorted(one["name"] for one in row.get("containers", []))
        if names == ["main", "other"] and row.get("network", {}).get("txBytes") and row["cpu"].get("usageNanoCores"):
            break
        assert time.monotonic() < deadline, f"the runtime measured {row}"
        time.sleep(0.5)
    assert row["network"]["name"] == "eth0"
    assert row["memory"]["workingSetBytes"] > 0
    assert row["process_stats"]["process_count"] >= 2
    assert all(one["cpu"]["usageCoreNanoSeconds"] > 0 and one["memory"]["workingSetBytes"] for one in row["containers"])
    static.remove()
    static.wait_gone()
