"""A round over pods: writes, repairs, skipped pods, and one bad pod that affects no other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.koordinator import batch_resource, core_sched, cpuset, reconcile
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.reconcile import GROUP_IDENTITY
from nri.host import Outcome, Result
from tests.support.host_trees import TOP
from tests.support.scrape import scrape
from tests.support.standalone_world import CONTROLLERS, World

POOLS = {
    "metadata": {
        "annotations": {cpuset.ANNOTATION_SHARE_POOLS: json.dumps([{"socket": 0, "node": 0, "cpuset": "0-3"}])}
    }
}
BATCH = {
    batch_resource.ANNOTATION_EXTENDED: json.dumps(
        {"containers": {"c": {"requests": {n.BATCH_CPU: "500"}, "limits": {n.BATCH_CPU: "500", n.BATCH_MEMORY: "4Mi"}}}}
    )
}


def pod(uid: str, qos: str = "", kube_class: str = "Burstable", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "labels": {n.LABEL_QOS: qos} if qos else {}}
        | {"annotations": more.pop("annotations", {})},
        "spec": {"containers": [{"name": "c"}], **more},
        "status": {
            "phase": "Running",
            "qosClass": kube_class,
            "containerStatuses": [{"name": "c", "containerID": f"containerd://{uid}c"}],
        },
    }


def batch(uid: str) -> dict[str, Any]:
    return pod(uid, n.BE, paths.BEST_EFFORT, annotations=dict(BATCH))


def listed(world: World, *pods: dict[str, Any]) -> list[str]:
    folders = [world.pod(pod, sandbox=f"{pod['metadata']['uid']}p") for pod in pods]
    world.source.replace(pods)
    world.round()
    return folders


def test_an_overwritten_value_is_restored_one_round_later(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    (folder,) = listed(world, batch("a"))
    assert (world.text(folder, "cpu.shares"), world.text(f"{folder}/ac", "cpu.shares")) == ("512", "512")
    for path in (folder, f"{folder}/ac"):
        world.overwrite(path, "cpu.shares", "2")
        world.overwrite(path, "memory.limit_in_bytes", "9223372036854771712")
    world.clock.now += 10
    world.round()
    for path in (folder, f"{folder}/ac"):
        assert world.text(path, "cpu.shares") == "512"
        assert world.text(path, "memory.limit_in_bytes") == str(4 << 20)


def test_a_round_for_changed_pods_trusts_earlier_writes(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    (folder,) = listed(world, batch("a"))
    world.overwrite(folder, "cpu.shares", "2")
    world.round("pods")
    assert world.text(folder, "cpu.shares") == "2"


def test_a_recreated_cgroup_is_written_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    (folder,) = listed(world, batch("a"))
    world.no_cgroup(folder)
    world.pod(batch("a"), sandbox="ap")
    world.round("pods")
    assert world.text(f"{folder}/ac", "cpu.shares") == "512"


def test_a_malformed_annotation_keeps_the_old_values_and_other_pods_are_handled(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    world.store.put("NodeResourceTopology", POOLS, "test")
    manifest = pod("a", n.LSR, annotations={cpuset.ANNOTATION_STATUS: '{"cpuset": "2"}'})
    one, two = listed(world, manifest, batch("b"))
    assert world.text(f"{one}/ac", "cpuset.cpus") == "2"
    broken = pod("a", n.LSR, annotations={cpuset.ANNOTATION_STATUS: '{"cpuset": '})
    world.overwrite(two, "cpu.shares", "2")
    world.source.replace([broken, batch("b")])
    world.clock.now += 10
    world.round()
    assert (world.text(f"{one}/ac", "cpuset.cpus"), world.text(two, "cpu.shares")) == ("2", "512")
    assert world.standalone.last.errors == 3
    assert "ns/a: CPUSetAllocator: annotation scheduling.koordinator.sh/resource-status" in world.standalone.health()[1]


def test_a_pod_that_fails_is_counted_and_other_pods_are_handled(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    wrong = pod("a", containers=[{"name": "c", "resources": {"limits": {"cpu": "many"}}}])
    mad = batch("m")
    mad["status"]["containerStatuses"] = [{"name": "c", "containerID": "containerd://../../escape"}]
    (_, folder) = listed(world, wrong, batch("b"))
    world.source.replace([wrong, mad, batch("b")])
    world.round()
    assert world.text(folder, "cpu.shares") == "512"
    assert world.standalone.last.errors >= 1
    assert world.standalone.health()[0]


def test_containers_without_an_id_or_a_spec_or_in_a_vm_are_skipped(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    early, lost, virtual = batch("early"), batch("lost"), batch("vm")
    early["status"]["containerStatuses"][0]["containerID"] = ""
    lost["status"]["containerStatuses"][0]["name"] = "gone-from-the-spec"
    virtual["spec"]["runtimeClassName"] = "kata"
    folders = listed(world, early, lost, virtual)
    for folder, uid in zip(folders[1:], ("lost", "vm"), strict=True):
        assert world.text(folder, "cpu.shares") == "512"
        assert world.text(f"{folder}/{uid}c", "cpu.shares") == "1023"
    assert world.standalone.last.errors == 0


def test_pods_that_vanish_during_a_round_are_not_errors_and_leave_no_waiting_writes(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    (folder,) = listed(world, batch("a"))
    world.no_cgroup(folder)
    world.round()
    assert (world.standalone.last.errors, world.standalone.last.outcomes[Outcome.GONE]) == (0, 6)
    assert world.parts.executor.counts()["waiting writes"] == 0


def core(**policies: Any) -> dict[str, Any]:
    strategy = {"policies": policies, "lsClass": {"cpuQOS": {"enable": True}}}
    return {"spec": {"resourceQOSStrategy": strategy}}


def test_cookies_are_given_to_a_group_and_removed_with_the_rule(tmp_path: Path) -> None:
    world = World(tmp_path, Node(gates=frozenset({"CoreSched"})))
    world.store.put("NodeSLO", core(cpuPolicy="coreSched"), "test")
    one, two = pod("a", n.LS), pod("b", n.LS)
    world.pod(one, sandbox="ap", first_pid=100)
    world.pod(two, sandbox="bp", first_pid=200)
    world.source.replace([one, two])
    world.round()
    assert len({world.pids.cookies[pid] for pid in (100, 101, 200, 201)}) == 1
    assert world.pids.cookies[100]
    world.store.put("NodeSLO", core(), "test")
    world.round()
    assert {world.pids.cookies[pid] for pid in (100, 101, 200, 201)} == {0}


def test_pods_of_the_system_keep_the_default_cookie(tmp_path: Path) -> None:
    world = World(tmp_path, Node(gates=frozenset({"CoreSched"})))
    world.store.put("NodeSLO", core(cpuPolicy="coreSched"), "test")
    world.pod(pod("a", n.SYSTEM), first_pid=100)
    world.pod(pod("b", n.LS), first_pid=200)
    world.source.replace([pod("a", n.SYSTEM), pod("b", n.LS)])
    world.round()
    assert world.pids.cookies.get(100, 0) == 0 and world.pids.cookies[200]
    world.source.replace([pod("a", n.SYSTEM), pod("b", n.SYSTEM)])
    world.round()
    assert world.pids.cookies[200] == 0


def test_no_pod_gets_a_cookie_while_group_identity_cannot_be_disabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, Node(gates=frozenset({"CoreSched"})))
    world.store.put("NodeSLO", core(cpuPolicy="coreSched"), "test")
    world.pod(pod("a", n.LS), first_pid=100)
    world.source.replace([pod("a", n.LS)])
    with monkeypatch.context() as patch:
        refused = Result("node", GROUP_IDENTITY, 0, Outcome.REFUSED, "no")
        patch.setattr(reconcile, "set_switch", lambda _root, _name, _value: refused)
        world.round()
        assert not world.pids.cookies.get(100)
    world.round()
    assert world.pids.cookies[100]


def test_unneeded_cookies_of_an_earlier_agent_are_removed(tmp_path: Path) -> None:
    world = World(tmp_path, Node(gates=frozenset({"CoreSched"})))
    world.store.put("NodeSLO", core(cpuPolicy="coreSched"), "test")
    out = pod("a", n.LS)
    out["metadata"]["labels"][core_sched.LABEL_CORE_POLICY] = "none"
    world.pod(out, first_pid=100)
    member = pod("b", n.LS)
    world.pod(member, first_pid=200)
    world.pids.cookies |= {100: 7, 200: 9}
    world.source.replace([out, member])
    world.round()
    assert (world.pids.cookies[100], world.pids.cookies[200]) == (0, 9)


def test_values_of_a_pod_and_its_containers_have_their_hook_and_reason(tmp_path: Path) -> None:
    world = World(tmp_path, Node())
    listed(world, batch("a"))
    account = world.history.account("ns/a")
    assert account is not None
    rows = {(row["container"], row["field"]): (row["hook"], row["value"]) for row in account["values"]}
    assert rows["", "cpu.shares"] == rows["c", "cpu.shares"] == ("BatchResource", "512")
    assert {row["outcome"] for row in account["writes"]} <= {"applied", "unchanged"}
    assert 'nri_agent_decisions_total{stage="ReconcileContainer",transport="standalone"} 1.0\n' in scrape(
        world.observer
    )


def test_removed_pods_leave_no_memory_behind(tmp_path: Path) -> None:
    assert held_after_pods(tmp_path, 300) == [], "this is held without a bound"


def over(stored: dict[str, tuple[int, int]]) -> list[str]:
    """The counts that exceed their maximum, as texts."""
    return [f"{name}: {actual}, at most {maximum}" for name, (actual, maximum) in stored.items() if actual > maximum]


def held_after_pods(folder: Path, pods: int) -> list[str]:
    """Run this many pods, fifty at a time, in renamed cgroups; return the counts that exceed their bounds."""
    world = World(folder, Node())
    names = [f"pod-{number}" for number in range(50)]
    for name in names:
        world.pod(batch(name))
    below = [folder / TOP / controller / "kubepods/besteffort" for controller in CONTROLLERS]
    descriptors = len(os.listdir("/proc/self/fd"))
    for turn in range(pods // 50):
        fresh = [f"{turn}-{number}" for number in range(len(names))]
        for old, new in zip(names, fresh, strict=True):
            for top in below:
                (top / f"pod{old}").rename(top / f"pod{new}")
                (top / f"pod{new}/{old}c").rename(top / f"pod{new}/{new}c")
        names = fresh
        world.source.replace([batch(name) for name in names])
        world.clock.now += 10
        world.standalone.round(frozenset({"pods"}))
        assert (world.standalone.last.items, world.standalone.last.errors) == (100, 0)
    stored = world.parts.executor.counts()
    return over(
        {
            "waiting writes": (stored["waiting writes"], 0),
            "written values": (stored["written values"], 12 * 50 * 6),  # those of the last two minutes
            "history": (len(world.history), 1024),
            "descriptors": (len(os.listdir("/proc/self/fd")), descriptors),
        }
    )


def test_a_pod_that_fails_in_every_round_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, Node())
    bad = pod("bad", n.LS)
    bad["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "many"}}
    listed(world, bad)
    for _ in range(5):
        world.round()
    assert world.standalone.last.errors
    assert caplog.text.count("decision for a pod failed") == 1
