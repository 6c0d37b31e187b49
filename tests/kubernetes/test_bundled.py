"""Bundled plugins of their charts, in pods under a real kubelet on containerd."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.buildah import build_bundled
from tests.deploy.rendered import charted, objects
from tests.kubernetes.conftest import RunPod, started_with_image
from tests.kubernetes.node import Node, StaticPod
from tests.kubernetes.pods import pod
from tests.support.needs import need_tool
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def node(kubelet_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with the image of all bundled plugins on it."""
    folder = tmp_path_factory.mktemp("image")
    with started_with_image("localhost/nri-plugins:here", build_bundled, folder, kubelet_program) as started_node:
        yield started_node


def plugin_pod(node: Node, name: str, *settings: str) -> dict[str, object]:
    """The pod of a plugin's DaemonSet as a static one: the class of its priority is the API server's to know."""
    local = (f"socketDir={node.runtime.run_dir}", "image.tag=here", "image.pullPolicy=Never", "health.enabled=true")
    template = objects(charted(name, *local, *settings))["DaemonSet"]["spec"]["template"]
    spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
    metadata = template["metadata"] | {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def ready(node: Node, run: RunPod, name: str, *settings: str) -> StaticPod:
    """A plugin that is ready: the runtime has synchronized it."""
    static_pod = run(plugin_pod(node, name, *settings))
    static_pod.wait_ready()
    return static_pod


def test_a_device_injector_without_capabilities_adds_a_device(node: Node, run: RunPod) -> None:
    ready(node, run, "device-injector")
    device = yaml.safe_dump([{"path": "/dev/nri-null", "type": "c", "major": 1, "minor": 3, "file_mode": 0o666}])
    static = run(pod("with-device", annotations={"devices.noderesource.dev": device}))
    static.wait_ready()
    assert static.run("/bin/busybox", "stat", "-c", "%t:%T:%a", "/dev/nri-null").strip() == "1:3:666"


def test_a_pod_can_read_the_mounts_of_the_nodes_first_process(node: Node, run: RunPod) -> None:
    static_pod = ready(node, run, "writable-cgroups")
    message = static_pod.run("/bin/busybox", "cat", "/host/proc/1/mountinfo", name="plugin")
    assert message.strip() == Path("/proc/1/mountinfo").read_text().strip()


@pytest.fixture
def device() -> Iterator[str]:
    """A network device of the node."""
    ip, name = need_tool("ip"), "nri-up0"
    subprocess.run([ip, "link", "add", name, "type", "veth", "peer", "name", "nri-up1"], check=True)
    yield name
    subprocess.run([ip, "link", "del", "nri-up1"], check=False)


def test_a_network_device_is_moved_into_a_pod_and_back(node: Node, run: RunPod, device: str) -> None:
    run(pod("first")).wait_ready()  # from now on the runtime has its folder of network namespaces
    (namespaces,) = node.runtime.run_dir.glob("state/*/netns")
    ready(node, run, "network-device-injector", "health.port=18080", f"hostPaths.netns={namespaces}")
    requests = json.dumps([{"name": device, "new_name": "up0", "address": "192.0.2.7", "prefix": 24}])
    static = run(pod("with-network", annotations={"netdevice.noderesource.dev": requests}))
    static.wait_ready()
    assert "192.0.2.7/24" in static.run("/bin/busybox", "ip", "addr", "show", "up0")
    static.remove()
    words = [need_tool("ip"), "link", "show", device]
    wait_for(lambda: not subprocess.run(words, capture_output=True, check=False).returncode, "the device's return", 60)
