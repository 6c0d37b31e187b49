"""Values of the agent on the engine in a node with systemd: they are applied and kept."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.nodes.conftest import EVERY_ENGINE, NRI, BatchPod, run
from tests.support.waiting import wait_for

RULES = """
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: groupIdentity}
    beClass: {cpuQOS: {enable: true, groupIdentity: -1}}
"""
#: Half a CPU and 256 MiB, as files of cgroup v2.
VALUES = {"cpu.weight": "20", "cpu.max": "50000 100000", "memory.max": str(256 << 20)}


def values(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text().strip() for name in VALUES}


@pytest.mark.parametrize(
    ("engine", "modes"),
    [
        ("systemd runc", "nri"),
        ("systemd runc", "nri,standalone"),
        ("systemd crun", "nri"),
        ("systemd crun", "nri,standalone"),
        ("cgroupfs runc", "nri"),
        ("cgroupfs crun", "nri,standalone"),
    ],
    indirect=["engine"],
)
def test_values_of_a_pod_and_its_container_survive_a_reload(
    engine: str, modes: str, agent: Callable[[str, str], None], batch_pod: Callable[[], BatchPod]
) -> None:
    agent(modes, RULES)
    pod = batch_pod()
    for folder in (pod.cgroup, pod.cgroup_of("sh")):
        wait_for(lambda: values(folder) == VALUES, lambda: f"the values of {folder}: {values(folder)}", timeout_s=5)  # noqa: B023
    run("systemctl", "daemon-reload")
    for folder in (pod.cgroup, pod.cgroup_of("sh")):
        assert values(folder) == VALUES, "after a reload"
    assert "gone" not in run(*NRI, "agent", "explain", "batch")


@pytest.mark.parametrize("engine", EVERY_ENGINE, indirect=True)
def test_drift_shows_each_overwritten_value_of_a_container_once(
    engine: str, agent: Callable[[str, str], None], batch_pod: Callable[[], BatchPod]
) -> None:
    agent("nri", RULES)
    folder = batch_pod().cgroup_of("sh")
    assert drift() == []
    (folder / "cpu.max").write_text("40000")
    assert drift() == [("default/batch/work", "cpu.cfs_quota", 50_000, 40_000)]


def drift() -> list[tuple[str, str, int, int]]:
    result = subprocess.run([*NRI, "drift", "-o", "json"], capture_output=True, text=True, check=False, timeout=400)
    assert result.returncode in (0, 5), result.stderr
    return [(row["subject"], row["knob"], row["wanted"], row["found"]) for row in json.loads(result.stdout)]
