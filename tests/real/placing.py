"""topology-aware and balloons beside a real runtime: pods come and go, and find their CPUs and memory nodes inside.

One job: :class:`Placing`, a policy's plugin as a program of its own beside a runtime. Rules: what a container should
find is decided on paper, by the same policy over the machine that this is, so that the table holds on any; the cases
of tests/conformance say that those decisions are right. The tests: test_placement.py here, in tests/engine and in
tests/guest.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc

from nri.api import cpuset
from nri.host import Root, read_topology
from nri.kube.requests import ANNOTATION
from nri.placement.checkpoint import Checkpoint
from nri.placement.choices import Choices
from nri.placement.containers import NoPlace, Pins
from nri.placement.machine import Machine
from nri.placement.recorded.machines import make_policy
from tests.support.needs import need
from tests.support.placement import container, sequence
from tests.support.plugin_program import PluginProgram
from tests.support.waiting import wait_for
from tools.runtimes import Containerd
from tools.runtimes.cri import Pod
from tools.runtimes.daemon import Runtime

TOPOLOGY = read_topology(Root("/"))
CPUS = sorted(TOPOLOGY.online)
#: What a container finds that is pinned to nothing.
ALL = frozenset(CPUS), frozenset(number for number, node in TOPOLOGY.nodes.items() if node.memory_bytes)
CONFIGS: dict[str, dict[str, Any]] = {
    "topology-aware": {"reservedResources": {"cpu": f"cpuset:{CPUS[0]}"}},
    "balloons": {
        "reservedResources": {"cpu": "1"},
        "balloonTypes": [
            {"name": "own", "matchExpressions": [{"key": "pod/name", "operator": "Matches", "values": ["own*"]}],
             "preferNewBalloons": True, "maxCPUs": 1},
            {"name": "default", "minBalloons": 0, "shareIdleCPUsInSame": "system"},
        ],
    },
}  # fmt: skip

Sets = tuple[frozenset[int], frozenset[int]]


def sets_of(status: str) -> Sets:
    """The CPUs and memory nodes of a process, by the text of its status."""
    results = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    return cpuset.parse(results["Cpus_allowed_list"]), cpuset.parse(results["Mems_allowed_list"])


class Asked(NamedTuple):
    """What a pod asks for, with its one container: CPU in thousandths; annotations with `_` for `-`."""

    qos: str
    cpu_m: int
    annotations: Mapping[str, str] = MappingProxyType({})


ASKED = {
    "system": Asked("Guaranteed", 100, {"prefer_reserved_cpus": "true", "balloon.balloons": "reserved"}),
    "own": Asked("Guaranteed", 1000),
    "part": Asked("Burstable", 200),
    "idle": Asked("BestEffort", 0),
    "left": Asked("Guaranteed", 1000, {"cpu.preserve": "true", "memory.preserve": "true"}),
}
#: The table: what happens, one after the other; after each step all containers are looked at.
STEPS = (
    *(("create", name) for name in ("system", "own", "idle", "left", "part")),
    *(("stop", "own"), ("create", "part"), ("stop", "idle"), ("create", "own")),
)
_MEMORY = "16Mi"
_BYTES = 16 << 20


class Placing:
    """A policy beside a runtime, its state in a folder, and the pods of a test."""

    def __init__(self, daemon: Runtime, name: str, folder: Path) -> None:
        need(len(CPUS) > 1, "two CPUs")
        self.daemon, self.name, self.folder = daemon, name, folder
        self.pods: dict[str, tuple[Pod, str]] = {}
        self.program: PluginProgram | None = None
        self.state = folder / "state" / f"{name}.json"
        self._config = folder / "policy.json"
        self.configure()

    def configure(self, text: str = "", **more: Any) -> None:
        """Write the plugin's configuration, with these keys besides; or a text in its place."""
        full = {**CONFIGS[self.name], "stateDir": str(self.folder / "state"), **more}
        (self.folder / "new").write_text(text or json.dumps(full))
        (self.folder / "new").replace(self._config)

    # -- the plugin ---------------------------------------------------------------------------------------------------

    def start(self) -> PluginProgram:
        """Start the plugin, and wait until it takes part."""
        with self._taking_part():
            flags = ("-idx", "90", "-socket", self.daemon.nri_socket, "-config", self._config)
            program = PluginProgram(self.folder, "-m", f"nri.plugins.{self.name.replace('-', '_')}.plugin", *flags)
            self.program = program
        return program

    def restart_runtime(self) -> None:
        """Kill the runtime and start it again; with a plugin that runs wait until it has come back."""
        self.daemon.kill()
        if self.program is None or self.program.process.poll() is not None:
            self.daemon.start()
            return
        with self._taking_part():
            self.daemon.start()

    @contextmanager
    def _taking_part(self) -> Iterator[None]:
        """Wait at the end until the plugin takes part once more."""
        count = 0 if self.program is None else len(self.program.text())
        before = len(self.daemon.log_lines(f"plugin .*{self.name}.* connected"))
        yield

        def takes_part() -> bool:
            assert self.program is not None and self.program.process.poll() is None, self._log_text()
            if isinstance(self.daemon, Containerd):  # its own word comes after the plugin's
                return len(self.daemon.log_lines(f"plugin .*{self.name}.* connected")) > before
            return "containers placed" in self._log_text()[count:]

        wait_for(takes_part, lambda: f"{self.name} does not take part: {self._log_text()}")

    def _log_text(self) -> str:
        return "" if self.program is None else self.program.text()

    def kill(self) -> None:
        """End the plugin as the kernel does where memory is short."""
        if self.program is not None and self.program.process.poll() is None:
            os.kill(self.program.process.pid, 9)
            self.program.process.wait()

    def squeezed(self) -> set[str]:
        """The pods that came when no plugin was there, and for which there was no room then."""
        assert self.program is not None
        return set(re.findall(r"no place for default/(\S+)/c: .*; it runs without", self.program.text()))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def create(self, name: str) -> bool:
        """Run a pod with its container; False if the plugin refuses it."""
        requested = ASKED[name.partition("-")[0]]
        amounts = {"cpu": f"{requested.cpu_m}m", "memory": _MEMORY} if requested.cpu_m else {}
        limits = amounts if requested.qos == "Guaranteed" else {}
        argument = {
            f"{key.replace('_', '-')}.resource-policy.nri.io": value for key, value in requested.annotations.items()
        }
        argument[ANNOTATION] = json.dumps({"containers": {"c": {"requests": amounts, "limits": limits}}})
        cri = self.daemon.cri
        pod = cri.run_pod(name, annotations=argument, under=requested.qos.lower())
        try:
            self.pods[name] = pod, cri.run(pod, "c")
        except grpc.RpcError as error:
            cri.remove_pod(pod.id)
            assert f"no place for default/{name}/c: " in str(error.details()), error
            return False
        return True

    def stop(self, name: str) -> None:
        """Remove a pod, if it is there."""
        if name in self.pods:
            self.daemon.cri.remove_pod(self.pods.pop(name)[0].id)

    def inside(self, name: str) -> Sets:
        """The CPUs and memory nodes of a container, as a process in it finds them."""
        return sets_of(self.daemon.cri.exec(self.pods[name][1], "cat", "/proc/self/status"))

    def all_inside(self) -> dict[str, Sets]:
        """Those of all containers."""
        return {name: self.inside(name) for name in self.pods}


@contextmanager
def placing(daemon: Runtime, name: str, folder: Path) -> Iterator[Placing]:
    """A policy beside a runtime, until the end of the `with`; then its pods and its plugin are gone."""
    instance = Placing(daemon, name, folder)
    try:
        yield instance
    finally:
        for pod in list(instance.pods):
            instance.stop(pod)
        instance.kill()


def assert_found_as_decided(beside: Placing) -> set[frozenset[int]]:
    """Each step of the table, then a killed plugin: a container finds just what is decided on paper.

    Returns the sets of memory nodes that some container found.
    """
    observed = set[frozenset[int]]()
    policy = make_policy(beside.name, Machine.of(TOPOLOGY), CONFIGS[beside.name], Choices.DEFAULT)
    beside.start()
    for step, name in STEPS:
        requested = ASKED[name]
        if step == "stop":
            policy.release(name)
            beside.stop(name)
        elif name not in beside.pods:
            on_paper = container(
                name, requested.cpu_m, _BYTES if requested.cpu_m else 0, requested.qos, **requested.annotations
            )
            if requested.qos == "Burstable":
                on_paper.requests = on_paper.requests._replace(memory_limit_bytes=0)
            try:
                policy.create(on_paper)
                placed = True
            except NoPlace:
                placed = False
            assert beside.create(name) is placed, f"{step} {name}"
        expected = {pod: _sets(policy.pins.get(pod, Pins())) for pod in beside.pods}
        container_sets = beside.all_inside()
        assert container_sets == expected, f"{beside.name}: {step} {name}"
        observed |= {mems for _, mems in container_sets.values()}
    beside.kill()
    beside.start()
    assert beside.all_inside() == container_sets, "after the plugin was killed"
    return observed


def _sets(pins: Pins) -> Sets:
    return cpuset.parse(pins.cpus or "") or ALL[0], cpuset.parse(pins.mems or "") or ALL[1]


KINDS = ("own", "part", "idle", "own")
POINTS = ("", "before", "amid", "without", "runtime", "both")


def assert_kills_move_nothing(beside: Placing, pods: int) -> None:
    """A drawn sequence of pods; before, in the middle of, or for the whole of a step the plugin is killed.

    Or before a step the runtime is, or both are.

    A container that has CPUs of its own has them until it ends, and nobody else has them.
    """
    draw, exclusive_sets, kills = random.Random(24), dict[str, Sets](), 0
    beside.start()
    for step, number in sequence(pods, 4):
        name, point = f"{KINDS[number % len(KINDS)]}-{number}", draw.choice(POINTS)
        kills += bool(point)
        if point in ("before", "without", "both"):
            beside.kill()
        if point in ("runtime", "both"):
            beside.restart_runtime()
        if point in ("before", "both"):
            beside.start()
        if point == "amid":
            _kill_amid(beside, step, name)
        else:
            getattr(beside, step)(name)
        if point in ("amid", "without"):
            beside.start()
        exclusive_sets = {entry: sets for entry, sets in exclusive_sets.items() if entry in beside.pods}
        wait_for(lambda: not _granted_twice(beside), lambda: f"granted twice: {_granted_twice(beside)}")
        container_sets = beside.all_inside()
        assert {entry: container_sets[entry] for entry in exclusive_sets} == exclusive_sets, (
            f"moved, {point or 'no kill'} at {step} {name}"
        )
        exclusive_sets |= {
            entry: container_sets[entry]
            for entry in container_sets
            if entry.startswith("own") and entry not in beside.squeezed()
        }
    assert kills > pods / 2
    beside.kill()
    beside.start()  # the last end may not have been written yet
    saved, complaint = Checkpoint(str(beside.state.parent), beside.name).read()
    assert saved is not None, complaint
    assert saved.containers == {}


def _kill_amid(beside: Placing, step: str, name: str) -> None:
    """Kill the plugin when it has just written down what it decided, its answer perhaps on its way."""
    before = beside.state.stat().st_mtime_ns
    worker = threading.Thread(target=getattr(beside, step), args=(name,))
    worker.start()
    wait_for(lambda: not worker.is_alive() or beside.state.stat().st_mtime_ns != before, "a decision")
    beside.kill()
    worker.join()


def _granted_twice(beside: Placing) -> set[tuple[str, str]]:
    """Containers with CPUs of their own, and others that have some of them."""
    container_sets, squeezed = beside.all_inside(), beside.squeezed()
    pinned = {name: cpus for name, (cpus, _) in container_sets.items() if cpus != ALL[0] and name not in squeezed}
    return {
        (one, other)
        for (one, actual), (other, reference) in permutations(pinned.items(), 2)
        if one.startswith("own") and actual & reference
    }
