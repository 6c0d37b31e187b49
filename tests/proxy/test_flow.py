"""Calls of a kubelet and of crictl through the proxy on real runtimes, with Python and Go plugins.

What containers have is read back from their cgroups and from inside; ids of plugins and of runtimes differ, and both
sides are used with their own.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.proxy.events.views import RUNTIME_ID
from tests.engine.test_streaming import Client
from tests.peers.drivers import FieldPlugin
from tests.real.plugin_process import WAIT_S, PluginProcess
from tests.support.cri_client import CriClient
from tests.support.waiting import wait_for
from tools.runtimes import Containerd, cgroups
from tools.runtimes.cri import Pod
from tools.runtimes.proxy import Proxied

LIFE = [
    "RunPodSandbox", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer", "StopContainer",
    "StopPodSandbox", "RemoveContainer", "RemovePodSandbox",
]  # fmt: skip
SPEAKER = "echo to stdout; echo to stderr >&2; trap 'exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture
def pod(proxied: Proxied, plugin: PluginProcess, request: pytest.FixtureRequest) -> Iterator[Pod]:
    """A pod of the test's own."""
    pod_id = proxied.cri.run_pod(f"flow-{request.node.callspec.id}-{time.monotonic_ns()}")
    yield pod_id
    proxied.cri.remove_pod(pod_id.id)


def shares(proxied: Proxied, container: str) -> int:
    """The CPU shares of a container, by its spec: weights of version 2 differ between releases of runc."""
    actual: int = proxied.cri.info(container)["runtimeSpec"]["linux"]["resources"]["cpu"]["shares"]
    return actual


def cpus(proxied: Proxied, container: str) -> str:
    """The CPUs of a container's first process, by the kernel."""
    pid = proxied.cri.info(container)["pid"]
    return cgroups.read(pid, "cpuset", "cpuset.cpus", "cpuset.cpus")


def memory(proxied: Proxied, container: str) -> str:
    pid = proxied.cri.info(container)["pid"]
    return cgroups.read(pid, "memory", "memory.limit_in_bytes", "memory.max")


def test_events_of_a_pods_whole_life_arrive_once_and_in_order(proxied: Proxied, plugin: PluginProcess) -> None:
    cri = proxied.cri
    pod_id = cri.run_pod("life")
    container = cri.run(pod_id, "main")
    cri.remove_pod(pod_id.id)
    plugin.wait_for("RemovePodSandbox", pod="life")
    lines = [line for line in plugin.lines(pod="life") if line["event"] in LIFE]
    assert [line["event"] for line in lines] == LIFE
    (name,) = {line["id"] for line in lines if "id" in line}
    assert name != container
    assert [line["message"]["annotations"][RUNTIME_ID] for line in lines if line["event"] == "PostStartContainer"] == [
        container
    ]
    assert next(line["pod_id"] for line in lines) == pod_id.id


def test_plugins_see_a_running_container_with_its_process_and_spec(
    proxied: Proxied, plugin: PluginProcess, pod: Pod
) -> None:
    container = proxied.cri.run(pod, "main", memory_limit_in_bytes=64 << 20)
    event = plugin.wait_for("PostStartContainer", pod=pod.config.metadata.name)["message"]
    assert event["pid"] == proxied.cri.info(container)["pid"]
    assert event["args"] == ["/bin/sleep", "2147483647"]
    assert container in event["linux"]["cgroupsPath"]
    assert event["linux"]["resources"]["memory"]["limit"]["value"] == str(64 << 20)


def test_updates_of_the_kubelet_and_of_a_plugin_are_applied(proxied: Proxied, plugin: PluginProcess, pod: Pod) -> None:
    container = proxied.cri.run(pod, "main", memory_limit_in_bytes=64 << 20)
    proxied.cri.update(container, memory_limit_in_bytes=80 << 20)
    assert memory(proxied, container) == str(80 << 20)
    name = plugin.wait_for("PostUpdateContainer", pod=pod.config.metadata.name)["id"]
    before = len(plugin.lines("Updated"))
    plugin.send({"container": name, "set": {"set_memory_limit": 72 << 20, "set_cpu_shares": 321}})
    line = plugin.wait_for("Updated", count=before + 1)
    assert (line["failed"], line["error"]) == ([], "")
    assert memory(proxied, container) == str(72 << 20)
    assert shares(proxied, container) == 321


def test_an_update_that_the_cri_cannot_express_is_returned_as_failed(
    proxied: Proxied, plugin: PluginProcess, pod: Pod
) -> None:
    proxied.cri.run(pod, "main")
    name = plugin.wait_for("PostStartContainer", pod=pod.config.metadata.name)["id"]
    before = len(plugin.lines("Updated"))
    plugin.send({"container": name, "set": {"set_pids_limit": 5}})
    line = plugin.wait_for("Updated", count=before + 1)
    assert line["failed"] == [name]


def test_the_exit_of_a_container_is_reported_with_its_code(proxied: Proxied, plugin: PluginProcess, pod: Pod) -> None:
    container = proxied.cri.run(pod, "main", ["/bin/sh", "-c", "sleep 0.2; exit 7"])
    proxied.cri.wait_exited(container)
    proxied.cri.call("ListContainers", pb.ListContainersRequest())  # as the kubelet does all the time
    event = plugin.wait_for("StopContainer", pod=pod.config.metadata.name)["message"]
    assert event["exitCode"] == 7


def test_commands_logs_statistics_and_images_pass_through(proxied: Proxied, plugin: PluginProcess, pod: Pod) -> None:
    cri = proxied.cri
    container = cri.run(pod, "main", ["/bin/sh", "-c", SPEAKER])
    assert cri.exec(container, "/bin/echo", "hello") == "hello\n"
    with pytest.raises(RuntimeError, match="exit code 3"):
        cri.exec(container, "/bin/sh", "-c", "exit 3")
    status = cri.call("ContainerStatus", pb.ContainerStatusRequest(container_id=container)).status
    with open(status.log_path, encoding="utf-8") as log:
        wait_for(lambda: log.seek(0) == 0 and "stdout F to stdout" in log.read(), "the log")
    assert cri.call("ContainerStats", pb.ContainerStatsRequest(container_id=container)).stats.cpu.timestamp > 0
    with CriClient(proxied.cri_socket) as client, CriClient(proxied.runtime.cri_socket) as direct:
        assert [image.id for image in client.call("ListImages").images] == [
            image.id for image in direct.call("ListImages").images
        ]
        requests = {"image": pb.ImageSpec(image="localhost/none:1")}
        assert client.call("ImageStatus", **requests) == direct.call("ImageStatus", **requests)
        asked_of = {"container_id": "none"}
        assert client.refused("ContainerStatus", **asked_of) == direct.refused("ContainerStatus", **asked_of)


def test_container_events_of_the_runtime_arrive_as_a_stream(proxied: Proxied, plugin: PluginProcess) -> None:
    with CriClient(proxied.cri_socket) as client:
        events = client.stream("GetContainerEvents")
        pod_id = proxied.cri.run_pod("streamed")
        container = proxied.cri.run(pod_id, "main")
        received: list[tuple[str, int]] = []
        for event in events:
            received.append((event.container_id, event.container_event_type))
            if (container, pb.CONTAINER_STARTED_EVENT) in received:
                break
        events.cancel()
        proxied.cri.remove_pod(pod_id.id)
    assert (container, pb.CONTAINER_CREATED_EVENT) in received


@pytest.fixture
def streams() -> Iterator[Client]:
    """client-go's own clients."""
    with Client() as client:
        yield client


@pytest.mark.parametrize("over", ["spdy", "websocket"])
def test_exec_and_attach_of_a_client_reach_the_runtime(
    proxied: Proxied, plugin: PluginProcess, pod: Pod, streams: Client, over: str
) -> None:
    if over == "websocket" and isinstance(proxied.runtime, Containerd):
        return  # containerd has the protocol that client-go requires over SPDY only
    container = proxied.cri.run(pod, "main", ["/bin/sh", "-c", SPEAKER])
    requests: dict[str, Any] = {"stdout": True, "stderr": True, "stdin": True}
    request = pb.ExecRequest(container_id=container, cmd=["/bin/sh", "-c", "read a; echo got $a; exit 5"], **requests)
    url = proxied.cri.call("Exec", request).url
    session = streams.begin("run", url, over, **requests)
    session.tell("type", text="this\n")
    end = session.end()
    assert session.output() == "got this\n"
    assert end["code"] == 5, end


@pytest.mark.parametrize("over", ["spdy"])
def test_port_forward_reaches_a_port_of_a_pod(
    proxied: Proxied, plugin: PluginProcess, streams: Client, over: str
) -> None:
    pod_id = proxied.cri.run_pod("ported", own_network=True)
    script = "while :; do echo forwarded | nc -l -p 7070; done"
    pid = proxied.cri.info(proxied.cri.run(pod_id, "main", ["/bin/sh", "-c", script]))["pid"]
    table = Path(f"/proc/{pid}/net/tcp6"), Path(f"/proc/{pid}/net/tcp")
    # The client gives its port up with the first connection that the pod refuses.
    wait_for(lambda: any(f":{7070:04X} " in row.read_text() for row in table if row.exists()), "the listener")
    url = proxied.cri.call("PortForward", pb.PortForwardRequest(pod_sandbox_id=pod_id.id, port=[7070])).url
    session = streams.begin("forward", url, over, ports=["0:7070"])
    (port,) = session.ports()

    def answered() -> bool:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
            return connection.recv(64) == b"forwarded\n"

    wait_for(answered, "the answer")
    session.tell("leave")
    proxied.cri.remove_pod(pod_id.id)


def test_a_go_plugin_changes_real_containers(proxied: Proxied, plugin: PluginProcess) -> None:
    """The allocator knows containers only by their ids: each container keeps one id for its whole life."""
    with (
        FieldPlugin(proxied.nri_socket, "logger", "20") as logger,
        FieldPlugin(proxied.nri_socket, "allocator", "30", cpus=2, shared=1, tell=True) as allocator,
    ):
        for row in (logger, allocator):
            row.wait_event("started")  # it is configured then, and does not take part yet
            active = rf"plugin external:{row.label}\[{row.pid}\] is active"
            wait_for(lambda active=active: proxied.log_lines(active), f"plugin {row.label}")  # type: ignore[misc]
        step = {"adjust": {"env": [{"key": "OF_GO", "value": "yes"}], "linux": {"oomScoreAdj": {"value": 500}}}}
        cri = proxied.cri
        first = cri.run_pod("go-first", annotations={"logger.test/CreateContainer": json.dumps(step)})
        shared = cri.run(first, "main")
        assert "OF_GO=yes" in cri.exec(shared, "/bin/env").splitlines()
        pid = cri.info(shared)["pid"]
        with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as score:
            assert int(score.read()) == 500
        if (os.cpu_count() or 1) >= 2:
            second = cri.run_pod("go-second", annotations={"cpus.test/exclusive": "1"})
            container_id = cri.run(second, "main")
            assert (cpus(proxied, container_id), cpus(proxied, shared)) == ("0", "1")
            cri.remove_pod(second.id)
            third = cri.run_pod("go-third", annotations={"cpus.test/exclusive": "1"})
            restored = cri.run(third, "main")
            assert cpus(proxied, restored) == "0", "what the first had is given back"
            cri.remove_pod(third.id)
        cri.remove_pod(first.id)


def test_a_refusing_plugin_prevents_the_creation(proxied: Proxied, plugin: PluginProcess) -> None:
    pod_id = proxied.cri.run_pod("refused", annotations={"test/fail": "CreateContainer"})
    with pytest.raises(grpc.RpcError) as caught:
        proxied.cri.create(pod_id, "main")
    error: Any = caught.value
    assert "10-recorder" in error.details() and "asked to fail at CreateContainer" in error.details()
    containers = proxied.runtime.cri.call("ListContainers", pb.ListContainersRequest()).containers
    assert pod_id.id not in [container.pod_sandbox_id for container in containers]
    proxied.cri.remove_pod(pod_id.id)
