"""Plugins receive each event once, and no events of pods with the skip label."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import grpc
import pytest

import nri
from nri.api import messages as m
from nri.proxy.events.domain import Domain
from nri.proxy.state import CREATED, REMOVED, STOPPED, ContainerRecord, PodRecord
from tests.engine.node import Recorder
from tests.support.proxied import WAIT_S, Proxied
from tests.support.waiting import wait_for


def domain_of(world: Proxied) -> Domain:
    assert world.proxy is not None
    return world.proxy.domain


def test_a_joining_plugin_receives_pods_and_containers_that_have_not_ended(world: Proxied) -> None:
    pod = world.run_pod()
    created_id = world.create(pod)
    assert world.proxy is not None
    pods, containers = domain_of(world).snapshot()
    assert [row.id for row in pods] == [pod]
    assert len(containers) == 1
    record = world.proxy.store.container(created_id)
    assert record is not None
    record.reported_step = STOPPED
    assert domain_of(world).snapshot()[1] == []
    record.reported_step = CREATED
    owner = world.proxy.store.pod(pod)
    assert owner is not None
    owner.skipped = True
    assert domain_of(world).snapshot() == ([], [])


def test_a_plugin_is_notified_of_the_refusal_by_another_plugin(world: Proxied) -> None:
    world.stop()
    world.settings = replace(world.settings, nri=replace(world.settings.nri, tell_refused=True))
    world.start()
    plugin, refusing = world.attach(Recorder()), world.attach(Recorder(), "20", "refusing")
    plugin.on["create"] = lambda *_: nri.Adjustment().add_env("A", "b")
    refusing.on["create"] = refuse
    with pytest.raises(grpc.RpcError, match="not today"):
        world.create(world.run_pod())
    assert plugin.of("c") == ["create", "remove"] and refusing.of("c") == ["create"]


def refuse(*_: object) -> None:
    raise ValueError("not today")


def test_an_exit_is_reported_once(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    pod = world.run_pod()
    created_id = world.run(pod)
    assert world.proxy is not None
    record, owner = world.proxy.store.container(created_id), world.proxy.store.pod(pod)
    assert record is not None
    assert owner is not None
    for _ in range(2):
        domain_of(world).stop(record)
    domain_of(world).remove_pod(owner)
    assert [event for event in plugin.of("c") if event in ("stop", "remove")] == ["stop", "remove"]
    assert world.proxy.store.pod(pod) is None


def test_a_removal_is_reported_after_the_exit_that_another_thread_reports(
    world: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit was found in a list of containers just before the kubelet's calls."""
    plugin = world.attach(Recorder())
    pod_id = world.run(world.run_pod())
    assert world.proxy is not None
    record, domain = world.proxy.store.container(pod_id), domain_of(world)
    assert record is not None
    at_it, go_on = threading.Event(), threading.Event()
    tell = domain.adaptation.stop_container

    def held_up(*messages: Any) -> Any:
        at_it.set()
        assert go_on.wait(WAIT_S)
        return tell(*messages)

    monkeypatch.setattr(domain.adaptation, "stop_container", held_up)
    thread = threading.Thread(target=domain.stop, args=(record,))
    removed = threading.Thread(target=domain.remove, args=(record,))
    thread.start()
    assert at_it.wait(WAIT_S)
    removed.start()
    wait_for(lambda: not removed.is_alive() or domain.turns[record.id].users == 2, "the removal")
    go_on.set()
    for row in (thread, removed):
        row.join(WAIT_S)
    assert plugin.of("c")[-2:] == ["stop", "remove"]
    assert domain.turns == {}


def test_a_reported_event_is_not_repeated(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    pod = world.run_pod()
    created_id = world.create(pod)
    assert world.proxy is not None
    record, owner = world.proxy.store.container(created_id), world.proxy.store.pod(pod)
    assert record is not None
    assert owner is not None
    domain_of(world).stop_pod(owner)
    domain_of(world).stop_pod(owner)
    owner.reported_step = REMOVED
    domain_of(world).remove_pod(owner)
    record.reported_step = REMOVED
    domain_of(world).undo_create(record)
    domain_of(world).post_start(record)  # its pod is forgotten; plugins receive the event nevertheless
    assert plugin.of("c")[-1] == "post_start"


def test_missing_namespaces_are_not_shown(world: Proxied) -> None:
    assert world.proxy is not None
    pod = m.PodSandbox(id="p")
    pod.linux.namespaces.add(type="network", path="/proc/self/ns/net")
    pod.linux.namespaces.add(type="ipc", path="/nothing/there")
    pod.linux.namespaces.add(type="pid")
    world.proxy.store.put(PodRecord(id="p", plugin_view=pod, reported_step=CREATED))
    (shown,) = domain_of(world).snapshot()[0]
    assert [namespace.type for namespace in shown.linux.namespaces] == ["network", "pid"]
    assert len(pod.linux.namespaces) == 3, "the record stays as it is"


def test_an_unreported_container_ends_without_an_event(world: Proxied) -> None:
    plugin: Recorder = world.attach(Recorder())
    assert world.proxy is not None
    domain, store = world.proxy.domain, world.proxy.store
    pod, container = store.put(PodRecord(id="p")), store.put(ContainerRecord(id="c", runtime_id="r", pod_id="p"))
    domain.undo_create(container)
    domain.remove_pod(pod)
    assert (store.pods(), store.containers(), plugin.events) == ([], [], [])


def test_a_container_of_an_unknown_pod_is_reported_with_the_pods_id(world: Proxied) -> None:
    plugin: Recorder = world.attach(Recorder())
    received: list[str] = []
    plugin.on["stop"] = lambda pod, container: received.append(pod.id)
    assert world.proxy is not None
    world.proxy.domain.stop(world.proxy.store.put(ContainerRecord(id="c", pod_id="lost", reported_step="created")))
    assert received == ["lost"]
