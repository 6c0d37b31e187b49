"""Containers created through the proxy: events of plugins, and changes that reach the runtime."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import pytest

import nri
from nri.adaptation import OrderedUpdates, SequenceNumbers
from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.statuses import StatusCalls
from nri.proxy.events import containers
from nri.proxy.events.views import RUNTIME_ID
from nri.proxy.passing import Call, RuntimeFailed
from nri.ttrpc.waiters import ARRIVALS
from tests.engine.node import Recorder
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for

Code = grpc.StatusCode
LIFE = ["create", "post_create", "start", "post_start", "stop", "remove"]


@pytest.fixture
def plugin(world: Proxied) -> Recorder:
    recorder: Recorder = world.attach(Recorder())
    return recorder


def test_a_container_has_the_plugins_changes(world: Proxied, plugin: Recorder) -> None:
    plugin.on["create"] = lambda pod, container: (
        nri.Adjustment()
        .add_env("ADDED", "yes")
        .add_annotation("zone", "a")
        .set_memory_limit(48 << 20)
        .set_cpu_shares(321)
        .set_cpuset_cpus("0")
    )
    pod_id = world.create(world.run_pod(), envs=[pb.KeyValue(key="THERE", value=b"too")])
    spec = world.spec(pod_id)
    assert {"ADDED=yes", "THERE=too"} <= set(spec["process"]["env"])
    assert spec["linux"]["resources"]["memory"]["limit"] == 48 << 20
    assert spec["linux"]["resources"]["cpu"] == {"shares": 321, "cpus": "0"}
    assert world.cri.call("ContainerStatus", container_id=pod_id).status.annotations["zone"] == "a"


def test_plugins_receive_each_event_of_a_container_once_with_one_id(world: Proxied, plugin: Recorder) -> None:
    ids: list[str] = []
    for event in LIFE:
        plugin.on[event] = lambda pod, container: ids.append(container.id)
    pod_id = world.run(world.run_pod())
    for _ in range(2):
        world.cri.call("StopContainer", container_id=pod_id, timeout=0)
    for _ in range(2):
        world.cri.call("RemoveContainer", container_id=pod_id)
    assert plugin.of("c") == LIFE
    assert len(set(ids)) == 1


def test_after_creation_plugins_can_read_the_runtimes_id(world: Proxied, plugin: Recorder) -> None:
    received: list[str] = []
    plugin.on["create"] = lambda pod, container: received.append(container.annotations.get(RUNTIME_ID, ""))
    plugin.on["post_create"] = plugin.on["create"]
    pod_id = world.create(world.run_pod())
    assert received == ["", pod_id]


def test_plugins_see_the_request_before_creation_and_the_spec_after_it(world: Proxied, plugin: Recorder) -> None:
    received: dict[str, nri.Container] = {}
    plugin.on["create"] = lambda pod, container: received.update(create=container)
    plugin.on["post_create"] = lambda pod, container: received.update(post=container)
    resources = pb.LinuxContainerResources(cpu_shares=512, memory_limit_in_bytes=64 << 20, oom_score_adj=999)
    config = pb.LinuxContainerConfig(resources=resources)
    world.create(
        world.run_pod(),
        command=["run"],
        args=["it"],
        labels={"l": "1"},
        annotations={"a": "2"},
        linux=config,
        mounts=[pb.Mount(container_path="/data", host_path="/tmp", readonly=True)],
    )
    requests = received["create"]
    assert (list(requests.args), requests.labels["l"], requests.annotations["a"]) == (["run", "it"], "1", "2")
    assert (requests.linux.resources.cpu.shares.value, requests.linux.resources.memory.limit.value) == (512, 64 << 20)
    assert requests.linux.oom_score_adj.value == 999
    assert [(mount.destination, mount.source, "ro" in mount.options) for mount in requests.mounts] == [
        ("/data", "/tmp", True)
    ]
    assert "/proc" in [mount.destination for mount in received["post"].mounts]
    assert received["post"].linux.cgroups_path


def test_a_container_that_a_plugin_refuses_is_not_created(world: Proxied, plugin: Recorder) -> None:
    def refuse(pod: nri.PodSandbox, container: nri.Container) -> None:
        raise nri.Reject("not here")

    plugin.on["create"] = refuse
    pod = world.run_pod()
    code, text = world.cri.refused("CreateContainer", pod_sandbox_id=pod, config=config())
    assert code is Code.PERMISSION_DENIED and "10-test" in text and "not here" in text
    assert not world.direct.call("ListContainers").containers


def config(**more: object) -> pb.ContainerConfig:
    return pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image="img"), **more)  # type: ignore[arg-type]


def test_a_container_that_the_runtime_refuses_is_removed_at_plugins(world: Proxied, plugin: Recorder) -> None:
    pod = world.run_pod()
    bad = config(envs=[pb.KeyValue(key="", value=b"1")])
    code, text = world.cri.refused("CreateContainer", pod_sandbox_id=pod, config=bad)
    assert (code, text) == world.direct.refused("CreateContainer", pod_sandbox_id=pod, config=bad)
    assert plugin.of("c") == ["create", "stop", "remove"]
    assert world.proxy is not None and world.proxy.store.containers() == []
    recorded = world.proxy.adaptation.provenance
    assert recorded is not None
    explanation = recorded.explain(recorded.containers()[0].id)
    assert explanation is not None and explanation.refused is not None, "nri why explains it"
    assert (
        explanation.refused[1].startswith("the runtime failed after the plugins' answers: ")
        and text in explanation.refused[1]
    )


def test_an_unsupported_field_is_logged_with_plugin_and_field(
    world: Proxied, plugin: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.on["create"] = lambda pod, container: (
        nri.Adjustment().add_env("ADDED", "yes").add_rlimit("RLIMIT_NOFILE", 8, 8).set_pids_limit(5)
    )
    pod_id = world.create(world.run_pod())
    assert "ADDED=yes" in world.spec(pod_id)["process"]["env"]
    messages = "\n".join(record.getMessage() for record in caplog.records if record.name == "nri.proxy")
    assert "rlimits[RLIMIT_NOFILE] of plugin 10-test" in messages
    assert "linux.resources.pids of plugin 10-test" in messages


def test_with_refuse_an_unsupported_field_fails_the_request(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = Proxied(tmp_path_factory.mktemp("refuse"), unsayable="refuse")
    try:
        world.start_runtime()
        world.start()
        plugin = world.attach(Recorder())
        plugin.on["create"] = lambda pod, container: nri.Adjustment().add_rlimit("RLIMIT_NOFILE", 8, 8)
        code, text = world.cri.refused("CreateContainer", pod_sandbox_id=world.run_pod(), config=config())
        assert code is Code.INVALID_ARGUMENT
        assert "rlimits[RLIMIT_NOFILE] of plugin 10-test" in text
        assert plugin.of("c") == ["create", "stop", "remove"]
    finally:
        world.close()


def test_plugins_change_an_update(world: Proxied, plugin: Recorder) -> None:
    pod_id = world.run(world.run_pod())
    plugin.on["update"] = lambda pod, container: nri.Update(container.id).set_cpu_shares(99)
    requests = pb.LinuxContainerResources(cpu_shares=1000, memory_limit_in_bytes=80 << 20)
    world.cri.call("UpdateContainerResources", container_id=pod_id, linux=requests)
    resources = world.spec(pod_id)["linux"]["resources"]
    assert (resources["cpu"]["shares"], resources["memory"]["limit"]) == (99, 80 << 20)
    assert plugin.of("c")[-2:] == ["update", "post_update"]


def test_a_repeated_update_of_the_kubelet_replaces_the_earlier_update(world: Proxied) -> None:
    received: list[str] = []
    plugin = world.attach(Recorder())
    plugin.on["create"] = lambda pod, container: received.append(container.id)
    linux = pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(cpu_shares=2))
    pod_id = world.create(world.run_pod(), linux=linux)
    for limit in (1 << 21, 1 << 22):
        pages = [pb.HugepageLimit(page_size="2MB", limit=limit)]
        resources = pb.LinuxContainerResources(cpu_shares=1000, hugepage_limits=pages)
        world.cri.call("UpdateContainerResources", container_id=pod_id, linux=resources)
    assert world.proxy is not None
    recorded = world.proxy.requested_resources(received[0])
    assert recorded is not None
    assert [(row.page_size, row.limit) for row in recorded.hugepage_limits] == [("2MB", 1 << 22)]


def test_an_update_that_no_plugin_changes_is_forwarded_unchanged(world: Proxied, plugin: Recorder) -> None:
    pod_id = world.run(world.run_pod())
    world.cri.call("UpdateContainerResources", container_id=pod_id, linux=pb.LinuxContainerResources(cpu_shares=77))
    assert world.spec(pod_id)["linux"]["resources"]["cpu"]["shares"] == 77


def test_a_creation_that_no_plugin_changes_is_forwarded_byte_by_byte(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, passed = Call.forward, list[bytes]()

    def watched(self: Call, request: bytes) -> bytes:
        passed.append(request)
        return forward(self, request)

    pod = world.run_pod()
    monkeypatch.setattr(Call, "forward", watched)
    expected = pb.CreateContainerRequest(pod_sandbox_id=pod, config=config(command=["sleep"]))
    world.cri.call("CreateContainer", pod_sandbox_id=pod, config=expected.config)
    assert passed == [expected.SerializeToString()]
    assert plugin.of("c") == ["create", "post_create"]


def test_fields_that_a_later_answer_has_set_are_left_out_of_the_kubelets_update(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin's own request sets a field between the plugins' answers and the forwarding of the update."""
    assert world.proxy is not None
    pod, ids = world.run_pod(), dict[str, str]()
    plugin.on["post_create"] = lambda pod, container: ids.update({container.name: container.id})
    created_id = world.run(pod)
    update = world.proxy.domain.update

    def overtaken(*arguments: Any) -> Any:
        reply = update(*arguments)
        failed = plugin.runtime.update(nri.Update(ids["c"]).set_cpu_shares(55)).result(20)
        assert not failed
        return reply

    monkeypatch.setattr(world.proxy.domain, "update", overtaken)
    requests = pb.LinuxContainerResources(cpu_shares=1000, memory_limit_in_bytes=80 << 20)
    world.cri.call("UpdateContainerResources", container_id=created_id, linux=requests)
    resources = world.spec(created_id)["linux"]["resources"]
    assert (resources["cpu"]["shares"], resources["memory"]["limit"]) == (55, 80 << 20)


@pytest.mark.parametrize("event", ["create", "update"])
def test_a_later_answer_keeps_its_value_when_an_earlier_answer_is_applied(
    world: Proxied, plugin: Recorder, event: str
) -> None:
    earlier, ids = next(ARRIVALS), list[str]()
    plugin.on["post_create"] = lambda pod, container: ids.append(container.id)
    plugin.on[event] = lambda pod, container: (
        nri.Adjustment().set_cpu_shares(800) if event == "create" else nri.Update(container.id).set_cpu_shares(800)
    )
    pod_id = world.run(world.run_pod())
    if event == "update":
        linux = pb.LinuxContainerResources(cpu_period=10000)
        world.cri.call("UpdateContainerResources", container_id=pod_id, linux=linux)
    requests = nri.Update(ids[0]).set_cpu_shares(700).add_unified("cpu.idle", "1").message
    assert world.proxy is not None
    (late,) = world.proxy.domain.updates.apply(OrderedUpdates([requests], SequenceNumbers(earlier)))
    assert {row.field: row.outcome for row in late.fields} == {"cpu.shares": "stale", "unified[cpu.idle]": "applied"}
    resources = world.spec(pod_id)["linux"]["resources"]
    assert (resources["cpu"]["shares"], resources["unified"]) == (800, {"cpu.idle": "1"})


def test_an_update_of_another_container_is_applied(world: Proxied, plugin: Recorder) -> None:
    pod = world.run_pod()
    names: dict[str, str] = {}
    plugin.on["post_create"] = lambda pod, container: names.update({container.name: container.id})
    first = world.run(pod, "first")
    plugin.on["create"] = lambda pod, container: (
        nri.Adjustment(),
        [nri.Update(names["first"]).set_cpu_shares(55).set_cpuset_cpus("0")],
    )
    world.run(pod, "second")
    assert world.spec(first)["linux"]["resources"]["cpu"] == {"shares": 55, "cpus": "0"}


def test_unsolicited_updates_and_evictions_are_applied_and_failures_returned(world: Proxied, plugin: Recorder) -> None:
    ids: list[str] = []
    plugin.on["post_create"] = lambda pod, container: ids.append(container.id)
    pod_id = world.run(world.run_pod())
    failed = plugin.runtime.update(nri.Update(ids[0]).set_memory_limit(70 << 20), nri.Update("none").set_cpu_shares(5))
    assert [row.container_id for row in failed.result(20)] == ["none"]
    assert world.spec(pod_id)["linux"]["resources"]["memory"]["limit"] == 70 << 20
    failed = plugin.runtime.update(nri.Update(ids[0]).set_pids_limit(5))
    assert [row.container_id for row in failed.result(20)] == [ids[0]]
    plugin.runtime.evict(ids[0], "no room").result(20)
    wait_for(lambda: "stop" in plugin.of("c"), "the end")
    state = world.direct.call("ContainerStatus", container_id=pod_id).status.state
    assert state == pb.CONTAINER_EXITED


def test_an_exit_is_reported_once_with_its_code(world: Proxied, plugin: Recorder) -> None:
    codes: list[int] = []
    plugin.on["stop"] = lambda pod, container: codes.append(container.exit_code)
    pod = world.run_pod()
    created_id = world.run(pod)
    world.direct.call("StopContainer", container_id=created_id, timeout=0)
    assert plugin.of("c")[-1] == "post_start"
    world.cri.call("ListContainers")  # as the kubelet does every second
    wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")
    world.cri.call("ListContainers")
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    status = world.direct.call("ContainerStatus", container_id=created_id).status
    assert codes == [status.exit_code]


def test_an_exit_is_found_without_list_requests(tmp_path_factory: pytest.TempPathFactory) -> None:
    world = Proxied(tmp_path_factory.mktemp("alone"), poll_interval=0.05)
    try:
        world.start_runtime()
        world.start()
        plugin = world.attach(Recorder())
        pod_id = world.run(world.run_pod())
        world.direct.call("StopContainer", container_id=pod_id, timeout=0)
        wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")
    finally:
        world.close()


def test_a_slow_plugin_does_not_delay_the_kubelet_beyond_its_deadline(world: Proxied, plugin: Recorder) -> None:
    go = threading.Event()
    plugin.on["create"] = lambda pod, container: go.wait(20) and None
    pod = world.run_pod()
    with pytest.raises(grpc.RpcError) as caught:
        world.cri.call("CreateContainer", timeout_s=0.3, pod_sandbox_id=pod, config=config())
    assert caught.value.code() is Code.DEADLINE_EXCEEDED
    go.set()
    wait_for(lambda: "remove" in plugin.of("c") or (world.proxy and not world.proxy.store.containers()), "the undo")
    assert not world.direct.call("ListContainers").containers


def test_an_exit_is_found_in_any_list_also_in_a_filtered_list(world: Proxied, plugin: Recorder) -> None:
    pod_id = world.run(world.run_pod())
    world.direct.call("StopContainer", container_id=pod_id, timeout=0)
    over = pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_EXITED))
    assert [container.id for container in world.cri.call("ListContainers", filter=over).containers] == [pod_id]
    wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (Code.DEADLINE_EXCEEDED, ["start", "post_start"]),
        (Code.CANCELLED, ["start", "post_start"]),
        (Code.UNAVAILABLE, ["start", "post_start"]),
        (Code.INTERNAL, ["start", "stop"]),
    ],
)
def test_a_start_with_a_lost_reply_is_not_an_exit_if_the_container_runs(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch, code: Code, message: list[str]
) -> None:
    """Otherwise plugins would believe that a running container has ended, and their updates would be refused."""
    pod_id = world.create(world.run_pod())
    forward = Call.forward

    def lost(self: Call, request: bytes) -> bytes:
        answer = forward(self, request)
        if self.method.endswith("/StartContainer"):
            raise RuntimeFailed(code, "the answer is lost")
        return answer

    monkeypatch.setattr(Call, "forward", lost)
    assert world.cri.refused("StartContainer", container_id=pod_id)[0] is code
    assert plugin.of("c")[-2:] == message


def test_a_failed_start_without_a_reply_is_neither_a_start_nor_an_exit(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod_id = world.create(world.run_pod())

    def lost(self: Call, request: bytes) -> bytes:
        raise RuntimeFailed(Code.UNAVAILABLE, "the runtime is gone")

    with monkeypatch.context() as patch:
        patch.setattr(Call, "forward", lost)
        world.cri.refused("StartContainer", container_id=pod_id)
    assert plugin.of("c")[-1] == "start"
    world.cri.call("StartContainer", container_id=pod_id)
    assert plugin.of("c")[-2:] == ["start", "post_start"]
    world.direct.call("StopContainer", container_id=pod_id, timeout=0)
    with monkeypatch.context() as patch:
        patch.setattr(Call, "forward", lost)
        world.cri.refused("StartContainer", container_id=pod_id)
    assert plugin.of("c")[-2:] == ["start", "stop"]


def test_a_creation_is_answered_in_time_although_the_status_request_hangs(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = threading.Event()
    status = StatusCalls.container_status
    monkeypatch.setattr(StatusCalls, "container_status", lambda *arguments: (end.wait(60), status(*arguments))[1])
    proxy = world.proxy
    assert proxy is not None
    world.stop_runtime()
    wait_for(lambda: not proxy.connected, "the end of the connection")
    world.start_runtime()
    wait_for(lambda: proxy.connected, "the connection")
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image="img"), command=["x"])
    try:
        pod = world.run_pod()
        answer = world.cri.call("CreateContainer", timeout_s=2, pod_sandbox_id=pod, config=config)
    finally:
        end.set()
    assert world.spec(answer.container_id)
    assert plugin.of("c") == ["create", "post_create"]


def test_many_unsupported_entries_log_few_lines(
    world: Proxied, plugin: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    adjustment = nri.Adjustment()
    for number in range(100):
        adjustment.add_mount(f"/m{number}", "none", type="tmpfs")
    plugin.on["create"] = lambda pod, container: (adjustment, [])
    world.create(world.run_pod())
    assert caplog.text.count("an adjustment is left out") == containers.MAX_LOGGED_ENTRIES
    assert "80 more are left out" in caplog.text
