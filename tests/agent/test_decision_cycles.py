"""Thousands of valid, malformed and vanishing pods pass through the agent's core and leave no state."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import threading
from collections import Counter
from pathlib import Path

import pytest

from nri.agent.history import History
from nri.agent.koordinator.batch_resource import annotated
from nri.agent.koordinator.node import Node
from nri.agent.model import Container, Pod
from nri.agent.parts import Parts
from nri.host import Outcome, Root
from tests.support.agents import TOPOLOGY, parts
from tests.support.clock import Clock
from tests.support.host_trees import TOP, write_files

#: Pods until all that is kept for some minutes is full, and as many again twice over, in which nothing may grow.
SETTLED, CYCLES, MOST_PODS = 1_000, 3_000, 256
SPEC = "node.koordinator.sh/extended-resource-spec"
ASKED = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}
GOOD = json.dumps({"containers": {"app": {"requests": ASKED, "limits": ASKED}}})
BAD = ("{", '{"containers": 7}', '{"containers": {"app": {"limits": {"kubernetes.io/batch-cpu": "x"}}}}', "[" * 3000)
FILES = {
    "cpu.weight": "100\n", "cpu.max": "max 100000\n", "memory.max": "max\n", "cpuset.cpus": "\n",
    "cpuset.cpus.effective": "0-3\n", "cgroup.procs": "", "cgroup.threads": "",
}  # fmt: skip


def machine(folder: Path) -> Root:
    files = {f"{TOP}/cgroup.controllers": "cpuset cpu io memory pids\n", f"{TOP}/cgroup.procs": ""}
    return write_files(folder, files | {f"{TOP}/kubepods/besteffort/{name}": text for name, text in FILES.items()})


def cycle(created: Parts, clock: Clock, number: int) -> list[Outcome]:
    """One pod from its creation to its removal; every fifth is malformed, every seventh has vanished already."""
    annotations = {SPEC: BAD[number % len(BAD)] if number % 5 == 0 else GOOD}
    folder = f"kubepods/besteffort/pod{number}"
    pod = Pod(
        "shop", f"web-{number}", f"uid-{number}", {"koordinator.sh/qosClass": "BE"}, annotations, folder,
        extended=annotated(annotations),
    )  # fmt: skip
    app = Container(pod, f"containerd://{number}", "app", f"{folder}/app", extended=(pod.extended or {}).get("app"))
    existing = number % 7 != 0
    place = Path(created.root.path, TOP, folder)
    if existing:
        write_files(place, FILES)
        write_files(place / "app", FILES)
    decisions, collected = created.decisions, []
    collected += decisions.carry_out(pod, decisions.decide("PreRunPodSandbox", pod, "nri"), "nri")
    collected += decisions.carry_out(app, decisions.decide("PreCreateContainer", app, "nri"), "nri")
    clock.now += 0.5
    collected += decisions.carry_out(app, decisions.decide("PreUpdateContainerResources", app, "nri"), "nri")
    collected += decisions.carry_out(pod, decisions.decide("PreRemoveRunPodSandbox", pod, "nri"), "nri")
    if existing:
        shutil.rmtree(place)
    if number % 3:  # every third removal is never reported
        decisions.removed(pod)
    return [result.outcome for result in collected]


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_removed_pods_leave_no_state_threads_or_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own handler keeps the line of each malformed pod, which a program's has written and forgotten.
    monkeypatch.setattr(logging.getLogger("nri.agent.decisions"), "propagate", False)
    monkeypatch.setattr(logging, "lastResort", None)
    clock = Clock()
    history = History(MOST_PODS, now=clock)
    created = parts(
        machine(tmp_path), clock=clock, node=Node(), rules={"NodeResourceTopology": TOPOLOGY}, history=history
    )
    for number in range(SETTLED):
        cycle(created, clock, number)
    gc.collect()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    objects = len(gc.get_objects())
    outcomes: Counter[Outcome] = Counter()
    for number in range(SETTLED, CYCLES):
        outcomes.update(cycle(created, clock, number))
    gc.collect()
    grown = len(gc.get_objects()) - objects
    assert grown < 500, f"{grown} objects more after {CYCLES - SETTLED} pods"
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert len(history) <= MOST_PODS
    stored = created.executor.counts()
    assert stored["waiting writes"] < 400, "those of vanished pods wait for some minutes"
    assert stored["written values"] < 400
    assert outcomes[Outcome.APPLIED] > 5_000
    assert outcomes[Outcome.GONE] > 250
    clock.now += 1000
    cycle(created, clock, CYCLES + 1)
    assert created.executor.counts()["written values"] == 0
