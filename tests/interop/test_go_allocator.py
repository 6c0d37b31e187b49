"""Plugins in Go that rebalance others, name nobody, and refuse, under 8 threads: as the field's own plugins do.

An allocator of exclusive CPUs tells all other containers what is left whenever it gives some away: those that other
threads are just creating, and those whose creation a plugin behind it refused. An agent answers every UpdateContainer
with an update without an id. None of this may fail a request of somebody else, and none of it may be lost.

What a runtime may expect of updates for containers that are not there:

* A container is being created until the runtime has the reply and has committed it. No update of it is in somebody
  else's reply before that: the runtime could not apply it, and would put the older CPUs of the creation over it.
* As soon as that creation is committed, the runtime is told of what was asked for meanwhile, by its `update`. What is
  older than what it has heard since, it tells by the numbers of answers, and leaves alone.
* Never is it told of a container whose creation was refused, nor of one without a name.
* When no request is under way, no CPU that one container has for itself is another one's, too.

Replies are returned to many threads at once, so a runtime has to know which of two is the later one, and does as
docs/howto/runtime.md says; the allocator numbers its decisions, by which that is checked. Reference mode passes
everything on at once, as the reference does: there the runtime keeps what it is told of a container that it is still
creating.
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


def test_in_the_reference_fails_what_is_refused_and_nothing_else(reference: dict[tuple[str, str], str]) -> None:
    assert set(reference) == refused(lives(400))
    assert len(reference) > 50


@pytest.mark.parametrize("mode", MODES)
def test_no_request_fails_that_the_reference_lets_pass(
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


class Told(NamedTuple):
    """Something that the runtime was told of a container's CPUs.

    Attributes:
        how: "adjustment", "reply" (an update in somebody's reply), "update" (the callback), or "unasked" (the
            callback, with a request of the plugin's own).
        state: of the container for the runtime: "asked", "made", "refused", "gone", "unknown".
        decision: the number of the allocator's decision.
    """

    how: str
    container: str
    state: str
    cpus: frozenset[int]
    decision: int
    exclusive: bool


class Node:
    """A runtime that remembers what it was told, in order, and what its containers have by that."""

    def __init__(self, folder: Path, mode: Mode) -> None:
        self.side = OurSide(folder, mode, take=self._reply, update=self._update)
        self.told: list[Told] = []
        self.stale: list[tuple[Told, Told]] = []
        self.overlaps: list[str] = []
        self._latest: dict[str, Told] = {}
        self._orders: dict[str, FieldOrder] = {}
        self._states: dict[str, str] = {}
        self._lock = threading.Lock()

    def send(self, request: Request) -> Outcome:
        """A request of a runtime that keeps its books."""
        container = "" if request.container is None else request.container.id
        begins = {"CreateContainer": "asked", "StopContainer": "gone", "RemoveContainer": "gone"}.get(request.event)
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
                self._states[own_entry] = "made"
                self._tell("adjustment", own_entry, message.adjust.linux.resources, reply.numbers)
            for update in message.update:
                if update.ByteSize():  # the last one of UpdateContainer's is empty if nobody has changed the request
                    numbers = reply.numbers if update.container_id == own_entry else reply.updates.numbers(update)
                    self._tell("reply", update.container_id, update.linux.resources, numbers)
        if request.event == "CreateContainer":
            time.sleep(random.choice(MAKING_S))

    def _update(self, updates: OrderedUpdates) -> None:
        with self._lock:
            for update in updates:
                self._tell("update", update.container_id, update.linux.resources, updates.numbers(update))

    def _tell(self, how: str, container: str, resources: m.LinuxResources, numbers: SequenceNumbers) -> None:
        order = self._orders.setdefault(container, FieldOrder())
        update = m.ContainerUpdate(container_id=container)
        update.linux.resources.CopyFrom(resources)
        result = UpdateResult(update)
        newest = order.newest(resources, numbers, result)
        order.note(result, numbers)
        marks, applied = resources.unified, newest.unified
        if "test.unasked" in marks:
            how = "unasked"
        messages = Told(
            how,
            container,
            self._states.get(container, "unknown"),
            frozenset(map(int, filter(None, resources.cpu.cpus.split(",")))),
            int(marks.get("test.decision", 0)),
            marks.get("test.owner") == "exclusive",
        )
        self.told.append(messages)
        if container and "test.decision" not in applied:
            return  # the allocator had nothing to say, or has said something newer
        latest = self._latest.get(container)
        if latest is not None and messages.decision < latest.decision:
            self.stale.append((messages, latest))
            return
        self._latest[container] = messages

    def at_rest(self) -> bool:
        """Whether no CPU is in common that should not be; what is being told at this moment is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while overlaps := self._overlaps():
            if time.monotonic() > deadline:
                self.overlaps = overlaps
                return False
            time.sleep(0.01)
        return True

    def _overlaps(self) -> list[str]:
        with self._lock:
            created = [messages for name, messages in self._latest.items() if self._states.get(name) == "made"]
        return [
            f"{sorted(one.cpus & other.cpus)} of {one} are also with {other}"
            for one in created
            for other in created
            if one.exclusive and one is not other and one.cpus & other.cpus
        ]


class Run(NamedTuple):
    """What a node was told in the lives that were lived on it."""

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


def test_nothing_fails_but_what_plugins_refuse(run: Run) -> None:
    more = {key: error for key, error in failures(run.lives).items() if key not in refused(run.lives)}
    assert not more, f"{len(more)} requests of {len(run.lives)} lives fail for nothing, such as {_some(more)}"
    assert set(failures(run.lives)) == refused(run.lives), "a refusal was not heard"


def test_no_two_containers_are_left_with_an_exclusive_cpu_in_common(run: Run) -> None:
    assert not run.node.overlaps, "\n".join(run.node.overlaps[:5])
    granted = [message for message in run.node.told if message.how == "adjustment" and message.exclusive]
    updates = [message for message in run.node.told if message.how == "reply"]
    assert len(granted) > 500 and len(updates) > 5000, "so few say nothing"


def test_what_was_asked_for_a_container_in_the_making_is_told_by_the_callback(run: Run) -> None:
    """Or, in reference mode, at once."""
    how = "update" if run.mode == "default" else "reply"
    remaining = [
        message
        for message in run.node.told
        if message.how == how and (run.mode == "default" or message.state == "asked")
    ]
    assert remaining, "2,000 lives by 8 threads, and nobody was rebalanced while being created"


def test_replies_do_not_name_what_the_runtime_has_not_made(run: Run) -> None:
    if run.mode == "reference":
        return  # it passes on what plugins say
    wrong = [message for message in run.node.told if message.state in ("asked", "refused", "unknown")]
    assert not wrong, f"{len(wrong)} of {len(run.node.told)}, such as {wrong[0]}"


def test_nothing_older_comes_into_force_after_something_newer(run: Run) -> None:
    if run.mode == "reference":
        return  # it numbers nothing
    assert not run.node.stale, f"{len(run.node.stale)}, such as {run.node.stale[0][0]} after {run.node.stale[0][1]}"
