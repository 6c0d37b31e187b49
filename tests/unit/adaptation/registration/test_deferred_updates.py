"""Updates and evictions of missing containers or containers in creation never fail the current request."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from nri.adaptation import Adaptation, BuiltinPlugin, CreateReply
from nri.adaptation.adaptation import parts_of
from nri.adaptation.audit import reporting
from nri.adaptation.audit.trail import AuditTrail
from nri.adaptation.containers.inventory import Inventory, Presence
from nri.adaptation.registration import deferred_updates
from nri.adaptation.registration.deferred_updates import DeferredUpdates
from nri.api import messages as m
from nri.errors import PluginError
from nri.metrics import Observer
from nri.testing import make_container, make_pod
from nri.ttrpc.waiters import ARRIVALS
from tests.support.histories import ids
from tests.support.no_threads import no_threads
from tests.support.waiting import wait_for

POD = make_pod(namespace="web", name="web")


def shares(container_id: str, value: int = 5) -> m.ContainerUpdate:
    update = m.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.shares.value = value
    return update


class Handlers:
    """A built-in plugin whose answers are given by the name of the event's container."""

    def __init__(self) -> None:
        self.create: dict[str, Callable[[], Any]] = {}
        self.update: dict[str, Callable[[], Any]] = {}
        self.stop: dict[str, Callable[[], Any]] = {}

    def create_container(self, pod: Any, container: Any) -> Any:
        return self.create.get(container.id, lambda: None)()

    def update_container(self, pod: Any, container: Any, resources: Any) -> Any:
        return self.update.get(container.id, lambda: None)()

    def stop_container(self, pod: Any, container: Any) -> Any:
        return self.stop.get(container.id, lambda: None)()


class Counting(Observer):
    def __init__(self) -> None:
        self.left_out: list[tuple[str, str]] = []

    def record_left_out(self, plugin: str, operation: str) -> None:
        self.left_out.append((plugin, operation))


class Node:
    """A runtime that records the updates and evictions that it applies, in order."""

    def __init__(self, compat: Any = "default") -> None:
        self.handlers = Handlers()
        self.observer = Counting()
        self.updates: list[tuple[str, int]] = []
        self.evicted: list[str] = []
        self.failing: set[str] = set()
        self.applying = threading.Event()
        self.update_gate = threading.Event()
        self.update_gate.set()
        self.adaptation = Adaptation(
            "node", "1", synchronize=lambda: ([], []), update=self.apply, evict=self.evict, compat=compat,
            builtin=[BuiltinPlugin("10", "p", self.handlers)], observer=self.observer,
            plugin_path="/nonexistent", disable_connections=True, policy_path=None,
        )  # fmt: skip
        self.adaptation.start()

    def apply(self, updates: list[m.ContainerUpdate]) -> None:
        self.applying.set()
        self.update_gate.wait(20)
        if broken := self.failing.intersection(update.container_id for update in updates):
            raise OSError(f"no cgroup of {broken}")
        self.updates += [(update.container_id, update.linux.resources.cpu.shares.value) for update in updates]

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        self.evicted += [eviction.container_id for eviction in evictions]

    def create(self, container_id: str) -> CreateReply:
        return self.adaptation.create_container(POD, make_container(id=container_id, pod=POD))

    def creating(self, container_id: str) -> tuple[threading.Thread, threading.Event, list[Any]]:
        """Begin a creation that waits in its plugin; return the thread, the event that releases it, and its outcome."""
        inside, go, outcome = threading.Event(), threading.Event(), []

        def wait() -> None:
            inside.set()
            go.wait(20)

        def run() -> None:
            try:
                outcome.append(self.create(container_id))
            except Exception as error:
                outcome.append(error)

        self.handlers.create[container_id] = wait
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert inside.wait(20)
        return thread, go, outcome


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a slow machine from causing a handover; tests of that delay set it themselves."""
    monkeypatch.setattr(deferred_updates, "SETTLE_S", 60.0)


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node()
    yield node
    node.adaptation.stop()


def test_an_update_without_an_id_is_ignored(node: Node) -> None:
    node.create("a")
    node.handlers.update["a"] = lambda: shares("")
    reply = node.adaptation.update_container(POD, make_container(id="a", pod=POD), m.LinuxResources())
    assert reply.updates == []
    assert [(row.plugin, row.container_id, row.reason) for row in reply.ignored] == [
        ("10-p", "", "it does not name a container")
    ]


def test_an_update_of_an_unknown_container_is_ignored_at_every_event(node: Node) -> None:
    node.create("a")
    node.handlers.create["b"] = node.handlers.stop["a"] = lambda: shares("nobody")
    stopped = node.adaptation.stop_container(POD, make_container(id="a", pod=POD))
    for reply in (node.create("b"), stopped):
        assert reply.updates == []
        assert [row.reason for row in reply.ignored] == ["the runtime does not know the container"]


def test_an_update_of_a_container_with_a_refused_creation_is_ignored(node: Node) -> None:
    def refuse() -> None:
        raise RuntimeError("no room")

    node.handlers.create["a"] = refuse
    with pytest.raises(PluginError, match="no room"):
        node.create("a")
    node.handlers.create["b"] = lambda: shares("a")
    reply = node.create("b")
    assert [update.container_id for update in reply.ignored] == ["a"]


def test_a_deferred_update_reaches_the_runtime_with_commit(node: Node) -> None:
    thread, go, outcome = node.creating("a")
    _update_a(node)
    assert node.updates == []
    go.set()
    thread.join(20)
    outcome[0].commit()
    assert node.updates == [("a", 7)]


def test_without_commit_a_deferred_update_is_sent_at_the_containers_next_event(node: Node) -> None:
    thread, go, _ = node.creating("a")
    _update_a(node)
    go.set()
    thread.join(20)
    assert node.updates == []
    node.adaptation.post_create_container(POD, make_container(id="a", pod=POD))
    wait_for(lambda: node.updates == [("a", 7)], "the update was handed over")


def test_without_a_free_thread_a_deferred_update_is_sent_later(node: Node) -> None:
    thread, go, outcome = node.creating("a")
    _update_a(node)
    container = make_container(id="a", pod=POD)
    with no_threads():
        go.set()
        thread.join(20)
        node.adaptation.post_create_container(POD, container)
    assert isinstance(outcome[0], CreateReply)
    node.adaptation.start_container(POD, container)
    wait_for(lambda: node.updates == [("a", 7)], "the update was handed over")


def test_without_a_further_event_a_deferred_update_is_sent_soon(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_updates, "SETTLE_S", 0.05)
    thread, go, _ = node.creating("a")
    _update_a(node)
    go.set()
    thread.join(20)
    wait_for(lambda: node.updates == [("a", 7)], "the update was handed over")


def _update_a(node: Node) -> None:
    """Request an update of `a`, which is being created, outside any event."""
    update = shares("a", 7)
    failed = _unsolicited(node, update)
    assert failed == []


def _unsolicited(node: Node, *updates: m.ContainerUpdate, evict: str = "") -> list[m.ContainerUpdate]:
    request = m.UpdateContainersRequest(update=updates)
    if evict:
        request.evict.add(container_id=evict, reason="r")
    (peer,) = parts_of(node.adaptation).chain.peers
    return parts_of(node.adaptation).registry.update_queue.updates.unsolicited(peer, request, next(ARRIVALS))


def test_a_plugins_later_updates_override_its_earlier_ones(node: Node) -> None:
    thread, go, outcome = node.creating("a")
    _unsolicited(node, shares("a", 7))
    _unsolicited(node, shares("a", 8))
    go.set()
    thread.join(20)
    outcome[0].commit()
    assert node.updates == [("a", 8)]


def test_deferred_updates_are_dropped_when_the_creation_is_refused(node: Node) -> None:
    inside, go = threading.Event(), threading.Event()

    def refuse() -> None:
        inside.set()
        go.wait(20)
        raise RuntimeError("no room")

    node.handlers.create["a"] = refuse

    def create() -> None:
        with pytest.raises(PluginError, match="no room"):
            node.create("a")

    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    assert inside.wait(20)
    _update_a(node)
    go.set()
    thread.join(20)
    assert [update.container_id for update in _unsolicited(node, shares("a"))] == ["a"], "it is gone"
    node.create("b").commit()
    assert node.updates == []


def test_deferred_updates_are_dropped_when_the_creation_is_aborted(node: Node) -> None:
    thread, go, outcome = node.creating("a")
    _update_a(node)
    go.set()
    thread.join(20)
    outcome[0].abort()
    node.adaptation.post_create_container(POD, make_container(id="a", pod=POD))
    assert [update.container_id for update in _unsolicited(node, shares("a"))] == ["a"], "it is gone"
    assert node.updates == []


def test_updates_never_overtake_deferred_ones(node: Node) -> None:
    thread, go, outcome = node.creating("a")
    _unsolicited(node, shares("a", 7))
    go.set()
    thread.join(20)
    node.update_gate.clear()  # the runtime is slow to apply the first one
    committing = threading.Thread(target=outcome[0].commit, daemon=True)
    committing.start()
    assert node.applying.wait(20)
    node.handlers.create["b"] = lambda: shares("a", 9)
    reply = node.create("b")
    assert reply.updates == [], "it waits behind the earlier one, and for its own creation to succeed"
    node.update_gate.set()
    committing.join(20)
    assert node.updates == [("a", 7)]
    reply.commit()
    assert node.updates == [("a", 7), ("a", 9)]


@pytest.mark.pure
def test_an_update_of_a_meanwhile_created_container_is_in_the_reply(node: Node) -> None:
    """It was in creation when the plugin's answer was merged, and exists when the event ends."""
    inventory = parts_of(node.adaptation).trail.inventory
    inventory.creating("a", "web")
    node.handlers.create["b"] = lambda: shares("a", 7)
    create = inventory.defer_update

    def created_first(*arguments: Any) -> Any:
        inventory.created("a", POD, b"")
        return create(*arguments)

    inventory.defer_update = created_first  # type: ignore[method-assign]
    assert [update.container_id for update in node.create("b").updates] == ["a"]


def test_an_unsolicited_update_of_a_missing_container_is_returned_as_failed(node: Node) -> None:
    node.create("a").commit()
    failed = _unsolicited(node, shares("a"), shares(""), shares("gone"))
    assert [update.container_id for update in failed] == ["", "gone"]
    assert node.updates == [("a", 5)]


def test_an_eviction_of_a_missing_container_is_ignored(node: Node) -> None:
    node.handlers.create["b"] = lambda: m.ContainerEviction(container_id="gone", reason="r")
    reply = node.create("b")
    assert reply.evictions == []
    assert [(update.container_id, update.field) for update in reply.ignored] == [("gone", "evict")]
    _unsolicited(node, evict="gone")
    assert node.evicted == []


def test_an_eviction_of_a_container_in_creation_is_deferred(node: Node) -> None:
    thread, go, outcome = node.creating("a")
    _unsolicited(node, evict="a")
    assert node.evicted == []
    go.set()
    thread.join(20)
    outcome[0].commit()
    assert node.evicted == ["a"]


def test_ignored_updates_are_counted_and_logged_once_a_minute_for_each_plugin(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(reporting, "monotonic", lambda: clock[0])
    node.create("a")
    node.handlers.update["a"] = lambda: shares("")
    with caplog.at_level(logging.WARNING, "nri.adaptation"):
        for moment in (1000.0, 1001.0, 1002.0, 1061.0):
            clock[0] = moment
            node.adaptation.update_container(POD, make_container(id="a", pod=POD), m.LinuxResources())
    assert node.observer.left_out == [("10-p", "UpdateContainer")] * 4
    request = "an update or eviction of a container without an id"
    line = f"plugin 10-p, UpdateContainer: ignored {request}"
    assert [record.getMessage() for record in caplog.records] == [
        line,
        f"{line}, and 2 more in the last minute",
    ]


def test_ignored_updates_are_in_the_history_of_the_events_container(node: Node) -> None:
    node.handlers.create["b"] = lambda: shares("gone")
    node.create("b")
    provenance = node.adaptation.provenance
    assert provenance is not None
    explanation = provenance.explain("b")
    assert explanation is not None
    assert [text for _, text in explanation.notes] == [
        'CreateContainer: update of container "gone" by 10-p left out: the runtime does not know the container'
    ]
    assert ids(provenance, "gone") == [], "a name that a plugin made up has no history"


def test_in_reference_mode_updates_are_passed_on_unchanged() -> None:
    node = Node("reference")
    try:
        node.create("a")
        node.handlers.create["b"] = lambda: [shares(""), shares("gone")]
        assert [update.container_id for update in node.create("b").updates] == ["", "gone"]
        assert _unsolicited(node, shares("gone")) == []
        assert node.updates == [("gone", 5)]
    finally:
        node.adaptation.stop()


@pytest.mark.parametrize("event", ["remove_container", "remove_pod_sandbox"])
def test_a_removal_refused_by_a_plugin_still_removes_the_container(node: Node, event: str) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("not now")

    setattr(node.handlers, event, refuse)
    node.adaptation.stop()
    node.adaptation = Adaptation(
        "node", "1", synchronize=lambda: ([], []), update=node.apply,
        builtin=[BuiltinPlugin("10", "p", node.handlers)],
        plugin_path="/nonexistent", disable_connections=True, policy_path=None,
    )  # fmt: skip
    node.adaptation.start()
    container = make_container(id="a", pod=POD)
    node.adaptation.create_container(POD, container)
    with pytest.raises(PluginError, match="not now"):
        getattr(node.adaptation, event)(*([POD, container] if event == "remove_container" else [POD]))
    node.handlers.create["b"] = lambda: shares("a")
    assert [update.container_id for update in node.create("b").ignored] == ["a"]


def test_an_error_of_the_runtime_does_not_affect_other_plugins_updates(node: Node) -> None:
    parts = parts_of(node.adaptation)
    inventory, apply = parts.trail.inventory, parts.trail.update

    def fails_at_eight(updates: Any) -> Any:
        if updates[0].linux.resources.cpu.shares.value == 8:
            raise OSError("no cgroup")
        return apply(updates)

    parts.trail.update = fails_at_eight
    inventory.creating("a", "web")
    inventory.defer_update("10-p", shares("a", 8), "CreateContainer", 1)
    inventory.defer_update("20-q", shares("a", 9), "CreateContainer", 2)
    inventory.defer_eviction("20-q", m.ContainerEviction(container_id="a"))
    inventory.created("a", POD, b"")
    parts.deferred_updates.hand_over("a")
    assert (node.updates, node.evicted) == ([("a", 9)], ["a"])


def test_a_commit_sends_all_deferred_requests_despite_errors_of_the_runtime(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.create("first").commit()  # from now on the adaptation waits for commits
    other_entries = [node.create(name) for name in ("a", "c")]
    node.handlers.create["b"] = lambda: [shares("a"), shares("c"), m.ContainerEviction(container_id="c", reason="r")]
    reply = node.create("b")
    _unsolicited(node, shares("b"))
    for other in other_entries:
        other.commit()
    node.failing.add("a")
    reply.commit()
    assert (node.updates, node.evicted) == ([("c", 5), ("b", 5)], ["c"])
    assert "the runtime failed to apply deferred updates of container b" in caplog.text
    assert "no cgroup of {'a'}" in caplog.text


def test_the_order_of_answers_decides_and_not_the_ends_of_events(node: Node) -> None:
    inventory = parts_of(node.adaptation).trail.inventory
    inventory.creating("a", "web")
    assert inventory.defer_update("10-p", shares("a", 8), "CreateContainer", 2) is Presence.CREATING
    assert inventory.defer_update("10-p", shares("a", 7), "CreateContainer", 1) is Presence.CREATING
    inventory.created("a", POD, b"")
    parts_of(node.adaptation).deferred_updates.hand_over("a")
    assert node.updates == [("a", 8)]


def test_an_answer_to_an_event_overrides_the_plugins_earlier_unsolicited_update(node: Node) -> None:
    inventory = parts_of(node.adaptation).trail.inventory
    inventory.creating("a", "web")
    _unsolicited(node, shares("a", 9))
    node.handlers.create["b"] = lambda: shares("a", 7)
    node.create("b")
    inventory.created("a", POD, b"")
    parts_of(node.adaptation).deferred_updates.hand_over("a")
    assert node.updates == [("a", 7)]


def test_a_failed_deferred_update_is_logged_and_the_next_container_is_served(
    node: Node, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_updates, "SETTLE_S", 0.05)
    inventory, remaining = parts_of(node.adaptation).trail.inventory, parts_of(node.adaptation).deferred_updates
    apply, failing = parts_of(node.adaptation).trail.update, ["a"]

    def broken(updates: list[m.ContainerUpdate]) -> None:
        if updates[0].container_id in failing:
            raise ZeroDivisionError("in the runtime")
        apply(updates)

    monkeypatch.setattr(parts_of(node.adaptation).trail, "update", broken)
    for name in ("a", "b"):
        inventory.creating(name, "web")
        _unsolicited(node, shares(name))
        inventory.created(name, POD, b"")
        remaining.add(name)
        remaining.add(name)  # adding it again changes nothing
    wait_for(lambda: node.updates == [("b", 5)], "the other one was served")
    assert "the runtime failed to apply deferred updates of container a" in caplog.text


def test_hastening_an_unknown_container_does_nothing(node: Node) -> None:
    parts_of(node.adaptation).deferred_updates.hand_over_soon("unknown")
    assert parts_of(node.adaptation).deferred_updates.waiting == {}


def test_stopping_the_runtime_drops_deferred_requests_and_accepts_no_more(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred_updates = parts_of(node.adaptation).deferred_updates
    deferred_updates.add("a")
    worker = deferred_updates.worker
    assert worker is not None
    node.adaptation.stop()
    worker.join(20)
    assert not worker.is_alive() and deferred_updates.waiting == {}
    deferred_updates.add("b")
    assert deferred_updates.waiting == {}


def test_the_idle_thread_ends_and_a_new_one_starts_on_demand(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_updates, "IDLE_S", 0.01)
    monkeypatch.setattr(deferred_updates, "SETTLE_S", 0.05)
    inventory, remaining = parts_of(node.adaptation).trail.inventory, parts_of(node.adaptation).deferred_updates
    for name in ("a", "b"):
        inventory.creating(name, "web")
        _unsolicited(node, shares(name))
        inventory.created(name, POD, b"")
        remaining.add(name)
        wait_for(lambda name=name: (name, 5) in node.updates, "it was handed over")  # type: ignore[misc]
        wait_for(lambda: remaining.worker is None, "the thread has ended")


@pytest.fixture
def parts() -> Iterator[tuple[Inventory, list[str], DeferredUpdates]]:
    """An inventory with one uncommitted container, the ids of the updates handed over, and the object under test."""
    messages: list[str] = []
    trail = AuditTrail(lambda updates: messages.extend(update.container_id for update in updates), None)
    remaining = DeferredUpdates(trail, None)
    trail.inventory.creating("a", "web")
    trail.inventory.created("a", POD, b"", uncommitted=True)
    yield trail.inventory, messages, remaining
    remaining.stop()


def test_a_request_after_a_successful_creation_is_sent_without_a_further_event(
    parts: tuple[Inventory, list[str], DeferredUpdates], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_updates, "SETTLE_S", 0.01)
    _, messages, remaining = parts
    remaining.defer_update("10-p", shares("a"), "UpdateContainers", 0)
    wait_for(lambda: messages == ["a"], "it is handed over")


def test_a_second_request_does_not_postpone_the_first(parts: tuple[Inventory, list[str], DeferredUpdates]) -> None:
    _, _, remaining = parts
    remaining.defer_update("10-p", shares("a"), "UpdateContainers", 0)
    first = remaining.waiting["a"]
    remaining.defer_update("10-p", shares("a", 6), "UpdateContainers", 0)
    assert remaining.waiting == {"a": first}


def test_only_one_thread_sends_the_requests_of_a_container(parts: tuple[Inventory, list[str], DeferredUpdates]) -> None:
    inventory, messages, remaining = parts
    remaining.defer_update("10-p", shares("a"), "UpdateContainers", 0)
    assert inventory.take_deferred("a") is not None, "this thread is at it"
    remaining.defer_update("10-p", shares("a", 6), "UpdateContainers", 0)
    remaining.hand_over("a")
    assert messages == [], "it would overtake the first one"


def test_a_runtime_that_commits_has_a_long_time_for_it(parts: tuple[Inventory, list[str], DeferredUpdates]) -> None:
    _, messages, remaining = parts
    remaining.runtime_commits = True
    remaining.defer_update("10-p", shares("a"), "UpdateContainers", 0)
    assert remaining.waiting["a"] > monotonic() + 100 and messages == []
    remaining.hand_over("a")
    assert messages == ["a"] and remaining.waiting == {}


def test_a_runtime_can_announce_its_commits(tmp_path: Path) -> None:
    options: dict[str, Any] = {"synchronize": lambda: ([], []), "update": lambda _: None, "disable_connections": True,
                               "plugin_path": str(tmp_path), "policy_path": None}  # fmt: skip
    for commits in (False, True):
        adaptation = Adaptation("r", "1", commits=commits, **options)
        adaptation.start()
        try:
            reply = adaptation.create_container(POD, make_container(id="a", pod=POD))
            assert parts_of(adaptation).trail.inventory.known.is_creating("a") is commits
            reply.commit()
            assert not parts_of(adaptation).trail.inventory.known.is_creating("a")
        finally:
            adaptation.stop()
