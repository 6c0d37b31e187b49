"""Folders of kube-QoS classes, host programs, unlisted pods and scheduler switches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nri.agent.koordinator import cpuset
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import PROFILE
from nri.agent.model import HostApplication
from nri.agent.transports.standalone import transport
from nri.agent.transports.standalone.tally import Tally
from tests.support.host_trees import write_files
from tests.support.scrape import scrape
from tests.support.standalone_world import World
from tests.unit.agent.transports.standalone.test_pods import POOLS, pod


def slo(*programs: Any, **policies: Any) -> dict[str, Any]:
    strategy = {"policies": policies, "lsClass": {"cpuQOS": {"enable": True}}, "beClass": {"cpuQOS": {"enable": True}}}
    return {"spec": {"resourceQOSStrategy": strategy, "hostApplications": list(programs)}}


def test_kube_qos_folders_are_written_without_pods_and_repaired(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.store.put("NodeSLO", slo(), "test")
    world.round()
    values = {entry: world.text(entry, "cpu.bvt_warp_ns") for entry in ("kubepods/besteffort", "kubepods/burstable")}
    assert values == {"kubepods/besteffort": "-1", "kubepods/burstable": "2"}
    world.overwrite("kubepods/besteffort", "cpu.bvt_warp_ns", "2")
    world.round()
    assert world.text("kubepods/besteffort", "cpu.bvt_warp_ns") == "-1"


def test_a_program_with_invalid_settings_does_not_affect_other_programs(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.store.put("NodeResourceTopology", POOLS, "test")
    for path in ("host-best-effort/batch", "host-latency-sensitive/nginx"):
        world.cgroup(path)
    world.store.put("NodeSLO", slo({"name": "batch", "qos": "BE"}, {"name": "nginx", "qos": "LS"}), "test")
    world.round("rules", "NodeSLO")
    assert world.text("host-best-effort/batch", "cpu.bvt_warp_ns") == "-1"
    assert world.text("host-latency-sensitive/nginx", "cpuset.cpus") == "0-3"
    assert world.standalone.last.errors == 1
    assert "host application batch: only class LS gets CPUs" in world.standalone.last.first_error


def test_an_unreadable_list_of_programs_is_an_error_of_the_round(tmp_path: Path) -> None:
    def unreadable(*_: object) -> list[HostApplication]:
        raise ValueError("hostApplications is not a list")

    world, tally = World(tmp_path, Node()), Tally(1)
    transport.programs(replace(world.parts, profile=replace(PROFILE, programs=unreadable)), tally, force=True)
    assert (tally.errors, tally.first_error) == (1, "host applications: hostApplications is not a list")


def test_a_failed_hook_names_the_program_and_the_next_program_is_handled(tmp_path: Path) -> None:
    world, tally = World(tmp_path, Node()), Tally(1)
    world.cgroup("host-best-effort/batch")
    (good,) = PROFILE.programs(lambda _: slo({"name": "batch", "qos": "BE"}), world.parts.driver)
    broken: Any = SimpleNamespace(name="broken")
    profile = replace(PROFILE, programs=lambda *_: [broken, good])
    transport.programs(replace(world.parts, profile=profile), tally, force=True)
    assert tally.first_error.startswith("host application broken: ")
    assert tally.errors == 1


def test_a_program_cannot_name_a_folder_outside_of_the_hierarchy(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    place = {"base": "CgroupRoot", "parentDir": "../../..", "relativePath": "etc"}
    world.store.put("NodeSLO", slo({"name": "x", "qos": "LS", "cgroupPath": place}), "test")
    world.round("rules", "NodeSLO")
    assert world.standalone.last.items >= 1


def test_a_new_nodeslo_reaches_containers_and_folders_of_unlisted_pods(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    one = pod("a", n.LS)
    folder = world.pod(one)
    world.cgroup("kubepods/besteffort/podgone")
    world.cgroup("kubepods/besteffort/podgone/c")
    world.source.replace([one])
    world.store.put("NodeSLO", slo(), "test")
    world.round("rules", "NodeSLO")
    assert world.text(f"{folder}/ac", "cpu.bvt_warp_ns") == "2"
    assert world.text("kubepods/besteffort/podgone/c", "cpu.bvt_warp_ns") == "-1"


def test_core_scheduling_disables_group_identity_first_and_restores_it(tmp_path: Path) -> None:
    world = World(tmp_path, Node(gates=frozenset({"CoreSched", "GroupIdentity"})))
    names = ("sched_core", "sched_group_identity_enabled")
    write_files(tmp_path, {f"proc/sys/kernel/{name}": "0\n" for name in names})

    def switches() -> list[str]:
        return [world.root.read(f"/proc/sys/kernel/{name}").strip() for name in names]

    world.store.put("NodeSLO", slo(), "test")
    world.round("rules", "NodeSLO")
    assert switches() == ["0", "1"]
    world.store.put("NodeSLO", slo(cpuPolicy="coreSched"), "test")
    world.round("rules", "NodeSLO")
    assert switches() == ["1", "0"]
    (tmp_path / "proc/sys/kernel/sched_core").write_text("0\n")
    world.round()
    assert switches() == ["1", "0"], "what somebody else switches is switched back"
    world.store.put("NodeSLO", slo(cpuPolicy="groupIdentity"), "test")
    world.round("rules", "NodeSLO")
    assert switches() == ["0", "1"]


@pytest.mark.parametrize("features", ["GENTLE NO_CORE_SCHED\n", "GENTLE CORE_SCHED\n", "GENTLE\n"])
def test_older_anolis_kernels_enable_core_scheduling_in_sched_features(tmp_path: Path, features: str) -> None:
    world = World(tmp_path, Node(gates=frozenset({"CoreSched"})))
    file = tmp_path / "sys/kernel/debug/sched_features"
    write_files(tmp_path, {"sys/kernel/debug/sched_features": features})
    world.store.put("NodeSLO", slo(cpuPolicy="coreSched"), "test")
    world.round("rules", "NodeSLO")
    assert file.read_text() == ("CORE_SCHED" if "NO_CORE_SCHED" in features else features)


def test_a_topology_without_pools_is_not_an_error(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.store.put(
        "NodeResourceTopology", {"metadata": {"annotations": {cpuset.ANNOTATION_SHARE_POOLS: json.dumps([])}}}, "t"
    )
    world.round()
    assert world.standalone.last.errors == 0


def test_at_most_1024_host_programs_are_handled(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.store.put("NodeSLO", slo(*({"name": f"p{number}", "qos": "LS"} for number in range(1030))), "test")
    world.round("rules", "NodeSLO")
    assert 'nri_agent_left_out_total{reason="host applications"} 6.0\n' in scrape(world.observer)
