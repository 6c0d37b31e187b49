"""config-manager on the node with containerd: the chart turns NRI on, and a failed restart is undone."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.cluster.machine import Cluster, ClusterError
from tests.cluster.placement import SPACE
from tests.cluster.pods import POD_TIMEOUT_S, pod, read, running, wait_rolled_out
from tests.support.waiting import wait_for

NODE, NUMBER = "n2", 2
CONFIG = "/etc/containerd/config.toml"
UNIT = "containerd.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/refuse.conf"
PLUGIN = "ulimit-adjuster"
LIMITS = {"ulimits.noderesource.dev/container.main": "[{type: NOFILE, soft: 1234, hard: 2345}]"}


@pytest.fixture
def disabled(cluster: Cluster) -> Iterator[None]:
    """containerd with NRI turned off; afterwards it has its old configuration."""
    restart = f"systemctl daemon-reload && systemctl reset-failed {UNIT}; systemctl restart {UNIT}"
    try:
        cluster.run(NUMBER, f"cp {CONFIG} {CONFIG}.test && sed -i 's/disable = false/disable = true/' {CONFIG}")
        cluster.run(NUMBER, restart)
        yield
    finally:
        cluster.run(NUMBER, f"rm -f {DROP_IN} {CONFIG}.before-nri; mv {CONFIG}.test {CONFIG}; {restart}")
        wait_for(lambda: NODE in cluster.ready_nodes(), "the node is Ready", POD_TIMEOUT_S)


def main_pid(cluster: Cluster) -> str:
    """The process id of containerd."""
    return cluster.run(NUMBER, f"systemctl show -P MainPID {UNIT}").strip()


def is_disabled(cluster: Cluster) -> bool:
    """Whether the file turns NRI off."""
    return "disable = true" in cluster.run(NUMBER, f"cat {CONFIG}")


def test_the_chart_turns_nri_on_and_restarts_the_runtime_once(cluster: Cluster, images: None, disabled: None) -> None:
    before = main_pid(cluster)
    selector = r"nodeSelector.kubernetes\.io/hostname"
    settings = f"plugin={PLUGIN},health.enabled=true,nri.runtime.patchConfig=true,nri.runtime.name=containerd"
    try:
        timeouts = "nri.runtime.config.pluginRegistrationTimeout=60s,nri.runtime.config.pluginRequestTimeout=30s"
        words = ("--set", f"{settings},{timeouts},{selector}={NODE}")
        cluster.helm("install", *SPACE, PLUGIN, "deploy/helm/nri-plugin", *words)
        wait_rolled_out(cluster, f"nri-plugin-{PLUGIN}")
        assert not is_disabled(cluster)
        after = main_pid(cluster)
        assert after not in ("0", before)
        with running(cluster, pod("limited", NODE, LIMITS)):
            assert read(cluster, "limited", "grep 'open files' /proc/1/limits").split()[3:5] == ["1234", "2345"]
        cluster.kubectl("rollout", "restart", *SPACE, f"daemonset/nri-plugin-{PLUGIN}")
        wait_rolled_out(cluster, f"nri-plugin-{PLUGIN}")
        assert main_pid(cluster) == after, "a second run changes nothing"
    finally:
        cluster.helm("uninstall", *SPACE, PLUGIN, "--ignore-not-found", "--wait")


def test_a_runtime_that_fails_to_start_with_nri_is_started_without_it(cluster: Cluster, disabled: None) -> None:
    refuse = f'[Service]\\nExecStartPre=/bin/grep -q "disable = true" {CONFIG}\\n'
    cluster.run(NUMBER, f"mkdir -p $(dirname {DROP_IN}); printf '{refuse}' > {DROP_IN}; systemctl daemon-reload")
    with pytest.raises(ClusterError, match="was started with it"):
        cluster.run(NUMBER, f"{sys.executable} -m nri config-manager --restart")
    assert is_disabled(cluster)
    assert cluster.run(NUMBER, f"systemctl is-active {UNIT}").strip() == "active"
    wait_for(lambda: NODE in cluster.ready_nodes(), "the node is Ready", POD_TIMEOUT_S)
