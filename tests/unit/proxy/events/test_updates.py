"""Updates and evictions of existing containers, and their failures."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

import nri
from nri.adaptation import OrderedUpdates
from nri.api import messages as m
from nri.cri.pb import api_pb2 as pb
from nri.engine.process.dry import DryRuntime
from nri.proxy.state import CREATING, ContainerRecord
from tests.engine.node import Recorder
from tests.support.no_threads import no_threads
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for


class Asker:
    """A plugin with one container that runs; asks for updates of it."""

    def __init__(self, world: Proxied) -> None:
        self.world = world
        self.plugin: Recorder = world.attach(Recorder())
        self.ids: dict[str, str] = {}
        self.plugin.on["post_create"] = lambda pod, container: self.ids.update({container.name: container.id})
        self.pod = world.run_pod()
        self.container = world.run(self.pod)

    def failed(self, *updates: nri.Update) -> list[str]:
        return [row.container_id for row in self.plugin.runtime.update(*updates).result(20)]

    def update(self, name: str = "c") -> nri.Update:
        return nri.Update(self.ids[name])

    def resources(self) -> dict[str, Any]:
        actual: dict[str, Any] = self.world.spec(self.container)["linux"]["resources"]
        return actual


@pytest.fixture
def asker(world: Proxied) -> Asker:
    return Asker(world)


def test_an_update_of_a_missing_container_fails(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    asker.world.direct.call("RemoveContainer", container_id=asker.container)
    assert asker.failed(asker.update().set_cpu_shares(5)) == [asker.ids["c"]]
    assert "the runtime does not know the container" in caplog.text


def test_an_update_of_a_stopped_container_fails(asker: Asker) -> None:
    asker.world.cri.call("StopContainer", container_id=asker.container)
    assert asker.failed(asker.update().set_cpu_shares(5)) == [asker.ids["c"]]


def test_without_a_runtime_only_updates_and_evictions_fail(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    asker.world.stop_runtime()
    assert asker.failed(asker.update().set_cpu_shares(5)) == [asker.ids["c"]]
    asker.plugin.runtime.evict(asker.ids["c"], "no room").result(20)
    wait_for(lambda: "could not be evicted" in caplog.text, "the complaint")
    assert asker.plugin.of("c")[-1] == "post_start"


def test_a_refused_update_fails_and_the_others_are_applied(asker: Asker) -> None:
    created_id = asker.world.run(asker.pod, "other")
    bad = asker.update().set_cpuset_cpus("9999")
    failed = asker.failed(bad, asker.update("other").set_cpu_shares(7))
    assert asker.ids["other"] not in failed
    assert asker.world.spec(created_id)["linux"]["resources"]["cpu"]["shares"] == 7


def test_hugepage_limits_and_unified_keys_are_merged(asker: Asker) -> None:
    assert asker.world.proxy is not None
    first = asker.update().add_hugepage_limit("2MB", 2 << 20).set_memory_limit(64 << 20)
    second = asker.update().add_hugepage_limit("1GB", 0).add_hugepage_limit("2MB", 4 << 20).set_cpuset_mems("0")
    asker.failed(first)
    asker.failed(second)
    record = asker.world.proxy.store.named(asker.ids["c"])
    assert record is not None
    assert {limit.page_size: limit.limit for limit in record.resources.hugepage_limits} == {"2MB": 4 << 20, "1GB": 0}
    assert (record.resources.memory_limit_in_bytes, record.resources.cpuset_mems) == (64 << 20, "0")
    assert record.plugin_view.linux.resources.memory.limit.value == 64 << 20


def test_zeros_and_unsupported_fields_are_logged_and_the_rest_is_applied(asker: Asker) -> None:
    expected = asker.update().set_cpu_shares(33).set_pids_limit(7)
    expected.message.linux.resources.memory.limit.SetInParent()
    assert asker.failed(expected) == [asker.ids["c"]]
    assert asker.resources()["cpu"]["shares"] == 33


def test_an_eviction_of_an_unknown_container_is_logged(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    assert asker.world.proxy is not None
    asker.world.proxy.domain.evict([m.ContainerEviction(container_id="none")])
    assert "container none" in caplog.text


def test_an_eviction_without_a_thread_is_logged_and_can_be_repeated(
    asker: Asker, caplog: pytest.LogCaptureFixture
) -> None:
    assert asker.world.proxy is not None
    domain, expected = asker.world.proxy.domain, [m.ContainerEviction(container_id=asker.ids["c"])]
    with no_threads():
        domain.evict(expected)
    assert f"container {asker.container} could not be evicted: can't start new thread" in caplog.text
    domain.evict(expected)
    wait_for(lambda: asker.plugin.of("c")[-1] == "stop", "its stop")


def test_of_two_answers_the_later_answer_counts(asker: Asker) -> None:
    """The update of the second answer is applied before that of the first, because the runtime is slower there."""
    assert asker.world.proxy is not None
    begun, go_on = threading.Event(), threading.Event()
    follow = asker.world.proxy.domain.follow
    target = asker.ids["c"]

    def late(reply: Any, deadline: float | None) -> None:
        if any(update.linux.resources.cpu.shares.value == 100 for update in reply.updates):
            begun.set()
            assert go_on.wait(20)
        follow(reply, deadline)

    asker.world.proxy.domain.follow = late  # type: ignore[method-assign]
    values = {"first": 100, "second": 200}
    asker.plugin.on["create"] = lambda pod, container: (
        nri.Adjustment(),
        [nri.Update(target).set_cpu_shares(values[container.name])],
    )
    cri = asker.world.client(asker.world.settings.listen)
    thread = threading.Thread(target=lambda: asker.world.create(asker.pod, "first", cri))
    thread.start()
    assert begun.wait(20)
    asker.world.create(asker.pod, "second")
    assert asker.resources()["cpu"]["shares"] == 200
    go_on.set()
    thread.join()
    assert asker.resources()["cpu"]["shares"] == 200, "the first answer is the older one"


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A runtime whose updates do not end; gives the containers whose updates have begun."""
    end, begun = threading.Event(), list[str]()

    def hang(self: DryRuntime, container_id: str, resources: object) -> None:
        begun.append(container_id)
        end.wait(60)

    monkeypatch.setattr(DryRuntime, "update", hang)
    yield begun
    end.set()


def test_a_creation_is_answered_in_time_although_updates_of_other_containers_hang(
    asker: Asker, stuck: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    remaining = [asker.container, *(asker.world.run(asker.pod, f"other{number}") for number in range(3))]
    asker.plugin.on["create"] = lambda pod, container: (
        nri.Adjustment(),
        [nri.Update(name).set_cpu_shares(7) for name in [*asker.ids.values()]],
    )
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="new"), image=pb.ImageSpec(image="img"), command=["sleep"]
    )
    answer = asker.world.cri.call("CreateContainer", timeout_s=2, pod_sandbox_id=asker.pod, config=config)
    assert answer.container_id
    assert len(stuck) < len(remaining), "each update has waited for its full timeout"
    message = [line for line in caplog.messages if "by 10-test" in line and "cpu.shares refused" in line]
    assert len(message) == len(remaining), "what could not be done is lost in silence"
    assert "the runtime did not answer in time" in message[0]
    assert "deadline exceeded while waiting for the update of container" in message[-1]


def test_a_stop_is_answered_in_time_although_updates_of_other_containers_hang(
    asker: Asker, stuck: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    ended = asker.world.run(asker.pod, "ended")
    asker.plugin.on["stop"] = lambda pod, container: [nri.Update(asker.ids["c"]).set_cpu_shares(7)]
    asker.world.cri.call("StopContainer", timeout_s=2, container_id=ended)
    assert stuck == [asker.container]
    assert "the runtime did not answer in time" in caplog.text


def test_a_kubelets_update_waits_for_a_plugins_update_until_its_deadline(
    asker: Asker, stuck: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    asker.plugin.runtime.update(asker.update().set_cpu_shares(7))
    wait_for(lambda: stuck, "the plugin's update")
    linux = pb.LinuxContainerResources(cpu_shares=44)
    with pytest.raises(grpc.RpcError) as caught:
        asker.world.cri.call("UpdateContainerResources", timeout_s=0.5, container_id=asker.container, linux=linux)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    wait_for(lambda: "waiting for another update of container" in caplog.text, "the end of the call in the proxy")
    assert stuck == [asker.container]


def test_a_container_during_creation_has_not_ended(asker: Asker) -> None:
    assert asker.world.proxy is not None
    asker.world.proxy.store.put(ContainerRecord(id="new", pod_id=asker.pod, reported_step=CREATING))
    update = m.ContainerUpdate(container_id="new")
    update.linux.resources.cpu.shares.value = 7
    (result,) = asker.world.proxy.domain.updates.apply(OrderedUpdates([update]))
    assert result.fields[0].reason == "the container has not been created yet"


def test_an_update_that_the_runtime_refuses_does_not_change_the_record(asker: Asker) -> None:
    assert asker.world.proxy is not None
    record = asker.world.proxy.store.named(asker.ids["c"])
    assert record is not None
    before = str(record)
    bad = pb.LinuxContainerResources(cpuset_cpus="no cpus")
    refused = asker.world.cri.refused("UpdateContainerResources", container_id=asker.container, linux=bad)
    assert refused == asker.world.direct.refused("UpdateContainerResources", container_id=asker.container, linux=bad)
    assert str(record) == before
    asker.plugin.on["update"] = lambda pod, container: nri.Update(container.id).set_pids_limit(3)
    asker.world.cri.call(
        "UpdateContainerResources", container_id=asker.container, linux=pb.LinuxContainerResources(cpu_shares=44)
    )
    assert asker.resources()["cpu"]["shares"] == 44


def test_a_refused_start_is_reported_as_an_exit(asker: Asker) -> None:
    created_id = asker.world.create(asker.pod, "twice")
    asker.world.direct.call("StartContainer", container_id=created_id)
    refused = asker.world.cri.refused("StartContainer", container_id=created_id)
    assert refused == asker.world.direct.refused("StartContainer", container_id=created_id)
    assert asker.plugin.of("twice")[-2:] == ["start", "stop"]


def test_a_plugin_error_after_an_event_is_only_logged(asker: Asker, caplog: pytest.LogCaptureFixture) -> None:
    def fail(pod: Any, container: Any) -> None:
        raise nri.Reject("too late")

    asker.plugin.on["stop"] = asker.plugin.on["stop_pod"] = fail
    asker.world.cri.call("StopPodSandbox", pod_sandbox_id=asker.pod)
    assert "NRI stop_container" in caplog.text or "too late" in caplog.text
    asker.world.cri.call("RemovePodSandbox", pod_sandbox_id=asker.pod)
    assert asker.world.proxy is not None and asker.world.proxy.store.pods() == []


def test_evictions_have_a_limit_of_threads_which_is_logged_once(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("nri.cri.evictions.MAX_EVICTIONS", 0)
    assert asker.world.proxy is not None
    for _ in range(7):
        asker.world.proxy.domain.evict([m.ContainerEviction(container_id=asker.ids["c"])])
    assert [text for text in caplog.messages if "evict" in text] == [
        f"container {asker.container} and others are not evicted: 0 evictions are in progress"
    ]
    assert asker.plugin.of("c")[-1] == "post_start"


def test_repeated_evictions_stop_a_container_once(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert asker.world.proxy is not None
    domain = asker.world.proxy.domain
    stopped, go = list[str](), threading.Event()
    call = asker.world.proxy.backend.call

    def slow(name: str, request: Any, timeout_s: float | None = None) -> Any:
        if name == "StopContainer":
            stopped.append(request.container_id)
            go.wait(20)
        return call(name, request, timeout_s)

    monkeypatch.setattr(asker.world.proxy.backend, "call", slow)
    expected = [m.ContainerEviction(container_id=asker.ids["c"], reason="no room")] * 100
    domain.evict([*expected, *(m.ContainerEviction(container_id=f"none{number}") for number in range(100))])
    go.set()
    wait_for(lambda: asker.plugin.of("c")[-1] == "stop", "the end")
    assert stopped == [asker.container]
    assert caplog.text.count("an eviction is ignored") == 1
