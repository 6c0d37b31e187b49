"""Pods created through the proxy: events of plugins, and refused pods."""

from __future__ import annotations

import grpc
import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.errors import RpcError
from nri.proxy.events.runtime_queries import RuntimeQueries
from tests.engine.node import Recorder
from tests.support.proxied import Proxied

Code = grpc.StatusCode


@pytest.fixture
def plugin(world: Proxied) -> Recorder:
    recorder: Recorder = world.attach(Recorder())
    return recorder


def test_plugins_receive_each_event_of_a_pod_once_with_the_runtimes_id(world: Proxied, plugin: Recorder) -> None:
    received: list[nri.PodSandbox] = []
    plugin.on["run_pod"] = lambda pod, _: received.append(pod)
    pod = world.run_pod(world.pod_config("web", labels={"l": "1"}, annotations={"a": "2"}))
    for _ in range(2):
        world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    for _ in range(2):
        world.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    assert plugin.of("web") == ["run_pod", "stop_pod", "remove_pod"]
    assert (received[0].id, received[0].namespace, received[0].labels["l"], received[0].annotations["a"]) == (
        pod,
        "tests",
        "1",
        "2",
    )
    assert received[0].linux.cgroup_parent == "/kubepods/web"


def test_a_pod_that_a_plugin_refuses_is_removed(world: Proxied, plugin: Recorder) -> None:
    def refuse(pod: nri.PodSandbox, _: None) -> None:
        raise nri.Reject("full")

    plugin.on["run_pod"] = refuse
    code, text = world.cri.refused("RunPodSandbox", config=world.pod_config())
    assert code is Code.PERMISSION_DENIED and "10-test" in text and "full" in text
    assert not world.direct.call("ListPodSandbox").items
    assert plugin.of("pod") == ["run_pod", "stop_pod", "remove_pod"]


def test_stopping_a_pod_reports_the_exit_of_its_containers(world: Proxied, plugin: Recorder) -> None:
    pod = world.run_pod()
    world.run(pod)
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    assert plugin.events[-2:] == [("stop", "c"), ("stop_pod", "pod")]
    world.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    assert plugin.events[-2:] == [("remove", "c"), ("remove_pod", "pod")]
    assert world.proxy is not None and (world.proxy.store.pods(), world.proxy.store.containers()) == ([], [])


def test_an_update_of_a_pod_is_reported_before_and_after(world: Proxied, plugin: Recorder) -> None:
    pod = world.run_pod()
    world.cri.call("UpdatePodSandboxResources", pod_sandbox_id=pod, resources=pb.LinuxContainerResources(cpu_shares=5))
    assert plugin.of("pod")[-2:] == ["update_pod", "post_update_pod"]


def test_a_joining_plugin_sees_the_current_resources_of_a_pod(world: Proxied, plugin: Recorder) -> None:
    shares = list[int]()
    plugin.on["post_update_pod"] = lambda pod, _: shares.append(pod.linux.pod_resources.cpu.shares.value)
    pod = world.run_pod()
    world.cri.call("UpdatePodSandboxResources", pod_sandbox_id=pod, resources=pb.LinuxContainerResources(cpu_shares=5))
    late = Recorder()
    late.on["synchronize"] = lambda pods, containers: shares.append(pods[0].linux.pod_resources.cpu.shares.value)
    world.attach(late, "20", "late")
    assert shares == [5, 5]


def test_a_pod_without_a_status_gets_no_containers_and_can_be_stopped(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A slow runtime must not allow a container to bypass plugins."""
    pod = world.run_pod(cri=world.direct)

    def slow(*_: object) -> None:
        raise RpcError(4, "Deadline Exceeded")

    monkeypatch.setattr(RuntimeQueries, "pod", slow)
    config = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="c"), image=pb.ImageSpec(image="img"), command=["x"])
    _, text = world.cri.refused("CreateContainer", pod_sandbox_id=pod, config=config)
    assert "Deadline Exceeded" in text
    assert not world.direct.call("ListContainers").containers, "it was made without a word to plugins"
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    assert f"the end of {pod} is not reported to plugins" in caplog.text


def test_plugins_receive_no_events_of_a_pod_with_the_skip_label(world: Proxied, plugin: Recorder) -> None:
    label = {"runtimeproxy.koordinator.sh/skip-hookserver": "true"}
    plugin.on["create"] = lambda pod, container: nri.Adjustment().add_env("ADDED", "yes")
    pod = world.run_pod(world.pod_config(labels=label))
    created_id = world.run(pod)
    world.cri.call("UpdateContainerResources", container_id=created_id, linux=pb.LinuxContainerResources(cpu_shares=5))
    world.cri.call("StopContainer", container_id=created_id)
    world.cri.call("RemoveContainer", container_id=created_id)
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    world.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    assert plugin.events == []
    assert world.proxy is not None and world.proxy.store.pods() == []


def test_key_and_value_of_the_skip_label_can_be_set(tmp_path_factory: pytest.TempPathFactory) -> None:
    world = Proxied(tmp_path_factory.mktemp("skip"), skip_label_key="mine", skip_label_value="skip")
    try:
        world.start_runtime()
        world.start()
        plugin = world.attach(Recorder())
        world.run_pod(world.pod_config("skipped", labels={"mine": "skip"}))
        world.run_pod(world.pod_config("told", labels={"runtimeproxy.koordinator.sh/skip-hookserver": "true"}))
        assert plugin.events == [("run_pod", "told")]
    finally:
        world.close()


def test_errors_about_unknown_ids_come_from_the_runtime(world: Proxied, plugin: Recorder) -> None:
    for name, fields in {
        "CreateContainer": {"pod_sandbox_id": "none", "config": pb.ContainerConfig()},
        "StartContainer": {"container_id": "none"},
        "UpdateContainerResources": {"container_id": "none", "linux": pb.LinuxContainerResources(cpu_shares=5)},
    }.items():
        assert world.cri.refused(name, **fields) == world.direct.refused(name, **fields)
    for name, fields in {
        "StopContainer": {"container_id": "none"},
        "RemoveContainer": {"container_id": "none"},
        "StopPodSandbox": {"pod_sandbox_id": "none"},
        "RemovePodSandbox": {"pod_sandbox_id": "none"},
    }.items():
        world.cri.call(name, **fields)
    assert plugin.events == []


def test_the_end_of_an_unreported_pod_is_not_reported(world: Proxied, plugin: Recorder) -> None:
    assert world.proxy is not None
    pod = world.run_pod(world.pod_config("over"), world.direct)
    created_id = world.create(pod, cri=world.direct)
    world.direct.call("StartContainer", container_id=created_id)
    world.direct.call("StopContainer", container_id=created_id)
    world.direct.call("StopPodSandbox", pod_sandbox_id=pod)
    world.cri.call("StopContainer", container_id=created_id)
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    world.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    assert [event for event, _ in plugin.events] == ["remove", "remove_pod"]
    assert world.proxy.store.pods() == []


def test_a_refused_pod_that_cannot_be_removed_is_logged(
    world: Proxied, plugin: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(pod: nri.PodSandbox, _: None) -> None:
        world.stop_runtime()
        raise nri.Reject("full")

    plugin.on["run_pod"] = refuse
    code, _ = world.cri.refused("RunPodSandbox", config=world.pod_config())
    assert code in (Code.PERMISSION_DENIED, Code.UNAVAILABLE)
    assert "cannot remove pod" in caplog.text


def test_a_containers_pod_is_found_in_the_list_if_the_status_lacks_it(world: Proxied, plugin: Recorder) -> None:
    assert world.proxy is not None
    pod = world.run_pod(world.pod_config("quiet"), world.direct)
    created_id = world.create(pod, "quiet-c", world.direct)
    queries = world.proxy.exits.context.queries
    message = queries.container
    queries.container = lambda *arguments: message(*arguments)._replace(pod_id="")  # type: ignore[method-assign]
    world.cri.call("StartContainer", container_id=created_id)
    assert plugin.of("quiet-c") == ["post_create", "start", "post_start"]
    queries.container = message  # type: ignore[method-assign]
    assert world.proxy.adaptation.plugins
