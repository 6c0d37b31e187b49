"""A node: a runtime, a kubelet over it, and pods on it that a test can ask about itself.

Rules: a pod's name is a test's own; waiting ends with what kubelet says last, and its complaints. Next: `pods`, what a
pod is made of.
"""

from __future__ import annotations

import json
import time
import uuid
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
        actual: Json = self.client.pods().get(self.name, {}).get("status", {})
        return actual

    def container(self, name: str = "main") -> Json:
        """A container's ContainerStatus; empty before it has one."""
        return one_container(self.status, name)

    def container_id(self, name: str = "main") -> str:
        """The id that the runtime has given it."""
        message = str(self.container(name).get("containerID", ""))
        return message.partition("://")[2]

    def pid(self, name: str = "main") -> int:
        """Its first process."""
        return self.node.pid(self.container_id(name))

    def cgroup(self, controller: str, v1_file: str, v2_file: str, name: str = "main") -> str:
        """A control file of a container's cgroup."""
        return self.node.cgroup(self.container_id(name), controller, v1_file, v2_file)

    def run(self, *command: str, name: str = "main") -> str:
        """What a command in the container prints."""
        return self.client.run(self.name, name, *command)

    def remove(self) -> None:
        """Take the manifest away."""
        self.file.unlink()

    def wait_running(self, name: str = "main") -> Json:
        """Wait until a container runs, ready or not; returns its status."""
        return self.wait(lambda status: "running" in one_container(status, name).get("state", ()), "running")

    def wait_restarted(self, name: str = "main") -> Json:
        """Wait until a container has been started again; returns its status."""
        return self.wait(lambda status: one_container(status, name).get("restartCount", 0) > 0, "restarted")

    def wait_ready(self) -> Json:
        """Wait until all its containers are ready; returns its status."""
        return self.wait(lambda status: condition(status, "Ready") == "True", "ready")

    def wait(self, holds: Callable[[Json], object], what: str, timeout_s: float = WAIT_S) -> Json:
        """Wait until its status is so; returns that."""
        deadline = time.monotonic() + timeout_s
        while not holds(status := self.status):
            if time.monotonic() > deadline:
                message = f"its status: {json.dumps(status, indent=1)}\n{self.node.story()}"
                raise AssertionError(f"pod {self.name} was not {what} in {timeout_s:g} s; {message}")
            time.sleep(0.1)
        return status

    def wait_gone(self, timeout_s: float = WAIT_S) -> None:
        """Wait until kubelet has forgotten it and had the runtime stop it."""
        self.wait(lambda status: not status, "forgotten", timeout_s)
        # Kubelet forgets a static pod at once, and then ends it.
        self.wait(lambda _: self.name not in self.node.sandboxes(ready=True), "stopped", timeout_s)


class Node:
    """A kubelet over a runtime."""

    def __init__(self, kubelet: Kubelet, runtime: NodeRuntime) -> None:
        self.kubelet = kubelet
        self.runtime = runtime

    def run(self, manifest: Json) -> StaticPod:
        """Give kubelet a manifest, under a name of its own: a static pod of the same name would be the same pod."""
        metadata = manifest["metadata"] | {"name": f"{manifest['metadata']['name']}-{uuid.uuid4().hex[:6]}"}
        return StaticPod(self, manifest | {"metadata": metadata})

    def pid(self, container_id: str) -> int:
        """The first process of a container: the oldest in its cgroup."""
        actual: set[int] = set()
        for folder in map(Path, cgroup_dirs(self.runtime.run_dir.name)):
            # Runtimes put something before the id, or nothing; who watches over the container may have a cgroup, too.
            if container_id and folder.name.endswith(container_id) and "conmon" not in folder.name:
                actual |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        aged = [(age, pid) for pid in actual if (age := started_at(pid)) is not None]
        assert aged, f"no process has a cgroup with the name {container_id or 'of a container'}"
        return min(aged)[1]

    def cgroup(self, container_id: str, controller: str, v1_file: str, v2_file: str) -> str:
        """A control file of a container's cgroup."""
        return cgroups.read(self.pid(container_id), controller, v1_file, v2_file)

    def story(self) -> str:
        """What both sides complain about, for messages of failed tests."""
        return f"kubelet's errors:\n{self.kubelet.complaints()}\nthe runtime's log:\n{tail(self.runtime.log)}"

    def sandboxes(self, *, ready: bool = False) -> list[str]:
        """The names of the pods that the runtime has: all, or those that run."""
        cri = Cri(self.runtime.cri_socket, self.runtime.run_dir.name)
        try:
            items = cri.call("ListPodSandbox", pb.ListPodSandboxRequest()).items
        finally:
            cri.close()
        return [item.metadata.name for item in items if not ready or item.state == pb.SANDBOX_READY]


def one_container(status: Json, name: str) -> Json:
    """A container's ContainerStatus in a PodStatus; empty before it has one."""
    rows = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    actual: Json = next((row for row in rows if row["name"] == name), {})
    return actual


def started_at(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None if it has ended. Numbers of processes wrap."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


def condition(status: Json, kind: str) -> str:
    """What a PodStatus says of a condition: True, False, or nothing yet."""
    return next((str(row["status"]) for row in status.get("conditions", []) if row["type"] == kind), "")


def tail(log: Path, count: int = 15) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:]) if log.exists() else "(no log)"
