"""The proxy over restarts of itself and the runtime."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

import nri
from nri.cri.pb import api_pb2 as pb
from nri.engine.server.server import cri_server
from nri.proxy import PluginSettings, Proxy, ProxySettings, Subject
from nri.proxy.events.views import RUNTIME_ID
from tests.engine.node import Recorder
from tests.support.proxied import Proxied
from tests.support.waiting import wait_for

Code = grpc.StatusCode


def snapshots(plugin: Recorder) -> tuple[list[str], list[str]]:
    return plugin.synchronized[-1]


def test_a_joining_plugin_receives_running_pods_and_containers(world: Proxied) -> None:
    world.run(world.run_pod())
    assert snapshots(world.attach(Recorder())) == (["pod"], ["c"])


def test_after_a_restart_a_container_has_the_same_id_for_plugins(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    ids: list[str] = []
    plugin.on["create"] = lambda pod, container: ids.append(container.id)
    pod_id = world.run(world.run_pod())
    world.stop()
    world.start()
    recorder = Recorder()
    recorder.on["synchronize"] = lambda pods, containers: ids.extend(
        row.id for row in containers if row.annotations[RUNTIME_ID] == pod_id
    )
    recorder.on["stop"] = lambda pod, container: ids.append(container.id)
    world.attach(recorder)
    world.cri.call("StopContainer", container_id=pod_id)
    assert len(ids) == 3 and len(set(ids)) == 1, ids
    assert recorder.of("c") == ["stop"]


def test_without_records_a_restart_queries_the_runtime(world: Proxied) -> None:
    resources = pb.LinuxContainerResources(memory_limit_in_bytes=64 << 20, cpu_shares=512)
    pod_id = world.run(
        world.run_pod(),
        envs=[pb.KeyValue(key="KEPT", value=b"yes")],
        linux=pb.LinuxContainerConfig(resources=resources),
    )
    world.stop()
    for file in (world.folder / "kept").glob("*.json"):
        file.unlink()
    world.start()
    plugin, received = Recorder(), []
    plugin.on["synchronize"] = lambda pods, containers: received.extend([*pods, *containers])
    world.attach(plugin)
    pod, container = received
    assert pod.linux.cgroup_parent == "/kubepods/pod"  # which Koordinator's proxy loses, as it does resources and env
    assert container.id == pod_id
    assert "KEPT=yes" in container.env
    assert container.linux.resources.memory.limit.value == 64 << 20
    world.cri.call("UpdateContainerResources", container_id=pod_id, linux=pb.LinuxContainerResources(cpu_shares=5))
    assert plugin.of("c") == ["update", "post_update"]


def test_changes_during_a_restart_are_known_afterwards(world: Proxied) -> None:
    ended = world.run(world.run_pod(world.pod_config("before")), "ended")
    removed = world.run_pod(world.pod_config("removed"))
    world.stop()
    world.direct.call("StopContainer", container_id=ended)
    world.direct.call("StopPodSandbox", pod_sandbox_id=removed)
    world.direct.call("RemovePodSandbox", pod_sandbox_id=removed)
    pod = world.run_pod(world.pod_config("meanwhile"), world.direct)
    world.direct.call("StartContainer", container_id=world.create(pod, "new", world.direct))
    world.start()
    plugin = world.attach(Recorder())
    pods, containers = snapshots(plugin)
    assert (sorted(pods), sorted(containers)) == (["before", "meanwhile"], ["ended", "new"])
    world.cri.call("ListContainers")
    wait_for(lambda: plugin.of("ended") == ["stop"], "the end of what ended meanwhile")


def test_plugins_receive_late_events_of_pods_created_without_the_proxy(world: Proxied) -> None:
    plugin = world.attach(Recorder())
    pod = world.run_pod(cri=world.direct)
    created_id = world.create(pod, cri=world.direct)
    world.cri.call("StartContainer", container_id=created_id)
    assert plugin.events == [("run_pod", "pod"), ("post_create", "c"), ("start", "c"), ("post_start", "c")]


def test_the_runtime_can_start_after_the_proxy_and_restart(tmp_path: Path) -> None:
    world = Proxied(tmp_path)
    try:
        world.start()
        cri = world.cri
        code, _ = cri.refused("Version")
        assert code is Code.UNAVAILABLE
        plugin = world.attach(Recorder())
        world.start_runtime()
        wait_for(lambda: answers(world), "the runtime's answer")
        pod_id = world.run(world.run_pod())
        world.stop_runtime()
        code, _ = cri.refused("StopContainer", container_id=pod_id)
        assert code is Code.UNAVAILABLE
        assert plugin.of("c")[-1] == "post_start", "it has not ended"
        world.start_runtime()
        wait_for(lambda: answers(world), "the runtime's answer")
        cri.call("StopContainer", container_id=pod_id)
        assert plugin.of("c")[-1] == "stop"
    finally:
        world.close()


def answers(world: Proxied) -> bool:
    try:
        return bool(world.cri.call("Version").version)
    except grpc.RpcError as error:
        assert error.code() is Code.UNAVAILABLE
        return False


def test_a_proxy_killed_during_a_creation_keeps_its_id_for_the_container(world: Proxied) -> None:
    """The proxy dies after the runtime has created the container and before the reply arrives."""
    world.stop()
    script = textwrap.dedent(
        f"""
        import os, pickle, signal, sys
        import nri
        from nri.adaptation import BuiltinPlugin
        from nri.proxy import PluginSettings, Proxy, ProxySettings
        from nri.proxy.passing import Call
        from pathlib import Path

        class Plugin:
            def create_container(self, pod, container):
                print("asked", container.id, flush=True)
                return nri.Adjustment().add_env("ADDED", "yes")

        passed = Call.forward
        def forward(self, request):
            answer = passed(self, request)
            if self.method.endswith("/CreateContainer"):
                os.kill(os.getpid(), signal.SIGKILL)
            return answer
        Call.forward = forward

        folder = Path({str(world.folder)!r})
        plugins = PluginSettings(socket_path=str(folder / "nri.sock"), plugin_path=str(folder / "plugins"),
                                 policy_path="", admin_socket="")
        settings = ProxySettings(listen=str(folder / "p/proxy.sock"), runtime_endpoint=str(folder / "r/cri.sock"),
                                 state=folder / "kept", nri=plugins)
        proxy = Proxy(settings, builtin=[BuiltinPlugin("10", "test", Plugin())])
        proxy.start()
        print("ready", flush=True)
        sys.stdin.read()
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        pod = world.run_pod()
        with pytest.raises(grpc.RpcError) as caught:
            world.create(pod)
        assert caught.value.code() is Code.UNAVAILABLE
        assert process.wait(20) == -signal.SIGKILL
        name = process.stdout.readline().split()[1]
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()
        process.wait()
    (actual,) = world.direct.call("ListContainers").containers
    assert "ADDED=yes" in world.spec(actual.id)["process"]["env"]
    world.start()
    plugin, received = Recorder(), []
    plugin.on["synchronize"] = lambda pods, containers: received.extend(container.id for container in containers)
    world.attach(plugin)
    assert received == [name]
    world.cri.call("StartContainer", container_id=actual.id)
    assert plugin.of("c") == ["start", "post_start"]


def test_a_restart_forgets_a_container_that_was_never_created(world: Proxied) -> None:
    """The proxy dies after writing the record and before the runtime receives the request."""
    from nri.proxy.state import CREATING, Checkpoint, ContainerRecord

    pod = world.run_pod()
    world.stop()
    checkpoint = Checkpoint(world.settings.state)
    checkpoint.open()
    record = ContainerRecord(id="a" * 64, pod_id=pod, reported_step=CREATING)
    record.config.metadata.name = "c"
    checkpoint.put(record)
    checkpoint.close()
    proxy = world.start()
    assert proxy.store.containers() == []
    assert snapshots(world.attach(Recorder())) == (["pod"], [])


def test_the_policy_can_require_plugins(world: Proxied) -> None:
    world.stop()
    (world.folder / "policy.toml").write_text('["10-needed"]\nrequired = true\n')
    (world.folder / "policy.toml").chmod(0o600)
    world.start()
    code, text = world.cri.refused("RunPodSandbox", config=world.pod_config())
    assert code is Code.UNAVAILABLE and "10-needed" in text
    assert not world.direct.call("ListPodSandbox").items
    world.attach(Recorder(), name="needed")
    world.run_pod()


def test_two_proxies_cannot_have_one_socket_or_one_folder(world: Proxied) -> None:
    with pytest.raises(OSError, match="another proxy uses this folder"):
        Proxy(world.settings).start()
    other = Proxy(replace(world.settings, state=world.folder / "other", nri=replace(
        world.settings.nri, socket_path=str(world.folder / "other.sock"))))  # fmt: skip
    with pytest.raises(OSError, match="another process listens there"):
        other.start()
    assert world.cri.call("Version").version


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"listen": "/s", "runtime_endpoint": "unix:///s"}, "would call itself"),
        ({"listen": ""}, "the kubelet requires a socket"),
        ({"listen": "/" + "s" * 200}, "too long for a socket"),
        ({"poll_interval": 0}, "too short for a timeout"),
    ],
)
def test_invalid_settings_are_refused(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ProxySettings(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too short for a timeout"):
        PluginSettings(plugin_request_timeout=0)


def test_an_update_in_the_answer_to_synchronize_is_applied(world: Proxied) -> None:
    pod_id = world.run(world.run_pod())
    plugin = Recorder()
    plugin.on["synchronize"] = lambda pods, containers: [nri.Update(containers[0].id).set_cpu_shares(66)]
    world.attach(plugin)
    wait_for(lambda: world.spec(pod_id)["linux"]["resources"].get("cpu") == {"shares": 66}, "the update")


def test_the_proxy_logs_its_socket_and_its_runtime(tmp_path: Path) -> None:
    world = Proxied(tmp_path)
    try:
        with Proxy(world.settings) as proxy:
            settings = world.settings
            where = (
                f"CRI at {settings.listen}, NRI at {settings.nri.socket_path}, runtime at {settings.runtime_endpoint}"
            )
            assert proxy.describe() == where
            assert (proxy.listening, proxy.runtime_name, proxy.connected) == (True, "", False)
            world.start_runtime()
            wait_for(lambda: proxy.connected, "the connection")
            assert proxy.runtime_name == "nri-engine"
            world.stop_runtime()
            assert proxy.runtime_name == "nri-engine", "it was asked once, and not again"
    finally:
        world.close()
    assert not proxy.listening
    closed = replace(world.settings, nri=replace(world.settings.nri, disable_connections=True))
    assert "plugins in " in Proxy(closed).describe()
    requests = replace(world.settings, nri=replace(world.settings.nri, admin_socket="/a.sock"))
    assert ", nri why at /a.sock, runtime at " in Proxy(requests).describe()


def test_an_exit_is_found_after_a_restart_of_the_runtime(tmp_path: Path) -> None:
    world = Proxied(tmp_path, poll_interval=0.05)
    try:
        world.start_runtime()
        world.start()
        plugin = world.attach(Recorder())
        pod_id = world.run(world.run_pod())
        other = world.run(world.run_pod(world.pod_config("other")), "other")
        world.stop_runtime()
        time.sleep(0.3)  # it asks in vain
        world.start_runtime()
        wait_for(lambda: answers(world), "the runtime's answer")
        world.direct.call("StopContainer", container_id=pod_id)
        wait_for(lambda: plugin.of("c")[-1] == "stop", "the report of the end")
        world.direct.call("StopContainer", container_id=other)
        world.direct.call("RemoveContainer", container_id=other)
        world.stop_runtime()
        world.start_runtime()
        wait_for(lambda: answers(world), "the runtime's answer")
        wait_for(lambda: plugin.of("other")[-1] == "remove", "the report of the removal")
    finally:
        world.close()


def test_a_refused_pod_that_was_adopted_continues_to_run(world: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(pod: nri.PodSandbox, _: None) -> None:
        raise nri.Reject("no")

    plugin = world.attach(Recorder())
    plugin.on["run_pod"] = refuse
    pod = world.run_pod(cri=world.direct)
    created_id = world.create(pod, cri=world.direct)
    world.cri.call("UpdateContainerResources", container_id=created_id, linux=pb.LinuxContainerResources(cpu_shares=5))
    assert world.direct.call("ListPodSandbox").items
    assert "which is already running" in caplog.text


def test_pods_created_without_the_proxy_are_reported_after_a_reconnect(world: Proxied) -> None:
    world.stop()
    world.start()  # with its comparison of records and runtime, which the fixture has ended
    plugin = world.attach(Recorder())
    world.stop_runtime()
    code, _ = world.cri.refused("Version")
    assert code is Code.UNAVAILABLE
    daemon = world.make_runtime()
    engine = daemon.engine
    engine.start()
    pod = engine.pod_creation.run(world.pod_config("around"), "")
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="around-c"), image=pb.ImageSpec(image="img"), command=["run"]
    )
    created_id = engine.container_creation.create(pod, config)
    engine.container_start.start(created_id)
    daemon.streaming.start()
    server = cri_server(engine, daemon.streaming)  # later than the engine, which has a container by now
    server.start()
    try:
        wait_for(lambda: answers(world), "the runtime's answer")
        wait_for(lambda: "post_start" in plugin.of("around-c"), "the report of the start")
        assert plugin.of("around") == ["run_pod"]
    finally:
        server.stop()


class Hooks:
    """Hook servers that change each request and record their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bool, bool]] = []
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def before(self, method: str, request: Any, subject: Subject, deadline: float | None) -> None:
        self.calls.append(("before", method, subject.pod is not None, subject.container is not None))
        assert deadline is not None
        if method == "RunPodSandbox":
            request.config.annotations["hooked"] = "pod"
        if method == "CreateContainer":
            assert subject.pod is not None and subject.pod.config.annotations["hooked"] == "pod"
            request.config.envs.add(key="HOOKED", value=b"yes")
        if method == "UpdateContainerResources":
            request.linux.cpu_shares = 77

    def after(self, method: str, request: Any, response: Any, subject: Subject, deadline: float | None) -> None:
        self.calls.append(("after", method, subject.pod is not None, subject.container is not None))


def test_hook_servers_change_requests_before_plugins_and_receive_replies(world: Proxied) -> None:
    world.stop()
    hooks = Hooks()
    world.start(hook_servers=hooks)
    assert hooks.running
    plugin, received = world.attach(Recorder()), []
    plugin.on["create"] = lambda pod, container: received.extend(
        [pod.annotations["hooked"], "HOOKED=yes" in container.env]
    )
    pod = world.run_pod()
    created_id = world.run(pod)
    world.cri.call("UpdateContainerResources", container_id=created_id, linux=pb.LinuxContainerResources(cpu_shares=5))
    world.cri.call("StopContainer", container_id=created_id)
    world.cri.call("StopPodSandbox", pod_sandbox_id=pod)
    assert received == ["pod", True]
    assert "HOOKED=yes" in world.spec(created_id)["process"]["env"]
    assert world.spec(created_id)["linux"]["resources"]["cpu"]["shares"] == 77
    assert hooks.calls == [
        ("before", "RunPodSandbox", False, False), ("after", "RunPodSandbox", True, False),
        ("before", "CreateContainer", True, False), ("after", "CreateContainer", True, True),
        ("before", "StartContainer", True, True), ("after", "StartContainer", True, True),
        ("before", "UpdateContainerResources", True, True), ("after", "UpdateContainerResources", True, True),
        ("before", "StopContainer", True, True), ("after", "StopContainer", True, True),
        ("before", "StopPodSandbox", True, False), ("after", "StopPodSandbox", True, False),
    ]  # fmt: skip
    world.stop()
    assert not hooks.running
