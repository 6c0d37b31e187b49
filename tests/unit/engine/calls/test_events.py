"""The stream of container events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls import events
from nri.engine.calls.events import EventCalls
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.inventory import ContainerEntry, Inventory
from nri.engine.state import ContainerRecord, Store
from nri.engine.support.errors import TooMany


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return Inventory(Store(tmp_path / "records"))


class Call:
    """A call that the test ends."""

    def __init__(self) -> None:
        self.ended: list[Callable[[], None]] = []

    def time_left(self) -> float | None:
        return None

    def on_end(self, callback: Callable[[], None]) -> None:
        self.ended.append(callback)


def begin(calls: EventCalls, bus: EventBus) -> tuple[Any, Call]:
    """A stream that has returned its first event, so it is subscribed."""
    call = Call()
    stream = calls.get_container_events(pb.GetEventsRequest(), call)
    subscribe = bus.subscribe

    def and_tell() -> Any:
        subscription = subscribe()
        bus.publish(ContainerEntry(ContainerRecord("c1"), {}), pb.CONTAINER_STARTED_EVENT)
        return subscription

    bus.subscribe = and_tell  # type: ignore[method-assign]
    assert next(stream).container_id == "c1"
    bus.subscribe = subscribe  # type: ignore[method-assign]
    return stream, call


def test_a_stream_ends_with_its_client(inventory: Inventory) -> None:
    bus = EventBus(inventory)
    stream, call = begin(EventCalls(bus), bus)
    (end,) = call.ended
    end()
    assert list(stream) == []


def test_a_stream_ends_with_the_engine(inventory: Inventory) -> None:
    bus = EventBus(inventory)
    stream, _ = begin(EventCalls(bus), bus)
    bus.close()
    assert list(stream) == []


def test_listeners_above_the_limit_are_refused_until_one_leaves(
    inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_LISTENERS", 1)
    bus = EventBus(inventory)
    calls = EventCalls(bus)
    first, _ = begin(calls, bus)
    with pytest.raises(TooMany, match="listeners"):
        next(calls.get_container_events(pb.GetEventsRequest(), Call()))
    first.close()
    begin(calls, bus)[0].close()
