"""A container runtime with NRI in it, in one file.

    python examples/runtime.py /tmp/nri.sock               # only remembers its containers
    sudo python examples/runtime.py /tmp/nri.sock ROOTFS   # runs them with runc in that root file system

Then start any NRI plugin with that socket, and type a command: it is run in a container of its own, and what plugins
changed of it is printed. Three calls put NRI in: `Adaptation(...)`, `start()`, and one method per event around what
the runtime does anyway. A fourth, `Generator(spec).adjust(...)`, makes config.json of what plugins want.
"""

import json
import os
import select
import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from nri.adaptation import Adaptation, FieldOrder, OrderedUpdates, UpdateResult
from nri.api import messages as m
from nri.errors import NriError
from nri.oci import CdiDevices, Generator, RdtClasses, Spec, difference

NAMESPACES = [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")]
MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
]


def container_spec(container: m.Container, rootfs: str) -> Spec:
    """The container as it would be without plugins."""
    return {
        "ociVersion": "1.0.2",
        "process": {"args": list(container.args), "cwd": "/", "user": {"uid": 0, "gid": 0}, "env": ["PATH=/bin"]},
        "root": {"path": rootfs},
        "hostname": container.name,
        "mounts": MOUNTS,
        "linux": {"namespaces": NAMESPACES, "cgroupsPath": f"/nri-example-{os.getpid()}-{container.id}"},
    }


class RuncError(NriError):
    """Runc could not do it."""


class Runtime:
    def __init__(self, socket_path: str, rootfs: str = "") -> None:
        self.rootfs = rootfs and os.path.abspath(rootfs)
        self.folder = tempfile.TemporaryDirectory(prefix="nri-example-")
        self.pods: dict[str, m.PodSandbox] = {}
        self.containers: dict[str, m.Container] = {}
        self.specs: dict[str, Generator] = {}
        self.orders: dict[str, FieldOrder] = {}
        self.lock = threading.Lock()
        self.devices = CdiDevices()
        self.nri = Adaptation(
            "example", "v1.0.0", synchronize=self.state, update=self.update, evict=self.evict, socket_path=socket_path
        )
        self.nri.start()

    def state(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return all pods and containers for a plugin that connects."""
        return list(self.pods.values()), list(self.containers.values())

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates; return their results."""
        results = []
        for update in updates:
            result, numbers = UpdateResult(update), updates.numbers(update)
            with self.lock:
                if update.container_id not in self.specs:
                    result.mark_stale("container not found")
                else:  # updates may arrive in another order than plugins sent them
                    request = self.orders[update.container_id].newest(update.linux.resources, numbers, result)
                    self.put(update.container_id, request, result)
                    self.orders[update.container_id].note(result, numbers)
            results.append(result)
        return results

    def put(self, container_id: str, resources: m.LinuxResources, result: UpdateResult) -> None:
        try:
            applied = self.specs[container_id].update(resources)
            self.runc("update", "--resources", "-", container_id, stdin=json.dumps(applied))
        except NriError as error:
            print(f"not updated: {error}")
            for row in result.fields:
                result.mark_unsupported(row.field, str(error))

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        for eviction in evictions:
            print(f"asked to evict {eviction.container_id}: {eviction.reason}")

    def run_pod(self, pod: m.PodSandbox) -> None:
        with self.nri.block_sync():  # no plugin joins in the middle of a request
            self.nri.run_pod_sandbox(pod)
            self.pods[pod.id] = pod

    def run_container(self, pod: m.PodSandbox, container: m.Container) -> Spec:
        """Create and start a container; return its config.json."""
        with self.nri.block_sync():
            reply = self.nri.create_container(pod, container)
            try:
                config = self.create(container, reply.adjust)
                self.orders[container.id] = FieldOrder(reply.adjust.linux.resources, reply.numbers)
                results = self.update(reply.updates)
                self.nri.start_container(pod, container)
                self.runc("start", container.id)
            except (NriError, OSError):
                self.delete(container)
                reply.abort()  # other containers get back what they had
                raise
            reply.commit(results)
            self.nri.post_start_container(pod, container)
            return config

    def create(self, container: m.Container, adjustment: m.ContainerAdjustment) -> Spec:
        """Make config.json of what plugins want, and the container of that."""
        generator = Generator(container_spec(container, self.rootfs), cdi=self.devices.inject, rdt=RdtClasses().resolve)
        config = generator.adjust(adjustment)
        bundle = Path(self.folder.name) / container.id
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(config))
        self.runc("create", "--bundle", str(bundle), "--pid-file", str(bundle / "pid"), container.id)
        self.containers[container.id], self.specs[container.id] = container, generator
        return config

    def wait(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Wait until the container's program has ended, and clean up."""
        if self.rootfs:
            process = os.pidfd_open(int((Path(self.folder.name) / container.id / "pid").read_text()))
            select.select([process], [], [])
            os.close(process)
        with self.nri.block_sync(urgent=True):
            self.update(self.nri.stop_container(pod, container).updates)
            self.delete(container)
            self.nri.remove_container(pod, container)

    def delete(self, container: m.Container) -> None:
        if self.specs.pop(container.id, None) is not None:
            self.runc("delete", "--force", container.id)
        self.containers.pop(container.id, None)

    def runc(self, *arguments: str, stdin: str = "") -> None:
        """Call runc; its container writes where we write. Without a root file system nothing is called."""
        if not self.rootfs:
            return
        log = Path(self.folder.name) / "runc.log"
        options = ["--log", str(log), "--log-format", "json", "--root", f"{self.folder.name}/state"]
        if subprocess.run(["runc", *options, *arguments], input=stdin.encode(), check=False).returncode != 0:
            raise RuncError(json.loads(log.read_text().splitlines()[-1])["msg"])


if __name__ == "__main__":
    runtime = Runtime(*sys.argv[1:])
    pod = m.PodSandbox(id="pod1", name="web", namespace="default")
    runtime.run_pod(pod)
    for number, line in enumerate(sys.stdin):  # one container per line that is typed
        container = m.Container(id=f"ctr{number}", pod_sandbox_id="pod1", name="app", args=shlex.split(line))
        try:
            config = runtime.run_container(pod, container)
            changed = difference(container_spec(container, runtime.rootfs), config)
            # In one piece, because the container prints as well by now.
            print("".join(f"{line}\n" for line in changed), end="", flush=True)
            runtime.wait(pod, container)
        except NriError as error:
            print(f"refused: {error}")
        print(flush=True)
    runtime.nri.stop()
    runtime.folder.cleanup()
