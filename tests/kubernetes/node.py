"""A node: a runtime, a kubelet over it, and pods on it that a test can ask about itself.

Rules: a pod's name is a test's own; waiting ends with what kubelet says last, and its complaints. Next: `pods`, what a
pod is made of.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nri.cri.pb import api_pb2 as pb
from tests.kubernetes.client import KubeletClient
from tests.kubernetes.kubelet import NODE, Kubelet
from tests.kubernetes.runtimes import NodeRuntime
from tools.runtimes import cgroups
from tools.runtimes.cri import Cri
from tools.runtimes.leftovers import cgroup_dirs

Json = dict[str, Any]
WAIT_S = 60.0


class StaticPod:
    """A pod that kubelet runs because of its manifest."""

    def __init__(self, node: Node, manifest: Json) -> None:
        self.node = node
        self.name = f"{manifest['metadata']['name']}-{NODE}"
        self.file = node.kubelet.manifests / f"{manifest['metadata']['name']}.json"
        # Whole or not at all: kubelet skips names that begin with a dot.
        fresh = self.file.with_name(f".{self.file.name}")
        fresh.write_text(json.dumps(manifest))
        fresh.rename(self.file)

    @property
    def client(self) -> KubeletClient:
        return self.node.kubelet.client

    @property
    def status(self) -> Json:
        """Its PodStatus; empty while kubelet does not know it."""
        found: Json = self.client.pods().get(self.name, {}).get("status", {})
        return found

    def container(self, name: str = "main") -> Json:
        """A container's ContainerStatus; empty before it has one."""
        status = self.status
        rows = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        found: Json = next((row for row in rows if row["name"] == name), {})
        return found

    def container_id(self, name: str = "main") -> str:
        """The id that the runtime has given it."""
        told = str(self.container(name).get("containerID", ""))
        return told.partition("://")[2]

    def pid(self, name: str = "main") -> int:
        """Its first process, from its cgroup."""
        wanted, found = self.container_id(name), set()
        for folder in cgroup_dirs(self.node.runtime.run_dir.name):
            if wanted in Path(folder).name:
                found |= {int(pid) for pid in Path(folder, "cgroup.procs").read_text().split()}
        assert found, f"no process has a cgroup with the name {wanted}"
        return min(found)

    def cgroup(self, controller: str, v1_file: str, v2_file: str, name: str = "main") -> str:
        """A control file of a container's cgroup."""
        return cgroups.read(self.pid(name), controller, v1_file, v2_file)

    def run(self, *command: str, name: str = "main") -> str:
        """What a command in the container prints."""
        return self.client.run(self.name, name, *command)

    def remove(self) -> None:
        """Take the manifest away."""
        self.file.unlink()

    def wait_running(self) -> Json:
        """Wait until its first container runs, ready or not; returns its status."""
        return self.wait(lambda status: "running" in (first_container(status).get("state") or ()), "running")

    def wait_restarted(self) -> Json:
        """Wait until its first container has been started again; returns its status."""
        return self.wait(lambda status: first_container(status).get("restartCount", 0) > 0, "restarted")

    def wait_ready(self) -> Json:
        """Wait until all its containers are ready; returns its status."""
        return self.wait(lambda status: condition(status, "Ready") == "True", "ready")

    def wait(self, holds: Callable[[Json], object], what: str, timeout_s: float = WAIT_S) -> Json:
        """Wait until its status is so; returns that."""
        deadline = time.monotonic() + timeout_s
        while not holds(status := self.status):
            if time.monotonic() > deadline:
                told = f"its status: {json.dumps(status, indent=1)}\n{self.node.story()}"
                raise AssertionError(f"pod {self.name} was not {what} in {timeout_s:g} s; {told}")
            time.sleep(0.1)
        return status

    def wait_gone(self, timeout_s: float = WAIT_S) -> None:
        """Wait until kubelet has forgotten it and no process of it is left."""
        self.wait(lambda status: not status, "forgotten", timeout_s)


class Node:
    """A kubelet over a runtime."""

    def __init__(self, kubelet: Kubelet, runtime: NodeRuntime) -> None:
        self.kubelet = kubelet
        self.runtime = runtime

    def run(self, manifest: Json) -> StaticPod:
        """Give kubelet a manifest."""
        return StaticPod(self, manifest)

    def story(self) -> str:
        """What both sides complain about, for messages of failed tests."""
        return f"kubelet's errors:\n{self.kubelet.complaints()}\nthe runtime's log:\n{tail(self.runtime.log)}"

    def sandboxes(self) -> list[str]:
        """The names of the pods that the runtime has, running or not."""
        cri = Cri(self.runtime.cri_socket, self.runtime.run_dir.name)
        try:
            items = cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
            return [item.metadata.name for item in items]
        finally:
            cri.close()


def first_container(status: Json) -> Json:
    """The ContainerStatus of the first container; empty while there is none."""
    found: Json = next(iter(status.get("containerStatuses", [])), {})
    return found


def condition(status: Json, kind: str) -> str:
    """What a PodStatus says of a condition: True, False, or nothing yet."""
    return next((str(row["status"]) for row in status.get("conditions", []) if row["type"] == kind), "")


def tail(log: Path, count: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:]) if log.exists() else "(no log)"
