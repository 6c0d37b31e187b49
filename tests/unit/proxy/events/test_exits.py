"""Lists of containers are forwarded first and then searched for exits."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nri.cri.pb import api_pb2 as pb
from nri.errors import RequestError
from nri.proxy.events.call_context import CallContext
from nri.proxy.events.containers import ContainerCalls
from nri.proxy.events.exits import Exits
from nri.proxy.state import ContainerRecord
from tests.engine.node import Recorder
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for


def test_a_list_reaches_the_kubelet_unchanged(world: Proxied) -> None:
    pod_id = world.run(world.run_pod())
    message = world.cri.call("ListContainers")
    assert message == world.direct.call("ListContainers")
    assert [container.id for container in message.containers] == [pod_id]


def test_an_unreadable_reply_does_not_end_the_search(world: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    plugin = world.attach(Recorder())
    assert world.proxy is not None
    caplog.set_level("DEBUG", "nri.proxy")
    pod_id = world.run(world.run_pod())
    garbled: Any = SimpleNamespace(forward=lambda _: b"\xff\xff\xff")
    world.proxy.exits.list_containers(b"", garbled)
    wait_for(lambda: "cannot list containers" in caplog.text, "the list, looked at")
    world.direct.call("StopContainer", container_id=pod_id, timeout=0)
    world.cri.call("ListContainers")
    wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")


def test_an_error_of_a_report_does_not_end_the_search(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = world.attach(Recorder())
    tell, errors = ContainerCalls.ended, list[str]()

    def breaks(calls: ContainerCalls, record: ContainerRecord) -> object:
        if not errors:
            errors.append(record.id)
            raise LookupError("a defect")
        return tell(calls, record)

    monkeypatch.setattr(ContainerCalls, "ended", breaks)
    pod_id = world.run(world.run_pod())
    world.direct.call("StopContainer", container_id=pod_id, timeout=0)
    world.cri.call("ListContainers")
    wait_for(lambda: errors, "the error")
    world.cri.call("ListContainers")
    wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")


def test_a_watcher_that_was_never_started_can_be_stopped(world: Proxied) -> None:
    assert world.proxy is not None
    context = world.proxy.exits.context
    Exits(context, ContainerCalls(context)).stop()


def test_a_running_container_is_not_reported_as_exited(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    world.run(world.run_pod())
    world.cri.call("ListContainers")
    time.sleep(0.1)
    assert plugin.of("c")[-1] == "post_start"
    state = world.cri.call("ListContainers").containers[0].state
    assert state == pb.CONTAINER_RUNNING


def test_a_container_that_exits_during_its_start_is_reported_as_started_first(
    world: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = world.attach(Recorder())
    assert world.proxy is not None
    exits, facts, looks = world.proxy.exits, CallContext.facts, list[str]()

    def ended_by_then(context: CallContext, record: ContainerRecord, *more: Any) -> Any:
        if not looks:
            looks.append(record.id)
            world.direct.call("StopContainer", container_id=record.runtime_id, timeout=0)
            exits.check(world.direct.call("ListContainers"))
        return facts(context, record, *more)

    pod_id = world.create(world.run_pod())
    monkeypatch.setattr(CallContext, "facts", ended_by_then)
    world.cri.call("StartContainer", container_id=pod_id)
    assert looks
    world.cri.call("ListContainers")
    wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")
    assert plugin.of("c")[-3:] == ["start", "post_start", "stop"]


def test_an_exit_that_cannot_be_reported_does_not_block_others(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = world.attach(Recorder())
    tell = ContainerCalls.ended
    pod = world.run_pod()
    bad, good = world.run(pod, "bad"), world.run(pod, "good")

    def breaks(calls: ContainerCalls, record: ContainerRecord) -> object:
        if record.runtime_id == bad:
            raise RequestError("spec", "", "cannot be read")
        return tell(calls, record)

    monkeypatch.setattr(ContainerCalls, "ended", breaks)
    for row in (bad, good):
        world.direct.call("StopContainer", container_id=row, timeout=0)
    world.cri.call("ListContainers")
    wait_for(lambda: plugin.of("good")[-1] == "stop", "the report of the other container's end")


def test_an_exit_that_cannot_be_reported_is_logged_once_and_retried_with_backoff(
    world: Proxied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.attach(Recorder())
    tried = list[float]()

    def breaks(calls: ContainerCalls, record: ContainerRecord) -> object:
        tried.append(time.monotonic())
        raise RequestError("spec", "", "cannot be read")

    monkeypatch.setattr(ContainerCalls, "ended", breaks)
    pod_id = world.run(world.run_pod())
    cri = world.cri
    world.direct.call("StopContainer", container_id=pod_id, timeout=0)
    until = time.monotonic() + 20
    while len(tried) < 3 and time.monotonic() < until:  # a kubelet that asks all the time
        cri.call("ListContainers")
        time.sleep(0.05)
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    assert len(pauses) == 2, "it is not tried again"
    assert all(pause >= 2.0**times for times, pause in enumerate(pauses)), pauses
    message = [line for line in caplog.messages if "cannot report the end of container" in line]
    assert len(message) == 1, message
    assert pod_id in message[0]
    assert "cannot be read" in message[0]


def test_a_reported_exit_is_not_repeated(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = world.attach(Recorder())
    assert world.proxy is not None
    pod_id, second = world.run(world.run_pod()), list[str]()
    world.cri.call("StopContainer", container_id=pod_id, timeout=0)
    assert plugin.of("c")[-1] == "stop"
    monkeypatch.setattr(ContainerCalls, "ended", lambda _, record: second.append(record.runtime_id))
    world.proxy.exits.check(world.direct.call("ListContainers"))
    assert second == []


def test_an_unreported_exit_is_forgotten_with_its_container(world: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    world.attach(Recorder())
    assert world.proxy is not None
    exits = world.proxy.exits

    def breaks(calls: ContainerCalls, record: ContainerRecord) -> object:
        raise RequestError("spec", "", "cannot be read")

    monkeypatch.setattr(ContainerCalls, "ended", breaks)
    pod_id = world.run(world.run_pod())
    world.direct.call("StopContainer", container_id=pod_id, timeout=0)
    world.cri.call("ListContainers")
    wait_for(lambda: exits.retries, "the failure")
    world.cri.call("RemoveContainer", container_id=pod_id)
    world.cri.call("ListContainers")
    wait_for(lambda: not exits.retries, "the end of the trying")


def test_an_empty_filter_lists_all_containers(world: Proxied) -> None:
    """The kubelet's lists have an empty filter, so the proxy does not need separate lists."""
    assert world.proxy is not None
    exits = world.proxy.exits
    before = exits.asked_at
    world.cri.call("ListContainers", filter=pb.ContainerFilter(id="none"))
    assert exits.asked_at == before
    world.cri.call("ListContainers", filter=pb.ContainerFilter())
    assert exits.asked_at > before
