"""An engine with plugins in a test's hands: its folder, its lives one after another, and what is left in the end.

One job: :class:`Node`. One image for all tests of a run, unpacked once and copied; every pod, cgroup and mount
has the machine's name; what plugins are told is written down by `Recorder`, in the order in which they are told.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nri
from nri.adaptation import OrderedUpdates, SequenceNumbers
from nri.api import naming
from nri.cri.pb import api_pb2 as pb
from nri.engine.config import CgroupConfig, EngineConfig, NetworkConfig, NriConfig, OciRuntime
from nri.engine.engine import Engine
from nri.engine.images import ImageStore
from nri.testing.plugin_connection import Attached
from nri.ttrpc.waiters import ARRIVALS
from tests.engine.machine import Machine, settled
from tests.engine.registry import busybox
from tests.support.needs import need, need_tool
from tests.support.oci_runtimes import wrapped_crun
from tests.support.waiting import wait_for
from tools.runtimes.machine import PATIENCE

IMAGE = "localhost/nri/busybox:1"
PLUGINS = Path("/usr/lib/cni")
FOREVER = ("sleep", "1000000")
#: Ends with 3 at SIGTERM.
POLITE = ("sh", "-c", "trap 'exit 3' TERM; echo ready; while true; do sleep 0.05; done")
CGROUPS = Path("/sys/fs/cgroup")
V2 = (CGROUPS / "cgroup.controllers").exists()
#: File of cgroup version 1 -> file of version 2.
V2_FILES = {"memory.limit_in_bytes": "memory.max", "cpu.cfs_quota_us": "cpu.max", "cpuset.cpus": "cpuset.cpus"}


def prepared_images(folder: Path) -> Path:
    """A folder of images with busybox in it, to be copied."""
    for tool in ("conmon", "skopeo", "umoci", "runc"):
        need_tool(tool)
    store = ImageStore(folder / "images")
    store.load(busybox(folder), IMAGE)
    return store.root


class Weight(str):
    """What cgroup version 2 has in place of shares: equal to the text of all shares that come to this weight."""

    __slots__ = ()

    def __eq__(self, shares: object) -> bool:
        if isinstance(shares, Weight):
            return str(self) == str(shares)
        return isinstance(shares, str) and str(self) == str(1 + (int(shares) - 2) * 9999 // 262142)

    __hash__ = str.__hash__


class Recorder(nri.Plugin):
    """Writes down every event; `on` has what is done, or answered, at an event: event -> f(pod, container or None)."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str]] = []
        self.on: dict[str, Callable[[Any, Any], Any]] = {}
        self.synchronized: list[tuple[list[str], list[str]]] = []

    def take(self, event: str, pod: Any, container: Any = None) -> Any:
        self.events.append((event, (container or pod).name))
        return self.on[event](pod, container) if event in self.on else None

    def of(self, name: str) -> list[str]:
        """The events of one pod or container, by its name."""
        return [event for event, whose in self.events if whose == name]

    def synchronize(self, pods: Any, containers: Any) -> Any:
        self.synchronized.append(([pod.name for pod in pods], [container.name for container in containers]))
        return self.on["synchronize"](pods, containers) if "synchronize" in self.on else None

    def run_pod_sandbox(self, pod: Any) -> Any:
        return self.take("run_pod", pod)

    def update_pod_sandbox(self, pod: Any, overhead: Any, resources: Any) -> Any:
        return self.take("update_pod", pod)

    def post_update_pod_sandbox(self, pod: Any) -> Any:
        return self.take("post_update_pod", pod)

    def stop_pod_sandbox(self, pod: Any) -> Any:
        return self.take("stop_pod", pod)

    def remove_pod_sandbox(self, pod: Any) -> Any:
        return self.take("remove_pod", pod)

    def create_container(self, pod: Any, container: Any) -> Any:
        return self.take("create", pod, container)

    def post_create_container(self, pod: Any, container: Any) -> Any:
        return self.take("post_create", pod, container)

    def start_container(self, pod: Any, container: Any) -> Any:
        return self.take("start", pod, container)

    def post_start_container(self, pod: Any, container: Any) -> Any:
        return self.take("post_start", pod, container)

    def update_container(self, pod: Any, container: Any, resources: Any) -> Any:
        return self.take("update", pod, container)

    def post_update_container(self, pod: Any, container: Any) -> Any:
        return self.take("post_update", pod, container)

    def stop_container(self, pod: Any, container: Any) -> Any:
        return self.take("stop", pod, container)

    def remove_container(self, pod: Any, container: Any) -> Any:
        return self.take("remove", pod, container)


class Node:
    """One machine's engine, over all of its lives."""

    def __init__(self, machine: Machine, images: Path) -> None:
        need((PLUGINS / "ptp").exists(), "the CNI plugins (containernetworking-plugins)")
        self.machine, self.folder = machine, machine.folder
        self.config = self._config()
        self.config.root.mkdir(mode=0o700)
        shutil.copytree(images, self.config.root / "images", symlinks=True)
        self._engine: Engine | None = None
        self._attached: list[Attached] = []
        self._forward = Path("/proc/sys/net/ipv4/ip_forward").read_text()

    def _config(self) -> EngineConfig:
        folder = self.folder
        (folder / "cni").mkdir()
        crun = wrapped_crun(folder / "crun")
        ipam = {"type": "host-local", "ranges": [[{"subnet": "10.231.79.0/24"}]], "dataDir": str(folder / "ipam")}
        plugin = {"type": "ptp", "ipMasq": False, "ipam": ipam}
        text = json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]})
        (folder / "cni/10-net.conflist").write_text(text)
        return EngineConfig(
            root=folder / "root",
            state=folder / "state",
            runtimes={"runc": OciRuntime("runc"), "crun": OciRuntime(crun)},
            network=NetworkConfig(config_dir=folder / "cni", plugin_dirs=(PLUGINS,)),
            cgroups=CgroupConfig(parent=f"/{self.machine.name}"),
            nri=NriConfig(
                socket_path=str(folder / "nri.sock"),
                plugin_path=str(folder / "plugins"),
                plugin_config_path=str(folder / "conf.d"),
                policy_path="",
                admin_socket="",
                plugin_registration_timeout=naming.REGISTRATION_TIMEOUT_S * PATIENCE,
                plugin_request_timeout=naming.REQUEST_TIMEOUT_S * PATIENCE,
            ),
        )

    # --- lives ---

    @property
    def engine(self) -> Engine:
        """The engine of this life; the first one is started when it is asked for."""
        return self._engine or self.start()

    def start(self, config: EngineConfig | None = None, **more: Any) -> Engine:
        engine = Engine(config or self.config, **more)
        engine.start()
        self._engine = engine
        return engine

    def stop(self) -> None:
        for entry in self._attached:
            entry.stop()
        self._attached = []
        if self._engine is not None:
            self._engine.stop()
            self._engine = None

    def restart(self) -> Engine:
        self.stop()
        return self.start()

    def plugin(self, plugin: nri.Plugin | None = None, index: str = "10", name: str = "recorder") -> Any:
        """A plugin that takes part from now on, over a socket; a Recorder unless another one is given."""
        plugin = plugin or Recorder()
        attached = Attached(plugin, index, name, "")
        self._attached.append(attached)
        adaptation = self.engine.nri.adaptation
        assert adaptation is not None
        attached.connect(adaptation)
        attached.wait(adaptation)
        return plugin

    # --- pods and containers ---

    def pod_config(self, name: str = "pod", *, network: int = pb.NODE, pid: int = pb.CONTAINER) -> pb.PodSandboxConfig:
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, namespace="tests", uid=str(uuid.uuid4())),
            log_directory=str(self.folder / "logs" / name),
        )
        options = config.linux.security_context.namespace_options
        options.network, options.pid = network, pid  # type: ignore[assignment]
        return config

    def pod(self, name: str = "pod", *, network: int = pb.NODE, pid: int = pb.CONTAINER, handler: str = "") -> str:
        return self.engine.pod_creation.run(self.pod_config(name, network=network, pid=pid), handler)

    def container_config(self, name: str = "c", command: Sequence[str] = FOREVER, **more: Any) -> pb.ContainerConfig:
        return pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=IMAGE),
            command=command,
            log_path=f"{name}.log",
            **more,
        )

    def create(self, pod: str, name: str = "c", command: Sequence[str] = FOREVER, **more: Any) -> str:
        return self.engine.container_creation.create(pod, self.container_config(name, command, **more))

    def run(self, pod: str, name: str = "c", command: Sequence[str] = FOREVER, **more: Any) -> str:
        container_id = self.create(pod, name, command, **more)
        self.engine.container_start.start(container_id)
        return container_id

    def remove(self, *pods: str) -> None:
        for pod in pods:
            self.engine.pod_removal.remove(pod)

    def wait_exited(self, container: str) -> None:
        entry = self.engine.inventory.container(container)
        wait_for(entry.ended.is_set, "the end of the container, told")

    def wait_for(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, what)

    def cgroup(self, container: str, controller: str, file: str) -> str:
        """A value of a container's cgroup, by its file of version 1, on either version."""
        path = self.engine.inventory.container(container).record.cgroup_path.lstrip("/")
        if not V2:
            return (CGROUPS / controller / path / file).read_text().strip()
        folder = CGROUPS / path
        if file == "cpu.shares":
            return Weight((folder / "cpu.weight").read_text().strip())
        if file == "memory.memsw.limit_in_bytes":
            return str(sum(int((folder / name).read_text()) for name in ("memory.max", "memory.swap.max")))
        return (folder / V2_FILES[file]).read_text().split()[0]

    # --- what is left ---

    def leftovers(self) -> list[str]:
        """All that pods and containers have put onto this machine and that is still there."""
        folders = ["state/pods", "state/bundles", "state/netns", "state/runtimes/runc"]
        folders += ["state/runtimes/crun", "root/images/snapshots", "root/records/pods", "root/records/containers"]
        folders += ["root/networks"]
        actual = [str(path) for folder in folders for path in (self.folder / folder).glob("*")]
        actual += [str(path) for path in (self.folder / "ipam").rglob("10.*")]
        return [*self.machine.leftovers(), *actual]

    def assert_nothing_left(self) -> None:
        leftovers = settled(self.leftovers)
        assert leftovers == [], "this is left:\n" + "\n".join(leftovers)

    def close(self) -> None:
        try:
            if self._engine is None:
                self.start()
            for pod in self.engine.inventory.pods():
                self.engine.pod_removal.remove(pod.id)
        finally:
            self.stop()
            Path("/proc/sys/net/ipv4/ip_forward").write_text(self._forward)
        self.assert_nothing_left()


def unsolicited(*updates: Any) -> OrderedUpdates:
    """Updates that a plugin asks for by itself, now."""
    return OrderedUpdates(updates, SequenceNumbers(next(ARRIVALS)))


def pause(seconds: float) -> None:
    """Give what should not happen yet the time to happen."""
    time.sleep(seconds)


def killed_while(node: Node, work: Callable[[Engine], None]) -> None:
    """Run an engine's life in a process of its own, which has to end by SIGKILL."""
    node.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are waiting ones of the test runner
        pid = os.fork()
    if pid == 0:
        try:
            engine = Engine(node.config)
            engine.start()
            work(engine)
        except BaseException as error:
            print(f"in the engine's process: {error!r}", file=sys.stderr)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "the step was not come to"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
