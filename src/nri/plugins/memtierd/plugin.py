"""`memtierd`: run a memtierd, which moves or swaps out idle memory, for each container of a class that configures one.

The class sets `memory.swap.max` when a container is created, and starts a process when it starts. A restarted plugin
adopts the processes of running containers and ends the others.
"""

from __future__ import annotations

import os

import nri
from nri.api.messages import ContainerState
from nri.errors import NriError
from nri.files import walk
from nri.host.cgroups import detect, expand
from nri.host.root import Root
from nri.plugins.annotations import by_prefix, check_names
from nri.plugins.memtierd.daemon import PROGRAM, Daemon, existing_folders, present
from nri.stub.program.options import Flag
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import ClassVar

    from nri.plugins.annotations import Annotation
    from nri.plugins.memtierd.daemon import Owner

DOMAIN = "memtierd.nri.io"
#: Files that annotations may set.
FILES = ("memory.swap.max", "memory.high")
#: Check this often for processes that have ended by themselves.
CHECK_INTERVAL_S = 30


class QosClass:
    """A class: whether its containers may swap, and the configuration of memtierd.

    Attributes:
        name: the name for annotations.
        allowswap: whether its containers may swap; unchanged by default.
        memtierdconfig: the configuration of memtierd for each container; without it memtierd is not started.
    """

    name: str
    allowswap: bool | None = None
    memtierdconfig: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("the name of a class must not be empty")


class Memtierd(nri.Plugin):
    """Run a memtierd for each container of a class, and allow or forbid swap, by annotations."""

    name = "memtierd"
    sets = ("linux.resources.unified.memory.*",)
    annotations: ClassVar[Mapping[str, str]] = {
        f"class.{DOMAIN}": "name of a class of the configuration; empty: no class",
        **{f"{file}.{DOMAIN}": "value of this file of cgroup v2" for file in FILES},
        f"class.{DOMAIN}/NAME": "the class of one container of the pod; the other annotations have the same form",
    }
    flags: ClassVar[Mapping[str, Flag]] = {
        "cgroups-dir": Flag("cgroupsDir", "DIR", "the mount of cgroup v2 (default: from the mount table)"),
        "run-dir": Flag("runDir", "DIR", "folder of the processes' files (default /var/run/nri-memtierd)"),
    }

    class Config:
        """Keys of the configuration."""

        classes: tuple[QosClass, ...] = ()
        cgroupsDir: str = ""
        runDir: str = "/var/run/nri-memtierd"

        def __post_init__(self) -> None:
            check_names([class_.name for class_ in self.classes])

    config: Config

    def __init__(self) -> None:
        self._daemons: dict[Owner, Daemon] = {}
        self._cgroups = ""

    def configure(self) -> None:
        hierarchy = detect(Root()).of("")
        self._cgroups = self.config.cgroupsDir or (hierarchy.path if hierarchy else "")
        if not self._cgroups:
            raise nri.ConfigError(
                "configuration", "cgroupsDir", "cgroup v2 is not mounted", "specify its mount with --cgroups-dir"
            )
        if not present() and any(class_.memtierdconfig for class_ in self.config.classes):
            self.log.warning(
                "program %s not found in PATH: containers of classes with memtierdconfig will not start", PROGRAM
            )

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        pod_by_id = {pod.id: pod for pod in pods}
        running = {}
        for container in containers:
            pod = pod_by_id.get(container.pod_sandbox_id)
            if pod is not None and container.state == ContainerState.CONTAINER_RUNNING:
                running[_owner(pod, container)] = (pod, container)
        for owner, folder in existing_folders(self.config.runDir):
            daemon = self._daemons.get(owner) or Daemon.adopt(folder) or Daemon(folder)
            self._daemons[owner] = daemon
            if owner not in running or daemon.ended:
                self._end_daemon(owner)
        for pod, container in running.values():
            try:
                self._start_daemon(pod, container)
            except NriError as error:
                self.log.warning("container %s: %s", plain("/".join(_owner(pod, container))), error)

    def create_container(self, pod: nri.PodSandbox, container: nri.Container) -> nri.Adjustment | None:
        adjustment, values = nri.Adjustment(), dict[str, str]()
        for prefix, annotation in by_prefix(pod, container.name, DOMAIN, "/").items():
            if prefix in FILES:
                with annotation.at(""):
                    adjustment.add_unified(prefix, annotation.text)
                values[prefix] = annotation.text
            elif prefix != "class":
                self.log.warning("unknown annotation %s; known: class, %s", quote(annotation.key), ", ".join(FILES))
        qos_class = self._class_of(pod, container)
        if qos_class is not None and qos_class.allowswap is not None and "memory.swap.max" not in values:
            values["memory.swap.max"] = "max" if qos_class.allowswap else "0"
            adjustment.add_unified("memory.swap.max", values["memory.swap.max"])
        if not values:
            return None
        self.log.info("%s", plain(", ".join(f"{file}={value}" for file, value in values.items())))
        return adjustment

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._start_daemon(pod, container)

    def stop_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._end_for_container(pod, container)

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._end_for_container(pod, container)  # a container that ended by itself was not stopped

    @nri.every(CHECK_INTERVAL_S)
    def check_daemons(self) -> None:
        """Log processes that have ended by themselves, and truncate long output."""
        for owner, daemon in list(self._daemons.items()):
            daemon.trim()
            if daemon.ended and not daemon.is_end_logged:
                daemon.is_end_logged = True
                line = daemon.last_line()
                self.log.warning("%s of %s has ended: %s", PROGRAM, plain("/".join(owner)), plain(line) or "no output")

    def _class_of(self, pod: nri.PodSandbox, container: nri.Container) -> QosClass | None:
        """The class of a container. Returns None if its annotations do not name a class."""
        annotation: Annotation | None = by_prefix(pod, container.name, DOMAIN, "/").get("class")
        if annotation is None or not annotation.text:
            return None
        for class_ in self.config.classes:
            if class_.name == annotation.text:
                return class_
        names = ", ".join(class_.name for class_ in self.config.classes) or "none"
        raise annotation.refusal("", f"class {quote(annotation.text[:64])} not found", f"existing classes: {names}")

    def _start_daemon(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Start the process of a container's class, unless it runs. Raises Reject if it cannot be started."""
        owner, qos_class = _owner(pod, container), self._class_of(pod, container)
        if qos_class is None or not qos_class.memtierdconfig:
            return
        cgroup = self._cgroup_of(container)
        daemon = self._daemons.get(owner)
        if daemon is not None and daemon.has(qos_class.memtierdconfig, cgroup) and not daemon.ended:
            daemon.container = container.id
            return
        self._end_daemon(owner)
        self._daemons[owner] = Daemon.start(self.config.runDir, owner, qos_class.memtierdconfig, cgroup)
        self._daemons[owner].container = container.id
        self.log.info("%s started with the configuration in %s", PROGRAM, plain(self._daemons[owner].folder))

    def _end_for_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """End the process of a container, unless a newer container of the same name uses it."""
        daemon = self._daemons.get(_owner(pod, container))
        if daemon is not None and daemon.container in ("", container.id):
            self._end_daemon(_owner(pod, container))

    def _end_daemon(self, owner: Owner) -> None:
        daemon = self._daemons.pop(owner, None)
        if daemon is None:
            return
        try:
            daemon.stop()
        except OSError as error:
            self.log.warning("the folder of %s cannot be removed: %s", PROGRAM, error)
        self.log.info("%s of %s stopped", PROGRAM, plain("/".join(owner)))

    def _cgroup_of(self, container: nri.Container) -> str:
        """The folder of a container's cgroup. Raises Reject if it is not found."""
        try:
            path = os.path.join(self._cgroups, expand(container.linux.cgroups_path))
        except ValueError:
            path = self._cgroups
        if container.id in path and os.path.isdir(path):
            return path
        try:
            for entry in walk(self._cgroups):  # the kubelet may have another root, or the runtime is nested
                if container.id in entry.name:
                    return os.readlink(f"/proc/self/fd/{entry.folder}") + f"/{entry.name}"
        except OSError as error:
            raise nri.Reject(f"cannot search the container's cgroup: {error}; check --cgroups-dir") from None
        raise nri.Reject(f"no cgroup below {self._cgroups} has the id of container {container.name}")


def _owner(pod: nri.PodSandbox, container: nri.Container) -> Owner:
    return pod.namespace, pod.name, container.name


if __name__ == "__main__":
    Memtierd.main()
