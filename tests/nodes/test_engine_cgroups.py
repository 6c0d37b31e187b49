"""The engine's cgroups in a node with systemd: monitors, statistics, and the cleanup of a removed pod."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from tests.nodes.conftest import CGROUPS, ENGINE_UNIT, EVERY_ENGINE, NRI, SYSTEMD, BatchPod, run
from tests.support.waiting import wait_for
from tools.runtimes.images import BUSYBOX

LIMITED = f"""
apiVersion: v1
kind: Pod
metadata: {{name: limited}}
spec:
  hostNetwork: true
  containers:
  - {{name: work, image: "{BUSYBOX}", imagePullPolicy: Never, command: [sleep, "10000"],
     resources: {{limits: {{memory: 64Mi, cpu: 500m}}}}}}
"""


@pytest.mark.parametrize("engine", EVERY_ENGINE, indirect=True)
def test_conmon_is_in_the_pods_cgroup_and_not_a_left_over_process_after_a_restart(
    engine: str, batch_pod: Callable[[], BatchPod]
) -> None:
    pod = batch_pod()
    monitor = pod.cgroup_of("conmon")
    assert monitor.parent == pod.cgroup
    assert monitor.name.startswith("conmon-") and (monitor.suffix == ".scope") is engine.startswith("systemd")
    start = time.time()
    run("systemctl", "restart", ENGINE_UNIT)
    journal = run("journalctl", "--no-pager", f"--since=@{start:.0f}", "-u", ENGINE_UNIT)
    assert "left-over process" not in journal
    assert "batch" in run(*NRI, "pod", "ps")
    run(*NRI, "pod", "rm", "-f", "batch")
    wait_for(lambda: not pod.cgroup.exists(), f"{pod.cgroup} is removed")


@pytest.mark.parametrize("engine", EVERY_ENGINE, indirect=True)
def test_statistics_include_the_limit_of_a_container(engine: str, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(LIMITED)
    run(*NRI, "pod", "run", "-f", str(tmp_path / "pod.yaml"))
    try:
        with CriClient("", timeout_s=100) as cri:
            (row,) = cri.call("ListContainerStats", pb.ListContainerStatsRequest()).stats
        assert 0 < row.memory.available_bytes.value < 64 << 20
    finally:
        run(*NRI, "pod", "rm", "-f", "limited")


@pytest.mark.parametrize("engine", SYSTEMD, indirect=True)
def test_systemd_keeps_no_properties_of_a_removed_pod(
    engine: str, agent: Callable[[str, str], None], batch_pod: Callable[[], BatchPod]
) -> None:
    agent("nri", "kind: NodeSLO\nspec: {}\n")
    pod = batch_pod()
    drop_in = Path("/run/systemd/system.control", f"{pod.cgroup.name}.d")
    wait_for(drop_in.exists, "the agent has set properties of the pod's slice")
    run(*NRI, "pod", "rm", "-f", "batch")
    wait_for(lambda: not drop_in.exists() and not pod.cgroup.exists(), "slice and properties are removed")
    units = run("systemctl", "list-units", "--all", "--plain", "--no-legend")
    assert pod.cgroup.name not in units and "conmon-" not in units
    assert [*CGROUPS.glob("kubepods.slice/**/*.scope")] == []
