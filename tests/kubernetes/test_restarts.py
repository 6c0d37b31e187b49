"""The runtime or the kubelet ends under running pods and returns."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.pods import container, pod
from tests.real.plugin_process import PluginProcess


def running(node: Node) -> StaticPod:
    """A pod that counts, so that what it missed would be seen."""
    count = "i=0; trap 'exit 0' TERM; while :; do i=$((i+1)); echo $i; sleep 0.1; done"
    static = node.run(pod("counting", container("main", count)))
    static.wait_ready()
    return static


def same(static: StaticPod, pid: int, container_id: str) -> None:
    """It is the same process in the same container, and kubelet can use it."""
    deadline = time.monotonic() + 60
    while True:
        try:
            assert static.run("/bin/echo", "here").strip() == "here"
            break
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    static.wait_ready()
    assert static.container()["restartCount"] == 0
    assert static.container_id() == container_id
    assert static.pid() == pid
    count = len(static.client.logs(static.name, "main").splitlines())
    numbers = [int(line) for line in static.client.logs(static.name, "main").splitlines()]
    assert numbers == list(range(1, len(numbers) + 1)), "its log has a hole"
    assert len(numbers) >= count


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_pods_survive_a_restart_of_the_runtime(own_node: Node, how: str) -> None:
    static = running(own_node)
    pid, container_id = static.pid(), static.container_id()
    getattr(own_node.runtime, how)()
    time.sleep(3)
    assert Path(f"/proc/{pid}").exists()
    own_node.runtime.start()
    with PluginProcess(own_node.runtime.nri_socket) as plugin:
        line = plugin.wait_for("Synchronize")
        assert (line["pods"], line["containers"]) == ([static.name], ["main"])
        same(static, pid, container_id)
        static.remove()
        static.wait_gone()
        assert plugin.wait_for("StopContainer", pod=static.name)["id"] == container_id
    assert not Path(f"/proc/{pid}").exists()


def test_a_container_that_exits_without_a_runtime_is_restarted(own_node: Node) -> None:
    static = own_node.run(pod("mortal"))
    static.wait_ready()
    first, pid = static.container_id(), static.pid()
    own_node.runtime.kill()
    os.kill(pid, signal.SIGKILL)
    time.sleep(1)
    own_node.runtime.start()
    static.wait_restarted()
    assert static.container_id() != first


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_pods_survive_a_restart_of_the_kubelet(own_node: Node, how: str) -> None:
    static = running(own_node)
    pid, container_id = static.pid(), static.container_id()
    getattr(own_node.kubelet, how)()
    time.sleep(1)
    assert Path(f"/proc/{pid}").exists()
    own_node.kubelet.start()
    same(static, pid, container_id)
