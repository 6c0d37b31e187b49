"""Pods as strategies see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import names as n
from nri.agent.model import Pod
from nri.agent.pods.running import running
from tests.support.loop_world import LoopWorld
from tests.unit.agent.transports.standalone.test_pods import pod


def make_pod(world: LoopWorld, manifest: dict[str, object]) -> Pod:
    (listed_pod,) = running([manifest], world.parts.executor.hierarchies, paths.CGROUPFS)
    return listed_pod


def test_containers_without_a_folder_or_in_a_virtual_machine_are_left_out(tmp_path: Path) -> None:
    world = LoopWorld(tmp_path)
    assert [container.name for container in make_pod(world, pod("a")).containers] == ["c"]
    early = pod("b")
    early["status"]["containerStatuses"][0]["containerID"] = ""
    assert make_pod(world, early).containers == ()
    assert make_pod(world, pod("c", runtimeClassName="kata")).containers == ()


def test_the_amount_comes_from_the_first_requested_resource(tmp_path: Path) -> None:
    asks = {"limits": {"memory": "1Gi", n.BATCH_MEMORY: "2Gi"}}
    manifest = make_pod(LoopWorld(tmp_path), pod("a", containers=[{"name": "c", "resources": asks}]))
    assert manifest.amount("c", "limits", n.BATCH_MEMORY, "memory") == 2 << 30
    assert manifest.amount("c", "limits", "memory") == 1 << 30
    assert manifest.amount("c", "requests", "memory") == manifest.amount("d", "limits", "memory") == -1


@pytest.mark.parametrize(
    ("message", "started"),
    [
        ("2001-09-09T01:46:40Z", 1e9),
        ("2001-09-09T03:46:40.5+02:00", 1e9 + 0.5),
        ("0001-01-01T00:00:00Z", -62135596800.0),
        *((odd, None) for odd in ("2001-09-09T01:46:40", "", "soon", None, 7, ["x"])),
    ],
)
def test_the_start_of_a_pod_comes_from_its_status(tmp_path: Path, message: object, started: float | None) -> None:
    manifest = pod("a")
    assert make_pod(LoopWorld(tmp_path), manifest).started is None
    manifest["status"]["startTime"] = message
    assert make_pod(LoopWorld(tmp_path), manifest).started == started


def test_strategies_see_a_bounded_number_of_containers_per_pod(tmp_path: Path) -> None:
    manifest = pod("a", containers=[{"name": f"c{number}"} for number in range(257)])
    assert len(make_pod(LoopWorld(tmp_path), manifest).specs) == 256
