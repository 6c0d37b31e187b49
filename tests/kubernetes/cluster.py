"""A cluster of one node: a runtime, a kubelet that has joined an API server, and pods that kubectl makes.

Rules: as `node`; names of objects are a test's own. Next: `test_cluster`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import NODE, Kubelet
from tests.kubernetes.node import WAIT_S, Node, condition, one_container
from tests.kubernetes.runtimes import NodeRuntime
from tests.support.needs import need_tool
from tools.runtimes.config import pod_gateway, pod_network

Json = dict[str, Any]


class Cluster:
    """A node that has joined."""

    def __init__(self, api: ControlPlane, kubelet: Kubelet, runtime: NodeRuntime) -> None:
        self.api = api
        self.kubelet = kubelet
        self.runtime = runtime
        self._node = Node(kubelet, runtime)

    def run(self, manifest: Json) -> str:
        """Make a pod on the node and wait until it is ready; returns its name."""
        name: str = manifest["metadata"]["name"]
        self.api.apply(manifest | {"spec": manifest["spec"] | {"nodeName": NODE}})
        self.wait(name, lambda status: condition(status, "Ready") == "True", "ready")
        return name

    def wait(self, name: str, holds: Callable[[Json], object], what: str) -> Json:
        """Wait until the API says so of a pod; returns its status."""
        deadline = time.monotonic() + WAIT_S
        status: Json = self.api.get("pod", name)["status"]
        while not holds(status):
            if time.monotonic() > deadline:
                message = f"{json.dumps(status, indent=1)}\n{self._node.story()}"
                raise AssertionError(f"pod {name} was not {what} in {WAIT_S:g} s; its status: {message}")
            time.sleep(0.2)
            status = self.api.get("pod", name)["status"]
        return status

    def container_id(self, name: str) -> str:
        """The runtime's id of a pod's container."""
        status = self.api.get("pod", name)["status"]
        return str(one_container(status, "main")["containerID"]).partition("://")[2]

    def cgroup(self, name: str, controller: str, v1_file: str, v2_file: str) -> str:
        """A control file of a pod's container."""
        return self._node.cgroup(self.container_id(name), controller, v1_file, v2_file)

    def exec(self, name: str, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in a pod's container, through the API server and kubelet."""
        words = ["exec", *(["-i"] if stdin else []), name, "--", *command]
        return self.api.kubectl(*words, stdin=stdin, check=False)


def make_bridge(run_dir: Path) -> None:
    """Make the pods' bridge before the first pod does, so that the node has its address from the start."""
    ip, name = need_tool("ip"), run_dir.name
    for words in (
        ["link", "add", name, "type", "bridge"],
        ["address", "add", f"{pod_gateway(run_dir)}/{pod_network(run_dir).prefixlen}", "dev", name],
        ["link", "set", name, "up"],
    ):
        subprocess.run([ip, *words], check=True, capture_output=True, timeout=20)
