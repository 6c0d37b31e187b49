"""The plugin of the CRI proxy, which reports less than NRI and gets the cgroups of containers later.

| difference | consequence |
|---|---|
| a container has no id during its creation, and plugins see another id | its cgroup is computed from the runtime's id |
| the proxy has another name than the runtime | ids and cgroups have the runtime's name, which the proxy queries |
| cgroups are created after StartContainer | values that need a write are written at PostStartContainer |
| the request has the CPUs that the kubelet requests | an annotation makes the proxy remove them if a hook clears CPUs |
| the CRI has no RDT class | the executor moves the container's threads into the resctrl group |
"""

from __future__ import annotations

from collections.abc import Callable

from nri.agent import cgroup_paths as paths
from nri.agent.model import NO_CHANGES, Resources
from nri.agent.parts import Parts
from nri.agent.transports import contexts
from nri.agent.transports.cpu_clearing import clears_cpus
from nri.agent.transports.hook_plugin import Answer, HookPlugin, Requests
from nri.agent.transports.inventory import InventoryEntry
from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.api.events import EventMask
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import CLEAR_CPUS
from nri.proxy.events.views import RUNTIME_ID

#: The runtime's name in container ids while the proxy does not know it.
_DEFAULT = "containerd"


class ProxyPlugin(HookPlugin):
    """The agent's hooks as a plugin of the proxy.

    Args:
        parts: the shared parts of the agent.
        runtime_name: returns the name of the runtime; "" if it is unknown.
        requested: returns the kubelet's request for a container; None if it is unknown.
        fail: whether a request fails if this plugin does not reply.
    """

    def __init__(
        self,
        parts: Parts,
        runtime_name: Callable[[], str],
        requested: Callable[[str], pb.LinuxContainerResources | None],
        *,
        fail: bool = False,
    ) -> None:
        super().__init__(parts, "proxy", fail=fail)
        self._runtime_name, self._name = runtime_name, ""
        self._kubelet_request = requested

    def configure(self) -> EventMask:
        """Subscribe to the events of `HookPlugin`, and to the first event at which a container has a cgroup."""
        return super().configure() | EventMask.of("PostStartContainer")

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[Update]:
        """Take over the running containers, each with its cgroup."""
        by_id = {pod.id: pod for pod in pods}
        for container in containers:
            if container.pod_sandbox_id in by_id:
                self._set_cgroup_path(by_id[container.pod_sandbox_id], container)
        return super().synchronize(pods, containers)

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> Answer:
        """Adjust a container that is about to be created; its threads join a resctrl group later."""
        adjusted, updates = super().create_container(pod, container)
        adjustment = adjusted or Adjustment()
        adjustment.message.linux.resources.ClearField("rdt_class")
        entry = self.held.container(container.id)
        if entry is not None and clears_cpus(entry.changes):
            adjustment.add_annotation(CLEAR_CPUS, "yes")
        return (adjustment if adjustment.message.ByteSize() else None), updates

    def post_create_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Record the container's cgroup, which follows from its new id."""
        if self.held.container(container.id) is not None:
            self._set_cgroup_path(pod, container)
        super().post_create_container(pod, container)

    def start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Decide for a container that was created without the proxy. Its cgroup may not exist yet."""
        if self.held.container(container.id) is None:
            self._set_cgroup_path(pod, container)
            self._decide_late(pod, container)

    def post_start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Write the values that the CRI cannot express."""
        entry = self.held.container(container.id)
        if entry is None:
            return
        self._set_cgroup_path(pod, container)
        self.held.mark_created(entry, contexts.with_current_folder(entry.context, pod, container, self._scheme))
        self._call_and_log_error("start", lambda: self._write_values(entry))

    def update_container(self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources) -> Update | None:
        """Apply the rules to the resources that the kubelet requests."""
        self._set_cgroup_path(pod, container)
        return super().update_container(pod, container, resources)

    def _take_over(self, pod: m.PodSandbox, container: m.Container, requests: Requests, now: int) -> None:
        """Take over a running container, with the kubelet's request from the proxy's records."""
        request = self._kubelet_request(container.id)
        if request is not None:
            context = contexts.requested(pod, container, convert.to_nri(request).value, self._scheme)
            requests = {**requests, (pod.uid, container.name): context.resources or Resources()}
        super()._take_over(pod, container, requests, now)

    # -- helpers -------------------------------------------------------------------------------------------------------

    @property
    def _scheme(self) -> str:
        if not self._name:
            name = self._runtime_name()
            self._name = name if _is_known(name) else ""
        return self._name or _DEFAULT

    def _set_cgroup_path(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Set a missing path of a container's cgroup, computed from the pod's cgroup and the runtime's id."""
        if container.linux.cgroups_path:
            return
        parent = contexts.pod_context(pod).folder
        driver = paths.SYSTEMD if parent.endswith(".slice") else paths.CGROUPFS
        runtime_id = container.annotations.get(RUNTIME_ID) or container.id
        container.linux.cgroups_path = f"/{paths.container_path(parent, f'{self._scheme}://{runtime_id}', driver)}"

    def _write_values(self, entry: InventoryEntry) -> None:
        """Write the values that the CRI cannot express."""
        self._clear(entry)
        changes = entry.changes or NO_CHANGES
        results = self._parts.executor.retry(entry.context.folder)
        if changes.resctrl is not None:
            results += self._parts.executor.resctrl(changes.resctrl, entry.context.folder)
        self._parts.decisions.record(entry.context, self._transport, results)


def _is_known(runtime: str) -> bool:
    """Return whether the names of a runtime's systemd scopes are known."""
    try:
        return bool(paths.container_path("a.slice", f"{runtime}://c", paths.SYSTEMD))
    except (KeyError, ValueError):
        return False
