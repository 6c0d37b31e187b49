"""Pods of 8 threads under Go plugins: an allocator of exclusive CPUs and others.

Whenever the allocator grants CPUs or gets them back, it updates all other containers with the remaining CPUs. The agent
answers every UpdateContainer with an update without an id. The refuser refuses creations, starts and updates. Whenever
no request is in progress, each container has the CPUs that the allocator reports: according to the kernel, to
provenance, and to the engine's own record. The test runs 40 lives, or 1,000 with `NRI_LIVES=1000`. A second run has an
engine that reports to plugins what a later plugin refused, and an allocator that relies on these reports: it also
grants CPUs in updates that are refused.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.state import ContainerState
from nri.errors import NriError
from tests.engine.node import Node
from tests.support.sides import crew
from tools.runtimes.machine import PATIENCE

LIVES = int(os.environ.get("NRI_LIVES", "40"))
THREADS, ALIVE = 8, 2
CPUS = os.cpu_count() or 1
#: How long what is under way has to come to its end, in seconds.
REST_S = 20.0
#: Events that the refuser refuses, with the percentage of lives.
REFUSALS = {"CreateContainer": 10, "StartContainer": 5, "UpdateContainer": 10}
#: The same, for an engine that reports refusals to plugins.
REPORTED_REFUSALS = REFUSALS | {"UpdateContainer": 40}
_OVER = (ContainerState.EXITED, ContainerState.REMOVING, ContainerState.CREATING)


class Life:
    """One pod and its container on an engine; what it does is drawn from its number."""

    def __init__(self, node: Node, number: int, *, refusals_reported: bool = False) -> None:
        self.node, self.name, self._random = node, f"life{number:04}", Random(number)
        self._refusals_reported = refusals_reported
        self.refused = {
            event
            for event, percent in (REPORTED_REFUSALS if refusals_reported else REFUSALS).items()
            if self._random.randrange(100) < percent
        }
        self.failures: dict[str, str] = {}
        self._pod = self._made = ""

    def begin(self) -> None:
        """From the pod to a container that runs, or that was refused."""
        config = self.node.pod_config(self.name)
        for event in self.refused:
            config.annotations[f"refuser.test/{event}"] = json.dumps({"error": "refused"})
        wish = self._random.choice((0, 0, 1, 1, 2))
        if "UpdateContainer" in self.refused:
            # A grant in a refused update has no effect, and the protocol does not report that to plugins: the allocator
            # would keep counting it. So such a life requests CPUs only if the engine reports refusals.
            config.annotations["cpus.test/at-update"], wish = str(int(self._refusals_reported)), 0
        config.annotations["cpus.test/exclusive"] = str(wish)
        engine = self.node.engine
        self._pod = engine.pod_creation.run(config)
        grants_in_vain = self._refusals_reported and "UpdateContainer" in self.refused
        ends = self._random.random() < 0.2 and not grants_in_vain
        command = ("sh", "-c", "sleep 0.05") if ends else ("sleep", "1000000")
        self._ask("CreateContainer", lambda: self._create(command))
        if not self._made:
            return
        self._ask("StartContainer", lambda: engine.container_start.start(self._made))
        if not ends and "StartContainer" not in self.failures and (grants_in_vain or self._random.random() < 0.4):
            shares = pb.LinuxContainerResources(cpu_shares=512)
            self._ask("UpdateContainer", lambda: engine.resource_updates.update_container(self._made, shares))
        else:
            self.refused.discard("UpdateContainer")

    def _create(self, command: tuple[str, ...]) -> None:
        self._made = self.node.create(self._pod, "main", command)

    def end(self) -> None:
        """From whatever it is to nothing."""
        engine = self.node.engine
        if self._made and self._random.random() < 0.5:
            engine.container_removal.stop(self._made)
            engine.container_removal.remove(self._made)
        if self._random.random() < 0.5:
            engine.pod_removal.stop(self._pod)
        engine.pod_removal.remove(self._pod)

    def _ask(self, event: str, work: Any) -> None:
        try:
            work()
        except NriError as error:
            self.failures[event] = str(error)

    def expected(self) -> set[str]:
        """What of the refusals it came to."""
        if "CreateContainer" in self.refused:
            return {"CreateContainer"}
        return {"StartContainer"} if "StartContainer" in self.refused else self.refused


class Crowd:
    """Lives by several threads, which come to rest together after each; then the books are compared."""

    def __init__(self, node: Node, allocator: Any) -> None:
        self.node, self.socket, self._allocator = node, node.config.nri.socket_path, allocator
        self.errors: list[BaseException] = []
        self.rests = self.exclusive = self.compared = 0
        self._barrier = threading.Barrier(THREADS, self._compare_at_rest)

    def run(self, lives: Sequence[Life]) -> None:
        """Live them all."""
        threads = [threading.Thread(target=self._live, args=(lives[first::THREADS],)) for first in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in self.errors:
            raise error

    def _live(self, lives: Sequence[Life]) -> None:
        try:
            alive: deque[Life] = deque()
            for life in lives:
                if len(alive) == ALIVE:
                    alive.popleft().end()
                life.begin()
                alive.append(life)
                self._barrier.wait(REST_S * 5 * PATIENCE)
            while alive:
                alive.popleft().end()
        except threading.BrokenBarrierError:
            pass  # another thread has the reason
        except BaseException as error:
            self.errors.append(error)
            self._barrier.abort()

    def _compare_at_rest(self) -> None:
        deadline = time.monotonic() + REST_S * PATIENCE
        while differing := self._differing():
            assert time.monotonic() < deadline, f"after {self.rests} rests: " + "; ".join(differing)
            time.sleep(0.02)
        self.rests += 1

    def _differing(self) -> list[str]:
        """Return one line for each container that differs from the allocator's report."""
        has = self._allocator.events("has")
        containers = has[-1]["containers"] if has else {}
        records = [entry.record for entry in self.node.engine.inventory.containers() if entry.record.state not in _OVER]
        if sorted(containers) != sorted(record_.id for record_ in records):
            return [f"the allocator has {sorted(containers)}, the engine {sorted(record_.id for record_ in records)}"]
        actual = []
        for record in records:
            cpus, owner = containers[record.id]
            views = {
                "the kernel": self._kernel(record.id),
                "provenance": _plain(self._provenance(record.id)),
                "the record": _plain(record.resources.get("cpuset_cpus", "")),
            }
            wrong = [f"{who}: {view}" for who, view in views.items() if view != cpus]
            if wrong:
                actual.append(
                    f"{record.id} has {cpus} ({owner}); {', '.join(wrong)}; {self._explained(record.id).notes}"
                )
            self.exclusive += owner == "exclusive"
            self.compared += 1
        return actual

    def _kernel(self, container: str) -> str:
        try:
            return _plain(self.node.cgroup(container, "cpuset", "cpuset.cpus"))
        except OSError:
            return "nothing, as it ends just now"

    def _explained(self, container: str) -> Any:
        adaptation = self.node.engine.nri.adaptation
        assert adaptation is not None and adaptation.provenance is not None
        explained = adaptation.provenance.explain(container)
        assert explained is not None, f"nothing is remembered of {container}"
        return explained

    def _provenance(self, container: str) -> str:
        steps = [
            step for step in self._explained(container).steps if step.change.field == "CPUSetCPUs" and not step.note
        ]
        return str(steps[-1].change.after) if steps else "nothing"


def _plain(cpus: str) -> str:
    """A list of CPUs without ranges."""
    rows = [row.partition("-") for row in cpus.split(",") if row[:1].isdigit()]
    return ",".join(str(cpu) for a, _, b in rows for cpu in range(int(a), int(b or a) + 1)) or cpus


class _Joining:
    """What `crew` asks of a side."""

    def __init__(self, node: Node) -> None:
        self.node, self.socket = node, node.config.nri.socket_path

    def joined(self, labels: Sequence[str]) -> None:
        adaptation = self.node.engine.nri.adaptation
        assert adaptation is not None and adaptation.ready(labels, REST_S * PATIENCE)


@pytest.mark.timeout(max(300, LIVES * 2))
@pytest.mark.parametrize("refusals_reported", [False, True], ids=["not reported", "reported"])
def test_kernel_provenance_and_go_plugins_agree_after_churn(node: Node, refusals_reported: bool) -> None:
    node.config = replace(node.config, nri=replace(node.config.nri, tell_refused=refusals_reported))
    node.start()
    kinds = (("20", "allocator"), ("30", "agent"), ("40", "refuser"))
    options = {"cpus": CPUS, "shared": 1, "tell": True, "unsolicited": True, "believe": refusals_reported}
    with crew(_Joining(node), kinds, allocator=options) as running:  # type: ignore[arg-type]
        crowd = Crowd(node, running["allocator"])
        lives = [Life(node, number, refusals_reported=refusals_reported) for number in range(LIVES)]
        began = time.monotonic()
        crowd.run(lives)
        took = time.monotonic() - began
        wrong = {life.name: life.failures for life in lives if {*life.failures} != life.expected()}
        assert not wrong, f"{len(wrong)} of {LIVES} lives fail otherwise than they were to: {wrong}"
        assert all("40-refuser" in text for life in lives for text in life.failures.values())
        allocator = running["allocator"]
        assert allocator.events("has")[-1]["containers"] == {}, "the allocator has not got everything back"
        # Of forty lives it may be that none met a CPU that was free when its update was refused.
        assert not refusals_reported or CPUS < 2 or LIVES < 200 or allocator.events("took_back"), "no grant was refused"
        assert crowd.rests == LIVES // THREADS and crowd.compared > LIVES
        assert CPUS < 2 or crowd.exclusive >= LIVES // 40, "hardly any CPU was given away"
    counted = f"{crowd.compared} comparisons, {crowd.exclusive} with exclusive CPUs"
    print(f"\n{LIVES} lives in {took:.1f} s, {counted}, {len(allocator.events('took_back'))} grants taken back")
    node.assert_nothing_left()
