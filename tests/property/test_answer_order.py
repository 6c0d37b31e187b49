"""A plugin's later answer wins in any thread order: random histories with threads delayed at every step.

Three plugins answer creations, updates and stops, and ask for updates by themselves, all about a few containers; a
fourth one joins in the middle, and asks for updates in its answer to Synchronize as well. Creations commit or fail. One
thread runs at a time, and which one is drawn at every step: before a plugin answers, between its answer and its merge,
before the adaptation or the runtime takes a lock. An event that waits for its turn at a plugin may miss it. In the end
each container and its history have the values of a model of ten lines.
`NRI_HISTORIES=100000` draws more of them.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from nri.adaptation import Adaptation, BuiltinPlugin, FieldOrder, OrderedUpdates, UpdateResult
from nri.adaptation.adaptation import parts_of
from nri.adaptation.dispatch.event import AnsweredEvent
from nri.adaptation.peers.builtin import BuiltinPeer
from nri.adaptation.peers.state import JOINED, Signal
from nri.adaptation.peers.turns import Ticket
from nri.adaptation.registration import sync_gate
from nri.api import messages as m
from nri.errors import NriError
from nri.ttrpc.waiters import ARRIVALS

pytestmark = pytest.mark.pure

HISTORIES = int(os.environ.get("NRI_HISTORIES", "1000"))
FIELDS = ("shares", "quota", "memory_high")
PLUGINS = ("10-a", "20-b", "30-c")
#: Joins in the middle of a history.
GUEST = "25-d"
#: What threads do; some of it more often.
KINDS = ("create", "create", "early", "late", "change", "change", "change", "stop", "plugin", "plugin", "plugin")
#: How often a plugin joins.
JOINS = 0.5


class Word(NamedTuple):
    """One field that a plugin, or the runtime's own request, gives a container; `by` is its event."""

    number: float
    by: object
    container: str
    field: str
    value: int


#: The value of each field, by container and field.
Values = dict[tuple[str, str], int]


def model(words: list[Word], failed: set[object], before: Values) -> Values:
    """The last word on each field, of events that have not failed."""
    now = dict(before)
    for word in sorted(words, key=lambda word: word.number):
        if word.by not in failed and (word.container, word.field) in before:
            now[word.container, word.field] = word.value
    return now


class Baton:
    """Lets one thread run at a time; which one continues at a pause is drawn."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._go: dict[int, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)
        self._over: set[int] = set()
        self.errors: list[BaseException] = []

    def run(self, works: list[Callable[[], None]]) -> None:
        threads = [threading.Thread(target=self._one, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
            assert self._back.acquire(timeout=60)
        while waiting := [ident for ident in self._go if ident not in self._over]:
            self._go[self._draw.choice(waiting)].release()
            assert self._back.acquire(timeout=60), "a thread hangs"

    def _one(self, work: Callable[[], None]) -> None:
        self._go[threading.get_ident()] = threading.Semaphore(0)
        try:
            self.pause()
            work()
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._over.add(threading.get_ident())
            self._back.release()

    def pause(self) -> None:
        own_entry = self._go.get(threading.get_ident())
        if own_entry is not None:
            self._back.release()
            own_entry.acquire()


class PausingLock:
    """A lock that is never taken without a pause before."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self._pause, self._lock = pause, threading.Lock()

    def __enter__(self) -> None:
        self._pause()
        assert self._lock.acquire(timeout=60)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def resources(**fields: int) -> m.LinuxResources:
    resources = m.LinuxResources()
    for field, value in fields.items():
        if field == "memory_high":
            resources.unified["memory.high"] = str(value)
        else:
            getattr(resources.cpu, field).value = value
    return resources


def read(arguments: m.LinuxResources) -> dict[str, int]:
    """The fields that are set."""
    matches = {}
    for field in ("shares", "quota"):
        if arguments.cpu.HasField(field):  # type: ignore[arg-type]
            matches[field] = getattr(arguments.cpu, field).value
    if "memory.high" in arguments.unified:
        matches["memory_high"] = int(arguments.unified["memory.high"])
    return matches


class PausingTurn:
    """A condition of the gate, where threads wait by pausing: they check again each time that they continue."""

    def __init__(self, pause: Callable[[], None], guard: Any) -> None:
        self._pause, self._guard = pause, guard

    def wait(self, timeout: float | None = None) -> bool:
        self._guard.release()
        self._pause()
        return bool(self._guard.acquire())

    def notify_all(self) -> None:
        """They look by themselves."""


class Node:
    """A runtime with three plugins, as docs/howto/runtime.md has it; one history at a time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.baton: Baton | None = None
        self.containers: dict[str, tuple[m.Container, FieldOrder]] = {}
        self.lock = PausingLock(self.pause)

        def take_turn(ticket: Ticket, timeout_s: float = -1.0) -> bool:
            while not ticket.turn.acquire(False):
                if timeout_s >= 0.0 and self.draw.random() < self.haste:
                    self.missed += 1
                    return False
                self.pause()
            return True

        patch.setattr(Ticket, "wait", take_turn)
        read = AnsweredEvent.read
        patch.setattr(AnsweredEvent, "read", lambda event, *more: (self.pause(), read(event, *more))[1])
        turn = partial(PausingTurn, self.pause)
        patch.setattr(sync_gate, "threading", SimpleNamespace(Lock=threading.Lock, Condition=turn))
        plugins = [
            BuiltinPlugin(index, name, Handlers(self)) for index, name in (entry.split("-") for entry in PLUGINS)
        ]
        self.adaptation = Adaptation(
            "node", "1", synchronize=self.state, update=self.update, disable_connections=True, policy_path=None,
            plugin_path="/nonexistent", builtin=plugins, commits=True, wasm_cache=None, request_timeout_s=600,
        )  # fmt: skip
        self.adaptation.start()
        self.missed = 0
        for entry in PLUGINS:
            peer = parts_of(self.adaptation).registry.find(entry)
            assert peer is not None
            peer.turn_s = 1.0  # as for a plugin behind a socket: waiting events may continue without it
            peer.breaker.configure(0, 1.0)
        parts_of(self.adaptation).trail.inventory._lock = PausingLock(self.pause)  # type: ignore[assignment]
        updates = parts_of(self.adaptation).handshake.updates
        apply = updates.apply_synchronize
        patch.setattr(updates, "apply_synchronize", lambda *requests: (self.pause(), apply(*requests)))
        self.guest: BuiltinPeer | None = None
        self.joined = 0

    def pause(self) -> None:
        if self.baton is not None:
            self.baton.pause()

    def history(self, seed: int) -> tuple[Values, Values]:
        """Draw one history: the values that its containers end with, and those of the model."""
        self.draw = draw = random.Random(seed)
        self.haste = draw.choice((0.0, 0.1, 0.9))
        self.words: list[Word] = []
        self.failed: set[object] = set()
        self.events: dict[int, object] = {}
        self.values = iter(range(10_000, 100_000))
        self.begun = [f"{seed}-old{number}" for number in range(2)]
        for entry in self.begun:
            self.make(self.container(entry))
        works: list[Callable[[], None]] = []
        for number in range(draw.randint(3, 6)):
            kind = draw.choice(KINDS)
            work = self.work(kind, f"{seed}-new{number}")
            works.append(work if kind == "plugin" else partial(self.request, work))
        if draw.random() < JOINS:
            works.append(self.join)
        self.baton = Baton(draw)
        self.baton.run(works)
        errors, self.baton = self.baton.errors, None
        assert not errors, (seed, errors)
        before = {(entry, field): 1 for entry in self.containers for field in FIELDS}
        expected = model(self.words, self.failed, before)
        matches = {
            (entry, field): value
            for entry, (container, _) in self.containers.items()
            for field, value in read(container.linux.resources).items()
        }
        for entry in self.containers:
            self.compare_why(seed, entry)
        self.containers.clear()
        if self.guest is not None:
            assert self.guest.state in JOINED
            self.guest.signal(Signal.STOP, "it leaves")
            self.guest = None
            parts_of(self.adaptation).chain.gate.paused_until = 0.0
        return matches, expected

    def work(self, kind: str, name: str) -> Callable[[], None]:
        if kind == "plugin":
            return partial(self.by_itself, self.draw.choice(PLUGINS))
        if kind == "change":
            expected = resources(**{self.draw.choice(FIELDS): next(self.values)})
            return partial(self.change, self.draw.choice(self.begun[:2]), expected)
        if kind == "stop":
            return partial(self.stop, name)
        return partial(self.make, self.container(name), fails=kind.removeprefix("create"))

    def compare_why(self, seed: int, name: str) -> None:
        """The history of a container ends with what it has."""
        provenance = self.adaptation.provenance
        assert provenance is not None
        explanation = provenance.explain(name)
        messages: dict[str, Any] = {}
        for step in explanation.steps if explanation is not None else ():
            if not step.note:
                messages[step.change.field if not step.change.key else step.change.key] = step.change.after
        now = read(self.containers[name][0].linux.resources)
        names = {
            "linux.resources.cpu.shares": "shares",
            "linux.resources.cpu.quota": "quota",
            "memory.high": "memory_high",
        }
        calls = {names[field]: int(value) for field, value in messages.items() if field in names}
        assert calls == {field: now[field] for field in calls}, (seed, name, explanation)

    def container(self, name: str) -> m.Container:
        container = m.Container(id=name, pod_sandbox_id="pod", name="c")
        container.linux.resources.CopyFrom(resources(**dict.fromkeys(FIELDS, 1)))
        return container

    # -- the runtime --------------------------------------------------------------------------------------------------

    def state(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """What there is, for a plugin that joins."""
        self.pause()
        with self.lock:
            return [POD], [container for container, _ in self.containers.values()]

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        results = []
        for update in updates:
            result, numbers = UpdateResult(update), updates.numbers(update)
            with self.lock:
                if update.container_id not in self.containers:
                    result.mark_stale("there is no such container")
                else:
                    container, order = self.containers[update.container_id]
                    container.linux.resources.MergeFrom(order.newest(update.linux.resources, numbers, result))
                    order.note(result, numbers)
            results.append(result)
        return results

    def request(self, work: Callable[[], None]) -> None:
        """One request of a client: no plugin joins in the middle of it."""
        with self.adaptation.block_sync():
            work()

    def make(self, container: m.Container, *, fails: str = "") -> None:
        """One creation, from the request to its end."""
        event = self.events[threading.get_ident()] = object()
        try:
            reply = self.adaptation.create_container(POD, container)
        except NriError:
            self.failed.add(event)
            return
        if fails == "early":
            self.failed.add(event)
            reply.abort()
            return
        created = m.Container()
        created.CopyFrom(container)
        created.linux.resources.MergeFrom(reply.adjust.linux.resources)
        with self.lock:
            self.containers[container.id] = (created, FieldOrder(reply.adjust.linux.resources, reply.numbers))
        results = self.update(reply.updates)
        self.pause()
        if fails:
            self.failed.add(event)
            with self.lock:
                del self.containers[container.id]
            reply.abort()
        else:
            reply.commit(results)

    def change(self, name: str, expected: m.LinuxResources) -> None:
        """One request for other resources of a container."""
        event = self.events[threading.get_ident()] = object()
        container, order = self.containers[name]
        try:
            reply = self.adaptation.update_container(POD, container, expected)
        except NriError:
            self.failed.add(event)
            return
        # It is older than all answers to it; the first of them has noted the number before its own.
        self.note(event, name, expected, reply.numbers.number("") - 1.5)
        update = m.ContainerUpdate(container_id=name)
        update.linux.resources.CopyFrom(reply.resources)
        result = UpdateResult(update)
        with self.lock:
            container.linux.resources.MergeFrom(order.newest(reply.resources, reply.numbers, result))
            order.note(result, reply.numbers)
        reply.commit(self.update(reply.updates))

    def stop(self, name: str) -> None:
        """One end of a container that is of no other use here."""
        event = self.events[threading.get_ident()] = object()
        try:
            reply = self.adaptation.stop_container(POD, m.Container(id=name, pod_sandbox_id="pod"))
        except NriError:
            self.failed.add(event)
            return
        reply.commit(self.update(reply.updates))

    # -- the plugins --------------------------------------------------------------------------------------------------

    def note(self, event: object, name: str, expected: m.LinuxResources, number: float) -> None:
        self.words += [Word(number, event, name, field, value) for field, value in read(expected).items()]

    def some(self) -> m.LinuxResources:
        return resources(**{field: next(self.values) for field in self.draw.sample(FIELDS, self.draw.randint(1, 2))})

    def say(self, event: object, other_entries: list[str]) -> list[m.ContainerUpdate]:
        """Updates of some containers, noted with a number just below the one that they are about to get."""
        number = next(ARRIVALS)
        updates = []
        for name in self.draw.sample(other_entries, self.draw.randint(0, min(2, len(other_entries)))):
            updates.append(m.ContainerUpdate(container_id=name))
            updates[-1].linux.resources.CopyFrom(self.some())
            self.note(event, name, updates[-1].linux.resources, number)
        return updates

    def join(self) -> None:
        """A plugin comes in, and leaves at the end of the history."""
        index, name = GUEST.split("-")
        peer = BuiltinPeer(parts_of(self.adaptation).registry, BuiltinPlugin(index, name, Guest(self)))
        parts_of(self.adaptation).registry.adopt(peer)
        parts_of(self.adaptation).handshake.admit(peer)
        self.guest = peer
        self.joined += 1

    def by_itself(self, plugin: str) -> None:
        """What a plugin asks for by itself: read, and some time later applied."""
        peer = parts_of(self.adaptation).registry.find(plugin)
        assert peer is not None
        request = m.UpdateContainersRequest(update=self.say(object(), self.begun))
        number = next(ARRIVALS)
        self.pause()
        parts_of(self.adaptation).handshake.updates.unsolicited(peer, request, number)


POD = m.PodSandbox(id="pod", name="pod", namespace="default")


class Handlers:
    """The plugins' answers to events: drawn, and after a pause."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> Any:
        node, adjust = self._node, m.ContainerAdjustment()
        if node.baton is None:
            return None
        node.pause()
        if container.id not in node.begun:
            node.begun.append(container.id)
        event = node.events[threading.get_ident()]
        if node.draw.random() < 0.3:
            adjust.linux.resources.CopyFrom(node.some())
            node.note(event, container.id, adjust.linux.resources, next(ARRIVALS))
        return adjust, node.say(event, [entry for entry in node.begun if entry != container.id])

    def update_container(self, pod: m.PodSandbox, container: m.Container, expected: m.LinuxResources) -> Any:
        self._node.pause()
        return self._node.say(self._node.events[threading.get_ident()], self._node.begun)

    def stop_container(self, pod: m.PodSandbox, container: m.Container) -> Any:
        self._node.pause()
        return self._node.say(self._node.events[threading.get_ident()], self._node.begun)


class Guest(Handlers):
    """The plugin that joins: requests updates of containers as soon as it knows them."""

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[m.ContainerUpdate]:
        self._node.pause()
        return self._node.say(object(), [container.id for container in containers])


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


@pytest.mark.timeout(60 + HISTORIES // 10)
def test_the_last_answer_for_each_field_is_in_force_and_in_the_history(node: Node) -> None:
    for seed in range(HISTORIES):
        matches, expected = node.history(seed)
        assert matches == expected, f"history {seed}: words {node.words}, failed events {node.failed}"
    assert node.missed and node.joined
    node.adaptation.stop()
