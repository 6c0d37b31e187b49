"""Kills in front of real runtimes: of the proxy and of the runtime, in the middle of a creation.

Each test has its own proxy and runtime. A container's values are read from the kernel.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from nri.cri.pb import api_pb2 as pb
from nri.proxy.events.views import RUNTIME_ID
from tests.proxy.conftest import Own
from tests.real.plugin_process import PluginProcess
from tests.support.waiting import wait_for
from tools.runtimes import cgroups
from tools.runtimes.cri import Cri, Pod
from tools.runtimes.proxy import Proxied

LIMIT = 48 << 20


@pytest.fixture(scope="module", params=("containerd-2.4", "engine"))
def runtime_name(request: pytest.FixtureRequest) -> str:
    """Two runtimes are enough for what is the proxy's own."""
    return str(request.param)


def memory(proxied: Proxied, container: str) -> str:
    pid = proxied.cri.info(container)["pid"]
    return cgroups.read(pid, "memory", "memory.limit_in_bytes", "memory.max")


def adjusted(proxied: Proxied, name: str) -> Pod:
    """A pod whose containers get a smaller memory limit by the plugin."""
    return proxied.cri.run_pod(name, annotations={"test/adjust": "memory"})


def containers_of(cri: Cri, pod: Pod) -> list[str]:
    actual = cri.call("ListContainers", pb.ListContainersRequest()).containers
    return [row.id for row in actual if row.pod_sandbox_id == pod.id]


def made_at_last(proxied: Proxied, pod: Pod) -> list[str]:
    """Create a pod's container, retrying as a kubelet does: an unfinished creation may still hold the name."""

    def is_created() -> bool:
        if not containers_of(proxied.runtime.cri, pod):
            code_of(lambda: proxied.cri.create(pod, "main", memory_limit_in_bytes=64 << 20))
        return bool(containers_of(proxied.runtime.cri, pod))

    wait_for(is_created, "the container")
    return containers_of(proxied.runtime.cri, pod)


def code_of(call: Any) -> grpc.StatusCode | None:
    try:
        call()
    except grpc.RpcError as error:
        actual: grpc.StatusCode = error.code()
        return actual
    return None


def test_containers_and_their_names_survive_a_kill_of_the_proxy(own_proxy: Own) -> None:
    proxied = own_proxy()
    with PluginProcess(proxied.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        pod = adjusted(proxied, "outlives")
        container = proxied.cri.run(pod, "main", memory_limit_in_bytes=64 << 20)
        pid = proxied.cri.info(container)["pid"]
        name = plugin.wait_for("CreateContainer", pod="outlives")["id"]
        proxied.kill_proxy()
        assert Path(f"/proc/{pid}").exists()
        plugin.wait_for("Closed")
        # What happens around the proxy meanwhile.
        direct: Cri = proxied.runtime.cri
        around = direct.run(direct.run_pod("around"), "other")
        proxied.start_proxy()
        line = plugin.wait_for("Synchronize", count=2)
        assert (line["pods"], line["containers"]) == (["around", "outlives"], ["main", "other"])
        assert memory(proxied, container) == str(LIMIT), "what was in force is in force"
        plugin.send({"container": name, "set": {"set_memory_limit": 40 << 20}})
        assert plugin.wait_for("Updated") | {"event": ""} == {"event": "", "failed": [], "error": ""}
        assert memory(proxied, container) == str(40 << 20), "by the name of before"
        proxied.cri.update(container, memory_limit_in_bytes=44 << 20)
        assert plugin.wait_for("UpdateContainer", pod="outlives")["id"] == name
        proxied.cri.stop(container)
        assert plugin.wait_for("StopContainer", pod="outlives")["id"] == name
        proxied.cri.remove_pod(pod.id)
        proxied.cri.stop(around)
        assert plugin.wait_for("StopContainer", pod="around")["id"] == around
        proxied.cri.remove_all()
        plugin.wait_for("RemovePodSandbox", pod="around")
        events = [line["event"] for line in plugin.lines(pod="outlives")]
        assert [events.count(event) for event in ("StopContainer", "RemoveContainer", "RemovePodSandbox")] == [1, 1, 1]


def test_a_kill_of_the_proxy_during_a_creation_leaves_no_container_without_policy(own_proxy: Own) -> None:
    """The proxy dies during the plugin's handler, the runtime's work, and just after: the kubelet can continue."""
    proxied = own_proxy()
    policy = proxied.policy
    policy.write_text('["10-recorder"]\nrequired = true\n')
    policy.chmod(0o600)
    proxied.stop_proxy()
    proxied.start_proxy()
    with PluginProcess(proxied.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        for number, pause_s in enumerate((0.0, 0.01, 0.03, 0.06, 0.1, 0.2)):
            pod = adjusted(proxied, f"killed-{number}")
            outcome: list[object] = []
            cri = Cri(proxied.cri_socket, proxied.run_dir.name)

            def create(cri: Cri = cri, pod: Pod = pod, outcome: list[object] = outcome) -> None:
                try:
                    outcome.append(cri.create(pod, "main", memory_limit_in_bytes=64 << 20))
                except grpc.RpcError as error:
                    outcome.append(error.code())

            thread = threading.Thread(target=create)
            thread.start()
            time.sleep(pause_s)
            proxied.kill_proxy()
            thread.join()
            cri.close()
            direct: Cri = proxied.runtime.cri
            proxied.start_proxy()
            plugin.wait_for("Synchronize", count=2 + number)
            container_ids = containers_of(direct, pod)
            if not container_ids:  # the runtime had not heard of it, or is still at it
                assert outcome == [grpc.StatusCode.UNAVAILABLE]
                container_ids = made_at_last(proxied, pod)
            (container,) = container_ids
            proxied.cri.start(container)
            assert memory(proxied, container) == str(LIMIT), f"killed after {pause_s} s"
            started = plugin.wait_for("StartContainer", pod=pod.config.metadata.name)
            assert started["message"]["annotations"].get(RUNTIME_ID, started["id"]) == container
            proxied.cri.remove_pod(pod.id)


def test_a_killed_runtime_is_unavailable_without_a_hang_and_containers_run_on(own_proxy: Own) -> None:
    proxied = own_proxy()
    with PluginProcess(proxied.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        pod = adjusted(proxied, "held")
        container = proxied.cri.run(pod, "main", memory_limit_in_bytes=64 << 20)
        proxied.runtime.kill()
        request = pb.ContainerStatusRequest(container_id=container)
        # A hang would be DEADLINE_EXCEEDED.
        assert code_of(lambda: proxied.cri.call("ContainerStatus", request)) is grpc.StatusCode.UNAVAILABLE
        assert code_of(lambda: proxied.cri.create(pod, "other")) is grpc.StatusCode.UNAVAILABLE
        plugin.wait_for("RemoveContainer", container="other")
        assert not plugin.lines("StopContainer", container="main")
        events = [line["event"] for line in plugin.lines(container="other")]
        requests = ["CreateContainer", "ValidateContainerAdjustment"]
        assert events == [*requests, "StopContainer", "RemoveContainer"], "it is taken back"
        proxied.runtime.start()
        wait_for(proxied.cri.answers, "the runtime, through the proxy")
        assert memory(proxied, container) == str(LIMIT)
        other = proxied.cri.run(pod, "other", memory_limit_in_bytes=64 << 20)
        assert memory(proxied, other) == str(LIMIT)
        proxied.cri.remove_pod(pod.id)
        plugin.wait_for("RemovePodSandbox", pod="held")
        events = [line["event"] for line in plugin.lines(container="main")]
        assert [events.count(event) for event in ("StopContainer", "RemoveContainer")] == [1, 1]


def test_a_container_that_exits_without_the_proxy_is_reported_after_its_return(own_proxy: Own) -> None:
    # The proxy must not poll before the plugin is back: it could not report the exit then.
    proxied = own_proxy('poll_interval = "10m"')
    with PluginProcess(proxied.nri_socket) as plugin:
        plugin.wait_for("Synchronize")
        pod = proxied.cri.run_pod("ends")
        container = proxied.cri.run(pod, "main")
        pid = proxied.cri.info(container)["pid"]
        name = plugin.wait_for("CreateContainer", pod="ends")["id"]
        proxied.kill_proxy()
        os.kill(pid, signal.SIGKILL)
        proxied.runtime.cri.wait_exited(container)
        proxied.start_proxy()
        plugin.wait_for("Synchronize", count=2)
        proxied.cri.call("ListContainers", pb.ListContainersRequest())
        event = plugin.wait_for("StopContainer", pod="ends")
        assert (event["id"], event["message"]["exitCode"]) == (name, 137)
        proxied.cri.remove_pod(pod.id)


def test_removed_pods_leave_nothing(own_proxy: Own) -> None:
    proxied = own_proxy()
    for number in range(3):
        pod = proxied.cri.run_pod(f"gone-{number}")
        proxied.cri.run(pod, "main")
        proxied.cri.remove_pod(pod.id)
    assert list(proxied.state.glob("*.json")) == []
    proxied.stop_proxy()
    assert not proxied.cri_socket.exists() and not proxied.nri_socket.exists()
