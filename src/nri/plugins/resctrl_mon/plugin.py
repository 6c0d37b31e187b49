"""`resctrl-mon`: a monitoring group of resctrl for each pod, so that its cache and memory bandwidth can be read.

One job: the group is made with a pod's first container, in the group of that container's RDT class; each container's
first process is put there before it runs, and what it starts is counted with it. It goes with the pod and not with a
container, for a container that starts again must go on where its counters are. Nothing here fails a container. Groups
that no pod has any more are removed every half a minute. Next: `nri.host.resctrl`.
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

__all__ = ["ResctrlMon", "group_of"]

#: Seconds between two looks for groups that no pod has.
ORPHAN_CHECK_INTERVAL_S = 30
#: Older ones tell no process ids over NRI.
MIN_CRIO_VERSION = (1, 36)
_UID = re.compile("[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


class ResctrlMon(nri.Plugin):
    """Make a monitoring group of resctrl (cache occupancy, memory bandwidth) for each pod."""

    name = "resctrl-mon"

    class Config:
        """Keys of the configuration.

        Attributes:
            resctrlPath: where resctrl is mounted.
            namespaces: only pods of these are monitored; all without any.
            labelSelector: only pods with all of these labels are monitored.
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
        #: The group of each pod that has one, and the group of shares that it is in.
        self._pods: dict[str, str] = {}
        self._synchronized = False

    def configure(self) -> None:
        self._refuse_old_crio()
        self.resctrl = Resctrl(Root(), self.config.resctrlPath)
        if not Root().exists(f"{self.config.resctrlPath}/mon_groups"):
            words = "it is not mounted, or the processor counts nothing"
            self.log.warning("%s has no mon_groups, no pod is monitored: %s", self.config.resctrlPath, words)

    def synchronize(self, pods: list[nri.PodSandbox], containers: list[nri.Container]) -> None:
        pod_by_id = {pod.id: pod for pod in pods}
        groups = {group_of(pod.uid) for pod in pods}
        with self._lock:  # others have gone while there was no connection
            self._pods = {name: group for name, group in self._pods.items() if name in groups}
        for container in containers:
            pod = pod_by_id.get(container.pod_sandbox_id)
            if pod is not None and container.state != ContainerState.CONTAINER_STOPPED:  # its pid is another's by now
                self._ensure(pod, container)
                self._add(pod, container)
        self._synchronized = True

    def post_create_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._ensure(pod, container)

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        self._add(pod, container)  # it has not started anything yet

    def post_start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        if not container.pid and self._is_selected(pod):
            self.log.warning("the runtime gives no process id, so it is not counted")
        self._add(pod, container)  # again, for runtimes that knew no process before

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        with self._lock:
            name = group_of(pod.uid)
            if name in self._pods:
                self._log_result(self.resctrl.remove_monitor(name, self._pods.pop(name)))

    @nri.every(ORPHAN_CHECK_INTERVAL_S)
    def remove_orphans(self) -> None:
        """Remove the groups that have a pod's name, and no pod: of a plugin that was killed, or busy at the removal."""
        with self._lock:
            if not self._synchronized:
                return
            for group, name in self.resctrl.monitors():
                if group_of(name) and self._pods.get(group_of(name)) != group:
                    self.log.info("removing %s, which no pod has", plain(f"{group}/mon_groups/{name}".strip("/")))
                    self._log_result(self.resctrl.remove_monitor(name, group))

    def _ensure(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Make the group of a pod, if it is to have one and has none yet."""
        if not self._is_selected(pod):
            return
        name, group = group_of(pod.uid), container.linux.resources.rdt_class.value
        if not name:
            self.log.warning("uid %s is no UUID, so the pod is not monitored", quote(pod.uid[:64]))
            return
        with self._lock:
            if name in self._pods:
                return
            result = self.resctrl.create_monitor(name, group)
            self._log_result(result)
            if result.outcome in (Outcome.APPLIED, Outcome.UNCHANGED):
                self._pods[name] = group

    def _add(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Count a container's first process, and what it starts."""
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
        """Whether a pod is to be monitored."""
        inside = not self.config.namespaces or pod.namespace in self.config.namespaces
        return inside and all(pod.labels.get(key) == value for key, value in self.config.labelSelector.items())

    def _refuse_old_crio(self) -> None:
        """CRI-O before 1.36 tells no process ids, so that nothing could be counted."""
        if self.runtime.name.lower() != "cri-o":
            return
        match = re.match(r"v?(\d{1,9})\.(\d{1,9})", self.runtime.version)
        if match is None or (int(match[1]), int(match[2])) < MIN_CRIO_VERSION:
            reason = f"CRI-O {self.runtime.version} gives plugins no process ids"
            raise nri.ConfigError("runtime", "version", reason, "use 1.36 or newer")


def group_of(uid: str) -> str:
    """The name of a pod's group: its uid with hyphens, in small letters; "" if it is no UUID."""
    if _UID.fullmatch(uid) is None:
        return ""
    digits = uid.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


if __name__ == "__main__":
    ResctrlMon.main()
