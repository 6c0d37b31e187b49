"""Standalone mode on a real kernel: values of runc containers are decided, written and repaired.

Rules: the hierarchies that the agent sees begin at a cgroup of the test's own, so that its `kubepods` is nobody
else's. The same tests run on cgroup v1 here and on cgroup v2 in the guest of tests/guest.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri.agent import cgroup_paths as paths
from nri.agent.decisions import Decisions
from nri.agent.executor import Executor
from nri.agent.history import History
from nri.agent.koordinator import batch_resource, cpu_normalization, cpuset, oom_score_adj
from nri.agent.koordinator import names as n
from nri.agent.koordinator.node import Node
from nri.agent.koordinator.profile import HOOKS, PROFILE
from nri.agent.observer import Observer
from nri.agent.parts import Parts
from nri.agent.pods.source import PodList
from nri.agent.profile import Profile
from nri.agent.rules.store import RuleStore
from nri.agent.settings.values import AgentSettings
from nri.agent.transports.standalone import Standalone
from nri.host import Hierarchies, Outcome, Root, Unsupported, Writer, detect, probe
from tests.real.bundles import Bundles, rootfs, wait_own_process
from tests.support.needs import need_machine, need_root, need_tool
from tests.support.pod_folders import pod_folder
from tools.runtimes.machine import PATIENCE

MIB = 1 << 20


class Source(PodList):
    """Pods that the test gives."""

    def start(self) -> None:
        """Nothing to connect to."""

    def stop(self) -> None:
        """Nothing to end."""


class Machine:
    """A part of this machine that is the agent's alone, and standalone mode on it.

    Args:
        bundles: makes containers.
        top: the cgroup that is its own, and the top for the agent.
        node: the rules.
        profile: whose they are.
        full: the agent sees the machine's own top, which has settings that no other cgroup has.
    """

    def __init__(
        self, bundles: Bundles, top: str, node: object, *, profile: Profile = PROFILE, full: bool = False
    ) -> None:
        self.bundles, self.top = bundles, top
        self.prefix = f"{top}/" if full else ""
        self.names: list[str] = []
        root = Root()
        self.everything = detect(root)
        rows = tuple(replace(row, path=f"{row.path}/{top}") for row in self.everything.rows)
        self.hierarchies = self.everything if full else Hierarchies(root, rows)
        self.store, self.source, self.history, observer = (
            RuleStore(node, profile.kinds),
            Source(),
            History(),
            Observer(),
        )
        executor = Executor(root, observer=observer, hierarchies=self.hierarchies)
        decisions = Decisions(profile, self.store, executor, self.history, observer)
        self.parts = Parts(
            profile,
            root,
            self.store,
            self.source,
            decisions,
            executor,
            self.history,
            observer,
            chosen_driver=paths.CGROUPFS,
        )
        self.standalone = Standalone(AgentSettings(), self.parts)

    def run(self, manifest: Mapping[str, Any], command: str = "sleep 600") -> tuple[str, str, int]:
        """Run the container of a pod; return the folders of both, and its process."""
        pod = f"{self.prefix}{pod_folder(manifest, paths.CGROUPFS)}"
        (status,) = manifest["status"]["containerStatuses"]
        name = status["containerID"].removeprefix("containerd://")
        self.names.append(name)
        spec = self.bundles.spec(command)
        spec["linux"]["cgroupsPath"] = f"/{self.top}/{pod.removeprefix(self.prefix)}/{name}"
        self.bundles.start(str(self.bundles.bundle(name, spec)), name)
        pid = json.loads(self.bundles.call("state", name))["pid"]
        wait_own_process(pid)
        return pod, f"{pod}/{name}", pid

    def round(self, *reasons: str) -> None:
        """One round."""
        self.standalone.round(frozenset(reasons or {"timer"}))

    def value(self, folder: str, knob: str) -> Any:
        """The value of a knob."""
        return Writer(self.hierarchies, refresh_s=0).read(folder, knob)

    def overwrite(self, folder: str, knob: str, text: str) -> None:
        """Write the file of a knob, as somebody else."""
        place = probe(self.hierarchies, knob, folder)
        assert not isinstance(place, Unsupported), place.reason
        Path(place.path).write_text(text)

    def clean(self) -> None:
        """Leave nothing behind."""
        for name in self.names:
            self.bundles.call("delete", "--force", name, check=False)
        deadline = time.monotonic() + 20 * PATIENCE
        while self.remaining_cgroups() and time.monotonic() < deadline:  # a process that was killed ends a moment later
            for top in self.remaining_cgroups():
                for folder, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)

    def remaining_cgroups(self) -> list[str]:
        """The remaining top cgroups of this machine object, one per hierarchy."""
        tops = [f"{row.path}/{self.top}" for row in self.everything.rows]
        return [top for top in tops if os.path.exists(top)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    need_root()
    need_tool("runc")
    need_machine((os.cpu_count() or 1) > 1, "second CPU")
    gates = frozenset(row.name for row in HOOKS)
    machine = Machine(
        Bundles(tmp_path, rootfs(tmp_path / "rootfs")), f"nri-alone-{uuid.uuid4().hex[:8]}", Node(gates=gates)
    )
    try:
        yield machine
    finally:
        machine.clean()
    assert not machine.remaining_cgroups()


def pod(qos: str, kube_class: str, annotations: Mapping[str, str] | None = None, limit: str = "") -> dict[str, Any]:
    uid = str(uuid.uuid4())
    resources = {"limits": {"cpu": limit}, "requests": {"cpu": limit}} if limit else {}
    return {
        "metadata": {
            "name": qos.lower(), "namespace": "ns", "uid": uid, "labels": {n.LABEL_QOS: qos},
            "annotations": dict(annotations or {}),
        },
        "spec": {"containers": [{"name": "c", "resources": resources}]},
        "status": {
            "phase": "Running", "qosClass": kube_class,
            "containerStatuses": [{"name": "c", "containerID": f"containerd://alone-{uid[:8]}"}],
        },
    }  # fmt: skip


BATCH = {"requests": {n.BATCH_CPU: "500"}, "limits": {n.BATCH_CPU: "500", n.BATCH_MEMORY: "64Mi"}}


def test_values_of_a_batch_pod_are_applied_and_repaired(machine: Machine) -> None:
    annotations = {
        batch_resource.ANNOTATION_EXTENDED: json.dumps({"containers": {"c": BATCH}}),
        oom_score_adj.ANNOTATION_OOM_SCORE: "777",
    }
    batch = pod(n.BE, paths.BEST_EFFORT, annotations)
    pod_folder, container, pid = machine.run(batch)
    machine.source.replace([batch])
    machine.round()
    expected = {"cpu.shares": 512, "cpu.cfs_quota": 50_000, "memory.limit": 64 * MIB}
    for folder in (pod_folder, container):
        results = {knob: machine.value(folder, knob) for knob in expected}
        # On cgroup v2 a weight stands for several shares.
        assert abs(results.pop("cpu.shares") - 512) < 27
        assert results == {knob: value for knob, value in expected.items() if knob != "cpu.shares"}
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "777\n"
    Path(f"/proc/{pid}/oom_score_adj").write_text("5")
    machine.overwrite(container, "cpu.shares", "10")
    machine.overwrite(container, "cpu.cfs_quota", "20000" if machine.hierarchies.mode != "v2" else "20000 100000")
    machine.round()
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "777\n"
    assert machine.value(container, "cpu.cfs_quota") == 50_000
    assert abs(machine.value(container, "cpu.shares") - 512) < 27
    message = machine.history.account("ns/be")
    assert message is not None
    outcomes = {row["name"]: row["outcome"] for row in message["writes"]}
    assert outcomes["cpu.bvt" if "cpu.bvt" in outcomes else "cpu.shares"] in ("applied", "unchanged", "unsupported")


def test_cpus_of_a_sensitive_pod_follow_the_share_pools(machine: Machine) -> None:
    sensitive = pod(n.LS, paths.BURSTABLE)
    _, container, pid = machine.run(sensitive)
    machine.source.replace([sensitive])
    for cpus in ("1", "0", "0-1"):
        pools = json.dumps([{"socket": 0, "node": 0, "cpuset": cpus}])
        machine.store.put(
            "NodeResourceTopology", {"metadata": {"annotations": {cpuset.ANNOTATION_SHARE_POOLS: pools}}}, "t"
        )
        machine.round("rules", "NodeResourceTopology")
        assert machine.parts.decisions.node.cpus is not None
        expected = {0, 1} if cpus == "0-1" else {int(cpus)}
        assert machine.value(container, "cpuset.cpus") == expected
        assert os.sched_getaffinity(pid) == expected


def test_a_cpu_ratio_changes_pod_and_container_quotas_in_an_accepted_order(
    machine: Machine,
) -> None:
    sensitive = pod(n.LS, paths.BURSTABLE, limit="1")
    pod_folder, container, _ = machine.run(sensitive)
    for folder in (pod_folder, container):
        machine.overwrite(folder, "cpu.cfs_quota", "100000")
    machine.source.replace([sensitive])
    for ratio, quota in (("2", 50_000), ("1.25", 80_000), ("4", 25_000), ("1", 100_000)):
        machine.store.put("Node", {"metadata": {"annotations": {cpu_normalization.ANNOTATION_RATIO: ratio}}}, "t")
        machine.round("rules", "Node")
        assert machine.value(container, "cpu.cfs_quota") == quota
        # On cgroup v1 the pod keeps its requested quota: the runtime creates containers with the requested ones.
        assert machine.value(pod_folder, "cpu.cfs_quota") == (quota if machine.hierarchies.mode == "v2" else 100_000)
        assert machine.standalone.last.outcomes[Outcome.REFUSED] == 0


def test_the_best_effort_cgroup_idles_under_core_scheduling(machine: Machine) -> None:
    batch = pod(n.BE, paths.BEST_EFFORT)
    machine.run(batch)
    machine.source.replace([batch])
    classes = {"beClass": {"cpuQOS": {"enable": True, "schedIdle": 1}}, "policies": {"cpuPolicy": "coreSched"}}
    machine.store.put("NodeSLO", {"spec": {"resourceQOSStrategy": classes}}, "t")
    machine.round("rules", "NodeSLO")
    assert machine.value("kubepods/besteffort", "cpu.idle") == 1
    machine.overwrite("kubepods/besteffort", "cpu.idle", "0")
    machine.round()
    assert machine.value("kubepods/besteffort", "cpu.idle") == 1
    machine.store.put("NodeSLO", {"spec": {}}, "t")
    machine.round("rules", "NodeSLO")
    assert machine.value("kubepods/besteffort", "cpu.idle") == 0


def test_unsupported_values_are_reported_and_a_removed_pod_is_harmless(
    machine: Machine,
) -> None:
    ended_pod, folder = pod(n.LS, paths.BURSTABLE), pod(n.BE, paths.BEST_EFFORT)
    machine.run(folder)
    machine.source.replace([ended_pod, folder])
    identities = {"lsClass": {"cpuQOS": {"enable": True}}, "beClass": {"cpuQOS": {"enable": True}}}
    machine.store.put("NodeSLO", {"spec": {"resourceQOSStrategy": identities}}, "t")
    machine.round("rules", "NodeSLO")
    message = machine.history.account("ns/be")
    assert message is not None
    (row,) = [row for row in message["writes"] if row["name"] == "cpu.bvt"]
    if row["outcome"] == "unsupported":
        assert "Anolis" in row["reason"] and "cpu.idle" in row["reason"]
    assert machine.standalone.last.errors == 0
    assert machine.standalone.health()[0]
