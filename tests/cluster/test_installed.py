"""Plugins installed with the chart and with kustomize, as docs/howto/deploy.md describes, change pods on both nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.machine import Cluster
from tests.cluster.pods import NODES, pod, pod_on, read, running, wait_logged, wait_rolled_out

CHARTS = ("ulimit-adjuster", "device-injector", "logger")
OVERLAYS = {"memory-qos": "memory-qos/configured", "writable-cgroups": "writable-cgroups"}
ANNOTATIONS = {
    "ulimits.noderesource.dev/container.main": "[{type: NOFILE, soft: 1234, hard: 2345}]",
    "devices.noderesource.dev/container.main": "[{path: /dev/fuse, type: c, major: 10, minor: 229, file_mode: 0660}]",
    "class.memory-qos.nri.io": "silver",
    "writable-cgroups.noderesource.dev/container.main": "true",
}
MEMORY_BYTES = 100 << 20

pytestmark = pytest.mark.usefixtures("images")


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[None]:
    """Three plugins installed with the chart and two with kustomize, all synchronized."""
    space = ("-n", "kube-system")
    try:
        for name in CHARTS:
            # With health.enabled a pod of a plugin is Ready only when the runtime has synchronized the plugin.
            settings = ("--set", f"plugin={name}", "--set", "health.enabled=true")
            cluster.helm("install", *space, name, "deploy/helm/nri-plugin", *settings)
        for overlay in OVERLAYS.values():
            cluster.kubectl("apply", "-k", f"deploy/kustomize/{overlay}")
        for name in (*CHARTS, *OVERLAYS):
            wait_rolled_out(cluster, f"nri-plugin-{name}")
        for name in OVERLAYS:
            for node in NODES:
                wait_logged(
                    cluster, pod_on(cluster, f"app.kubernetes.io/name=nri-plugin-{name}", node), "registered with"
                )
        yield
    finally:
        for name in CHARTS:
            cluster.helm("uninstall", *space, name, "--ignore-not-found", "--wait")
        for overlay in OVERLAYS.values():
            cluster.kubectl("delete", "--ignore-not-found", "-k", f"deploy/kustomize/{overlay}")


@pytest.fixture(scope="module", params=NODES)
def changed(request: pytest.FixtureRequest, cluster: Cluster, installed: None) -> Iterator[str]:
    """A pod that the plugins have changed, on each node."""
    name = f"changed-{request.param}"
    with running(cluster, pod(name, request.param, ANNOTATIONS, {"memory": str(MEMORY_BYTES), "cpu": "100m"})):
        yield name


def test_ulimit_adjuster_from_the_chart_sets_limits(cluster: Cluster, changed: str) -> None:
    assert read(cluster, changed, "grep 'open files' /proc/1/limits").split() == [
        "Max",
        "open",
        "files",
        "1234",
        "2345",
        "files",
    ]


def test_device_injector_from_the_chart_adds_a_device(cluster: Cluster, changed: str) -> None:
    assert read(cluster, changed, "stat -c '%F %a %t:%T' /dev/fuse") == "character special file 660 a:e5"


def test_logger_from_the_chart_logs_the_creation_of_a_container(cluster: Cluster, changed: str) -> None:
    logger = pod_on(cluster, "app.kubernetes.io/instance=logger", changed.rpartition("-")[2])
    wait_logged(cluster, logger, changed)


def test_memory_qos_from_kustomize_sets_memory_high_by_its_configuration(cluster: Cluster, changed: str) -> None:
    assert int(read(cluster, changed, "cat /sys/fs/cgroup/memory.high")) == MEMORY_BYTES * 8 // 10


def test_writable_cgroups_from_kustomize_lets_a_container_create_cgroups(cluster: Cluster, changed: str) -> None:
    assert read(cluster, changed, "mkdir /sys/fs/cgroup/inner && rmdir /sys/fs/cgroup/inner && echo done") == "done"


def test_a_pod_without_annotations_is_not_changed(cluster: Cluster, installed: None) -> None:
    with running(cluster, *(pod(f"plain-{node}", node) for node in NODES)):
        for node in NODES:
            commands = "ls /dev/fuse 2>&1; cat /sys/fs/cgroup/memory.high; mkdir /sys/fs/cgroup/inner 2>&1"
            answer = read(cluster, f"plain-{node}", f"{commands}; true").splitlines()
            assert "No such file" in answer[0] and answer[1] == "max" and "Read-only" in answer[2], answer
