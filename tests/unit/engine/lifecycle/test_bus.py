"""Events of pods and containers, for the log and for listeners."""

import logging
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.lifecycle.bus import MAX_EVENT_BYTES, MAX_EVENTS, EventBus
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory, PodEntry
from nri.engine.state import ContainerRecord, ContainerState, PodRecord, PodState, Store
from nri.engine.state.names import container_name, pod_name

POD = pod_name("web", "default", "u-1", 0)


def container(identity: str, name: str = "app", **more: object) -> ContainerEntry:
    config = {"metadata": {"name": name}}
    record = ContainerRecord(
        id=identity,
        name=container_name(name, 0, POD),
        pod_id="p",
        config=config,
        **{"state": ContainerState.RUNNING, **more},
    )
    return ContainerEntry(record, {})


def pod(identity: str) -> PodEntry:
    config = {"metadata": {"name": "web", "namespace": "default"}}
    return PodEntry(PodRecord(id=identity, name=POD, namespace="default", config=config, state=PodState.READY))


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return Inventory(Store(tmp_path / "records"))


def test_every_listener_gets_later_events_with_their_entries(inventory: Inventory) -> None:
    bus = EventBus(inventory)
    inventory.add(pod("p"))
    inventory.add(container("c9"))
    bus.publish(container("c0"), pb.CONTAINER_CREATED_EVENT)
    with bus.subscribe() as one, bus.subscribe() as two:
        bus.publish(container("c1"), pb.CONTAINER_STARTED_EVENT)
        for listener_ in (one, two):
            event = listener_.get(1)
            assert event is not None
            assert (event.container_id, event.container_event_type) == ("c1", pb.CONTAINER_STARTED_EVENT)
            assert event.pod_sandbox_status.id == "p" and event.created_at > 0
            assert [listener_.id for listener_ in event.containers_statuses] == ["c9"]
            assert listener_.get(0) is None


def test_a_slow_listener_loses_the_oldest_events(inventory: Inventory) -> None:
    bus = EventBus(inventory)
    listener = bus.subscribe()
    for number in range(MAX_EVENTS + 2):
        bus.publish(container(f"c{number}"), pb.CONTAINER_CREATED_EVENT)
    first = listener.get(1)
    assert first is not None and first.container_id == "c2" and listener.lost == 2


def test_unread_events_are_bounded_in_memory(inventory: Inventory) -> None:
    bus = EventBus(inventory)
    entry = pod("p")
    inventory.add(entry)
    entry.record.annotations = {"long": "x" * (MAX_EVENT_BYTES // 4)}
    with bus.subscribe() as listener:
        for number in range(9):
            bus.publish(container(f"c{number}"), pb.CONTAINER_CREATED_EVENT)
        container_ids = [event.container_id for event in iter(lambda: listener.get(0), None)]
        assert (container_ids, listener.lost) == (["c6", "c7", "c8"], 6)
        entry.record.annotations = {"long": "x" * (MAX_EVENT_BYTES + 1)}
        bus.publish(container("c9"), pb.CONTAINER_CREATED_EVENT)
        last = listener.get(0)
        assert last is not None and last.container_id == "c9", "an event above the total limit is still delivered"


def test_closing_the_bus_ends_every_wait(inventory: Inventory) -> None:
    bus = EventBus(inventory)
    listener = bus.subscribe()
    bus.close()
    assert listener.get() is None


def test_each_event_is_logged_with_short_id_and_names(inventory: Inventory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bus, identity = EventBus(inventory), "0123456789abcdef" * 4
    bus.publish(pod(identity), pb.CONTAINER_STARTED_EVENT)
    bus.publish(container(identity, "odd_name"), pb.CONTAINER_CREATED_EVENT)
    bus.publish(container(identity, exit_code=137, reason="OOMKilled"), pb.CONTAINER_STOPPED_EVENT)
    bus.publish(pod(identity), pb.CONTAINER_DELETED_EVENT)
    assert caplog.messages == [
        "pod 0123456789abc default/web started",
        "container 0123456789abc default/web/odd_name created",
        "container 0123456789abc default/web/app ended: code 137, OOMKilled",
        "pod 0123456789abc default/web removed",
    ]


def test_the_lifecycle_of_a_container_is_logged(dry: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nri.engine.lifecycle.bus")
    pod_id = dry.pod()
    container_id = dry.run(pod_id)
    dry.engine.container_removal.stop(container_id)
    dry.engine.pod_removal.remove(pod_id)
    short = {f"pod {pod_id[:13]} n/pod": "P", f"container {container_id[:13]} n/pod/c": "C"}
    messages = [next(text.replace(key, sign) for key, sign in short.items() if key in text) for text in caplog.messages]
    assert messages == [
        "P created", "P started", "C created", "C started", "C ended: code 137, Error", "P ended", "C removed",
        "P removed",
    ]  # fmt: skip
