"""Pods made through the proxy: what plugins are told, and what becomes of a pod that they refuse."""

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


def test_plugins_are_told_each_step_of_a_pod_once_with_the_runtimes_id(world: Proxied, plugin: Recorder) -> None:
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


def test_a_pod_that_a_plugin_refuses_is_gone_again(world: Proxied, plugin: Recorder) -> None:
    def refuse(pod: nri.PodSandbox, _: None) -> None:
        raise nri.Reject("full")

    plugin.on["run_pod"] = refuse
    code, text = world.cri.refused("RunPodSandbox", config=world.pod_config())
    assert code is Code.PERMISSION_DENIED and "10-test" in text and "full" in text
    assert not world.direct.call("ListPodSandbox").items
    assert plugin.of("pod") == ["run_pod", "stop_pod", "remove_pod"]


def test_the_end_of_a_pod_is_the_end_of_its_containers(world: Proxied, plugin: Recorder) -> None:
    pod = world.run_pod()
    world.run(pod)
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    assert plugin.events[-2:] == [("stop", "c"), ("stop_pod", "pod")]
    world.cri.call("RemovePodSandbox", pod_sandbox_id=pod)
    assert plugin.events[-2:] == [("remove", "c"), ("remove_pod", "pod")]
    assert world.proxy is not None and (world.proxy.store.pods(), world.proxy.store.containers()) == ([], [])


def test_new_resources_of_a_pod_are_told_before_and_after(world: Proxied, plugin: Recorder) -> None:
    pod = world.run_pod()
    world.cri.call("UpdatePodSandboxResources", pod_sandbox_id=pod, resources=pb.LinuxContainerResources(cpu_shares=5))
    assert plugin.of("pod")[-2:] == ["update_pod", "post_update_pod"]


def test_a_plugin_that_joins_sees_the_resources_that_a_pod_has_by_now(world: Proxied, plugin: Recorder) -> None:
    shares = list[int]()
    plugin.on["post_update_pod"] = lambda pod, _: shares.append(pod.linux.pod_resources.cpu.shares.value)
    pod = world.run_pod()
    world.cri.call("UpdatePodSandboxResources", pod_sandbox_id=pod, resources=pb.LinuxContainerResources(cpu_shares=5))
    late = Recorder()
    late.on["synchronize"] = lambda pods, containers: shares.append(pods[0].linux.pod_resources.cpu.shares.value)
    world.attach(late, "20", "late")
    assert shares == [5, 5]


def test_what_plugins_cannot_be_asked_about_is_not_made_and_can_be_ended(
    world: Proxied, plugin: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A runtime that is slow with a status must not be a way around plugins."""
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


def test_a_pod_with_the_skip_label_is_nothing_to_plugins(world: Proxied, plugin: Recorder) -> None:
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


def test_key_and_value_of_the_skip_label_can_be_others(tmp_path_factory: pytest.TempPathFactory) -> None:
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


def test_what_the_runtime_does_not_know_it_says_itself(world: Proxied, plugin: Recorder) -> None:
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


def test_a_skipped_pods_end_is_only_forgotten_and_a_stop_of_what_plugins_missed_is_not_told(
    world: Proxied, plugin: Recorder
) -> None:
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


def test_a_refused_pod_that_the_runtime_does_not_remove_is_told(
    world: Proxied, plugin: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(pod: nri.PodSandbox, _: None) -> None:
        world.stop_runtime()
        raise nri.Reject("full")

    plugin.on["run_pod"] = refuse
    code, _ = world.cri.refused("RunPodSandbox", config=world.pod_config())
    assert code in (Code.PERMISSION_DENIED, Code.UNAVAILABLE)
    assert "cannot remove pod" in caplog.text


def test_a_container_of_a_runtime_that_does_not_tell_its_pod_is_found_in_its_list(
    world: Proxied, plugin: Recorder
) -> None:
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
