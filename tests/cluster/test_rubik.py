"""The agent with rubik's profile as a unit of each node: offline pods yield, and a changed file takes effect."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.machine import Cluster
from tests.cluster.pods import NODES, POD_TIMEOUT_S, Json, best_effort_slice, pod, read, running
from tests.support.waiting import wait_for

UNIT = "rubik-agent"
OFFLINE = {"volcano.sh/preemptable": "true"}
CONFIG: Json = {
    "agent": {"informerType": "nri", "cgroupDriver": "systemd", "enabledFeatures": ["preemption", "memoryevict"]},
    "preemption": {"resource": ["cpu", "memory"]},
    "memoryevict": {"threshold": 99},
}


def write_config(cluster: Cluster, node: str, config: Json) -> None:
    """Write rubik's file of a node."""
    text = shlex.quote(json.dumps(config))
    cluster.run(int(node[1:]), f"printf %s {text} > /etc/rubik.new && mv /etc/rubik.new /etc/rubik.json")


def log(cluster: Cluster, node: str) -> str:
    """The log of the unit."""
    return cluster.run(int(node[1:]), f"journalctl --no-pager -o cat -u {UNIT}")


@pytest.fixture(scope="module", params=NODES)
def node(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[str]:
    """A node with the agent."""
    name, number = str(request.param), int(str(request.param)[1:])
    write_config(cluster, name, CONFIG)
    command = f"{sys.executable} -m nri agent run --config /etc/rubik.json"
    try:
        cluster.run(number, f"systemd-run --unit={UNIT} --setenv=PYTHONPATH=$PYTHONPATH {command}")
        wait_for(lambda: "registered" in log(cluster, name), lambda: log(cluster, name), POD_TIMEOUT_S)
        yield name
    finally:
        cluster.run(number, f"systemctl stop {UNIT}; systemctl reset-failed {UNIT}; rm -f /etc/rubik.json")


def test_an_offline_pod_is_idle_and_an_online_pod_is_not(cluster: Cluster, node: str) -> None:
    offline, online = f"offline-{node}", f"online-{node}"
    with running(cluster, pod(offline, node, OFFLINE), pod(online, node)):

        def idle() -> list[str]:
            return [best_effort_slice(cluster, name, node, "cpu.idle") for name in (offline, online)]

        # Systemd has no property for it, so mode standalone writes it soon after the container's start.
        wait_for(lambda: idle() == ["1", "0"], lambda: f"{idle()}\n{log(cluster, node)}", POD_TIMEOUT_S)
        assert read(cluster, offline, "cat /sys/fs/cgroup/cpu.weight") == "1"
        scores = [read(cluster, name, "cat /proc/1/oom_score_adj") for name in (offline, online)]
        assert scores == ["1000", "1000"], "best-effort containers"


def test_a_changed_file_evicts_the_offline_pod_only(cluster: Cluster, node: str) -> None:
    offline, online = f"offline-{node}", f"online-{node}"
    with running(cluster, pod(offline, node, OFFLINE, restartPolicy="Never"), pod(online, node)):
        write_config(cluster, node, CONFIG | {"memoryevict": {"threshold": 1}})
        try:
            wait_for(
                lambda: cluster.get("pod", offline)["status"]["phase"] in ("Failed", "Succeeded"),
                lambda: log(cluster, node),
                POD_TIMEOUT_S,
            )
        finally:
            write_config(cluster, node, CONFIG)
        assert cluster.get("pod", online)["status"]["phase"] == "Running"
