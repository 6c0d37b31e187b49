"""Go plugins that rebalance and refuse containers under 8 threads, as real allocators do.

Whenever an allocator of exclusive CPUs grants some, it updates all other containers with the remaining CPUs, including
containers that other threads are creating and containers whose creation a later plugin refused. An agent answers every
UpdateContainer with an update without an id. None of this may fail another request, and no update may be lost.

What a runtime may expect of updates for containers that are not there:

* A container is being created until the runtime has the reply and has committed it. No update of it is in somebody
  else's reply before that: the runtime could not apply it, and would put the older CPUs of the creation over it.
* As soon as that creation is committed, the runtime receives the updates requested meanwhile, by its `update`. It
  recognizes outdated updates by their sequence numbers and ignores them.
* It never receives an update for a container whose creation was refused, nor for a container without a name.
* When no request is under way, no CPU that one container has for itself is another one's, too.

Replies are returned to many threads at once, so a runtime must know which of two replies is the later one;
docs/howto/runtime.md describes how. The allocator numbers its decisions so that the test can check the order. Reference
mode forwards everything immediately, as the reference does: there the runtime stores updates for a container that it is
still creating.
"""

from __future__ import annotations

import random
import re
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nri.adaptation import FieldOrder, OrderedUpdates, SequenceNumbers, UpdateResult
from nri.api import messages as m
from tests.support.lives import Life, live
from tests.support.sides import MODES, GoSide, Mode, OurSide, Outcome, Request, crew

pytestmark = pytest.mark.timeout(300)  # 6,000 lives on a busy machine

CREW = (("05", "logger"), ("20", "allocator"), ("30", "agent"), ("40", "refuser"), ("90", "validator"))
THREADS = 8
PATIENCE_S = 5.0
#: How long the runtime is at making a container: some are made while others come and go.
MAKING_S = (0.0, 0.0, 0.001, 0.005)


# -- no failure that the reference does not have ----------------------------------------------------------------------


def lives(count: int) -> list[Life]:
    return [Life(seed=9, number=number) for number in range(count)]


def failures(all_lives: list[Life]) -> dict[tuple[str, str], str]:
    return {(life.name, event): error for life in all_lives for event, error in life.failures.items()}


def refused(all_lives: list[Life]) -> set[tuple[str, str]]:
    return {(life.name, event) for life in all_lives for event in life.refused}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """What fails with the reference's own adaptation."""
    lived = lives(400)
    with GoSide(tmp_path_factory.mktemp("go")) as side, crew(side, CREW):
        live(lived, side.send, THREADS)
    return failures(lived)


def test_with_the_reference_only_refused_requests_fail(reference: dict[tuple[str, str], str]) -> None:
    assert set(reference) == refused(lives(400))
    assert len(reference) > 50


@pytest.mark.parametrize("mode", MODES)
def test_every_request_that_the_reference_passes_succeeds(
    mode: Mode, tmp_path: Path, reference: dict[tuple[str, str], str]
) -> None:
    lived = lives(400)
    with OurSide(tmp_path, mode) as side, crew(side, CREW):
        live(lived, side.send, THREADS)
    local = failures(lived)
    more = {key: error for key, error in local.items() if key not in reference}
    assert not more, f"{len(more)} requests of {len(lived)} lives fail for nothing, such as {_some(more)}"
    assert set(local) == set(reference), "a refusal was not heard"
    other = {key: error for key, error in local.items() if error != reference[key]}
    if mode == "default":  # it names the plugin
        other = {key: error for key, error in other.items() if not re.match(r"plugin 40-refuser\b.*refused", error)}
    assert not other, _some(other)


def _some(matches: dict[tuple[str, str], str]) -> str:
    return "; ".join(f"{event} of {name}: {error}" for (name, event), error in sorted(matches.items())[:3])


# -- an allocator of exclusive CPUs -----------------------------------------------------------------------------------


class CpuChange(NamedTuple):
    """A change of a container's CPUs that the runtime received.

    Attributes:
        how: "adjustment", "reply" (an update in somebody's reply), "update" (the callback), or "unasked" (the
            callback, with a request of the plugin's own).
        state: of the container for the runtime: "requested", "created", "refused", "gone", "unknown".
        decision: the number of the allocator's decision.
    """

    how: str
    container: str
    state: str
    cpus: frozenset[int]
    decision: int
    exclusive: bool


class Node:
    """A runtime that records all received CPU changes, in order, and the resulting CPUs of its containers."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        self.side = OurSide(folder, mode, take=self._reply, update=self._update)
        self.changes: list[CpuChange] = []
        self.stale: list[tuple[CpuChange, CpuChange]] = []
        self.overlaps: list[str] = []
        self._latest: dict[str, CpuChange] = {}
        self._orders: dict[str, FieldOrder] = {}
        self._states: dict[str, str] = {}
        self._lock = threading.Lock()

    def send(self, request: Request) -> Outcome:
        """A request of a runtime that keeps its books."""
        container = "" if request.container is None else request.container.id
        begins = {"CreateContainer": "requested", "StopContainer": "gone", "RemoveContainer": "gone"}.get(request.event)
        if begins is not None:
            self._states[container] = begins
        outcome = self.side.send(request)
        if outcome.error is not None and request.event == "CreateContainer":
            self._states[container] = "refused"
        return outcome

    def _reply(self, request: Request, message: Any, reply: Any) -> None:
        own_entry = "" if request.container is None else request.container.id
        with self._lock:
            if request.event == "CreateContainer":
                self._states[own_entry] = "created"
                self._record("adjustment", own_entry, message.adjust.linux.resources, reply.numbers)
            for update in message.update:
                if update.ByteSize():  # the last one of UpdateContainer's is empty if nobody has changed the request
                    numbers = reply.numbers if update.container_id == own_entry else reply.updates.numbers(update)
                    self._record("reply", update.container_id, update.linux.resources, numbers)
        if request.event == "CreateContainer":
            time.sleep(random.choice(MAKING_S))

    def _update(self, updates: OrderedUpdates) -> None:
        with self._lock:
            for update in updates:
                self._record("update", update.container_id, update.linux.resources, updates.numbers(update))

    def _record(self, how: str, container: str, resources: m.LinuxResources, numbers: SequenceNumbers) -> None:
        order = self._orders.setdefault(container, FieldOrder())
        update = m.ContainerUpdate(container_id=container)
        update.linux.resources.CopyFrom(resources)
        result = UpdateResult(update)
        newest = order.newest(resources, numbers, result)
        order.note(result, numbers)
        marks, applied = resources.unified, newest.unified
        if "test.unasked" in marks:
            how = "unasked"
        change = CpuChange(
            how,
            container,
            self._states.get(container, "unknown"),
            frozenset(map(int, filter(None, resources.cpu.cpus.split(",")))),
            int(marks.get("test.decision", 0)),
            marks.get("test.owner") == "exclusive",
        )
        self.changes.append(change)
        if container and "test.decision" not in applied:
            return  # not the allocator's change, or it has sent a newer one
        latest = self._latest.get(container)
        if latest is not None and change.decision < latest.decision:
            self.stale.append((change, latest))
            return
        self._latest[container] = change

    def at_rest(self) -> bool:
        """Whether no exclusive CPU is shared; wait for updates that are still being delivered."""
        deadline = time.monotonic() + PATIENCE_S
        while overlaps := self._overlaps():
            if time.monotonic() > deadline:
                self.overlaps = overlaps
                return False
            time.sleep(0.01)
        return True

    def _overlaps(self) -> list[str]:
        with self._lock:
            created = [change for name, change in self._latest.items() if self._states.get(name) == "created"]
        return [
            f"{sorted(one.cpus & other.cpus)} of {one} are also with {other}"
            for one in created
            for other in created
            if one.exclusive and one is not other and one.cpus & other.cpus
        ]


class Run(NamedTuple):
    """A node with all changes that it received during its containers' lives."""

    mode: Mode
    node: Node
    lives: list[Life]


@pytest.fixture(scope="module", params=MODES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """2,000 lives."""
    node, lived = Node(tmp_path_factory.mktemp("node"), request.param), lives(2000)
    plugins = [(idx, kind) for idx, kind in CREW if kind != "logger"]
    with node.side as side, crew(side, plugins, allocator={"cpus": 48, "unsolicited": True}):
        live(lived, node.send, THREADS, node.at_rest)
    return Run(request.param, node, lived)


def test_only_requests_that_plugins_refuse_fail(run: Run) -> None:
    more = {key: error for key, error in failures(run.lives).items() if key not in refused(run.lives)}
    assert not more, f"{len(more)} requests of {len(run.lives)} lives fail for nothing, such as {_some(more)}"
    assert set(failures(run.lives)) == refused(run.lives), "a refusal was not heard"


def test_no_two_containers_share_an_exclusive_cpu(run: Run) -> None:
    assert not run.node.overlaps, "\n".join(run.node.overlaps[:5])
    granted = [change for change in run.node.changes if change.how == "adjustment" and change.exclusive]
    updates = [change for change in run.node.changes if change.how == "reply"]
    assert len(granted) > 500 and len(updates) > 5000, "too few to be conclusive"


def test_updates_for_a_container_in_creation_arrive_by_the_callback(run: Run) -> None:
    """In reference mode they are in the reply."""
    how = "update" if run.mode == "default" else "reply"
    remaining = [
        change
        for change in run.node.changes
        if change.how == how and (run.mode == "default" or change.state == "requested")
    ]
    assert remaining, "2,000 lives by 8 threads, and nobody was rebalanced while being created"


def test_replies_name_only_containers_that_the_runtime_created(run: Run) -> None:
    if run.mode == "reference":
        return  # it forwards what plugins send
    wrong = [change for change in run.node.changes if change.state in ("requested", "refused", "unknown")]
    assert not wrong, f"{len(wrong)} of {len(run.node.changes)}, such as {wrong[0]}"


def test_older_values_never_replace_newer_values(run: Run) -> None:
    if run.mode == "reference":
        return  # it numbers nothing
    assert not run.node.stale, f"{len(run.node.stale)}, such as {run.node.stale[0][0]} after {run.node.stale[0][1]}"
