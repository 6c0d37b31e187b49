"""`resctrl-mon`: create a monitoring group of resctrl for each pod, to measure its cache and memory bandwidth.

The group is created with the pod's first container, inside the group of that container's RDT class. It is removed with
the pod, so that a restarted container keeps its counters. A failure of this plugin never fails a container.
"""

from __future__ import annotations

import re
from _thread import allocate_lock

import nri
from nri.api.messages import ContainerState
from nri.host.outcome import Outcome
from nri.host.resctrl import Resctrl
from nri.host.root import Root
from nri.text import plain, quote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.host.outcome import Result

#: Search this often for groups without a pod.
ORPHAN_CHECK_INTERVAL_S = 30
#: Older versions of CRI-O do not send process ids over NRI.
MIN_CRIO_VERSION = (1, 36)
_UID = re.compile("[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class ResctrlMon(nri.Plugin):
    """Create a monitoring group of resctrl (cache occupancy, memory bandwidth) for each pod."""

    name = "resctrl-mon"

    class Config:
        """Keys of the configuration.

        Attributes:
            resctrlPath: the mount of resctrl.
            namespaces: monitor only pods in these namespaces, or all pods if the list is empty.
        labelSelector: monitor only pods with all of these labels.
        """

        resctrlPath: str = "/sys/fs/resctrl"
        namespaces: tuple[str, ...] = ()
        labelSelector: dict[str, str] = {}  # noqa: RUF012 - defaults are copied

        def __post_init__(self) -> None:
            if not self.resctrlPath.startswith("/"):
                raise ValueError(f"resctrlPath must be an absolute path, not {quote(self.resctrlPath)}")

    config: Config

    def __init__(self) -> None:
        self._lock = allocate_lock()
        #: The RDT class that contains a pod's monitoring group, by group.
        self._pods: dict[str, str] = {}
        self._synchronized = False

    def configure(self) -> None:
        self._refuse_old_crio()
        self.resctrl = Resctrl(Root(), self.config.resctrlPath)
        if not Root().exists(f"{self.config.resctrlPath}/mon_groups"):
            words = "resctrl is not mounted, or the processor cannot monitor"
            self.log.warning("%s has no mon_groups, so no pod is monitored: %s", self.config.resctrlPath, words)

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        pod_by_id = {pod.id: pod for pod in pods}
        groups = {group_of(pod.uid) for pod in pods}
        with self._lock:  # other pods were removed while the plugin was not connected
            self._pods = {name: group for name, group in self._pods.items() if name in groups}
        for container in containers:
            pod = pod_by_id.get(container.pod_sandbox_id)
            if (
                pod is not None and container.state != ContainerState.CONTAINER_STOPPED
            ):  # its pid may belong to another process
                self._ensure_group(pod, container)
                self._add(pod, container)
        self._synchronized = True

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._ensure_group(pod, container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._add(pod, container)  # before it can start other processes

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if not container.pid and self._is_selected(pod):
            self.log.warning("the runtime sends no process id, so the container is not monitored")
        self._add(pod, container)  # again, because some runtimes did not send a process id before

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        with self._lock:
            name = group_of(pod.uid)
            if name in self._pods:
                self._log_result(self.resctrl.remove_monitor(name, self._pods.pop(name)))

    @nri.every(ORPHAN_CHECK_INTERVAL_S)
    def remove_orphans(self) -> None:
        """Remove groups with the name of a pod that does not exist: a plugin was killed, or a removal failed."""
        with self._lock:
            if not self._synchronized:
                return
            for group, name in self.resctrl.monitors():
                if group_of(name) and self._pods.get(group_of(name)) != group:
                    self.log.info(
                        "removing %s, which belongs to no pod", plain(f"{group}/mon_groups/{name}".strip("/"))
                    )
                    self._log_result(self.resctrl.remove_monitor(name, group))

    def _ensure_group(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Create the group of a pod if the pod is selected and has no group yet."""
        if not self._is_selected(pod):
            return
        name, group = group_of(pod.uid), container.linux.resources.rdt_class.value
        if not name:
            self.log.warning("uid %s is not a UUID, so the pod is not monitored", quote(pod.uid[:64]))
            return
        with self._lock:
            if name in self._pods:
                return
            result = self.resctrl.create_monitor(name, group)
            self._log_result(result)
            if result.outcome in (Outcome.APPLIED, Outcome.UNCHANGED):
                self._pods[name] = group

    def _add(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Add a container's first process to the group; its children follow."""
        with self._lock:
            name = group_of(pod.uid)
            if name in self._pods and container.pid:
                self._log_result(self.resctrl.add_to_monitor(name, container.pid, self._pods[name]))

    def _log_result(self, result: Result) -> None:
        if result.outcome in (Outcome.APPLIED, Outcome.UNCHANGED):
            self.log.debug("%s", result)
        else:
            self.log.warning("%s", plain(f"{result.name} of {result.target}: {result.reason}"))

    def _is_selected(self, pod: nri.PodSandbox) -> bool:
        """Whether the configuration selects a pod."""
        inside = not self.config.namespaces or pod.namespace in self.config.namespaces
        return inside and all(pod.labels.get(key) == value for key, value in self.config.labelSelector.items())

    def _refuse_old_crio(self) -> None:
        """Refuse CRI-O before 1.36, which sends no process ids."""
        if self.runtime.name.lower() != "cri-o":
            return
        match = re.match(r"v?(\d{1,9})\.(\d{1,9})", self.runtime.version)
        if match is None or (int(match[1]), int(match[2])) < MIN_CRIO_VERSION:
            reason = f"CRI-O {self.runtime.version} sends no process ids to plugins"
            raise nri.ConfigError("runtime", "version", reason, "use 1.36 or newer")


def group_of(uid: str) -> str:
    """The name of a pod's group: the pod's uid with hyphens, in lower case. Returns "" if the uid is not a UUID."""
    if _UID.fullmatch(uid) is None:
        return ""
    digits = uid.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


if __name__ == "__main__":
    ResctrlMon.main()
