"""The plugin behind our CRI proxy: as with NRI, for a runtime that reports less and creates cgroups later.

| difference | consequence |
|---|---|
| a container has no id while it is created, and another id for plugins | its cgroup is computed from the runtime's id |
| the proxy's name is not the runtime's | ids and cgroups have the runtime's name, which the proxy queries |
| cgroups are created after StartContainer | values that need a write are written at PostStartContainer |
| the request has the CPUs that the kubelet requests | an explicit clear removes them from it, by an annotation |
| the CRI has no RDT class | the executor moves the container's threads into the group |
"""

from __future__ import annotations

from collections.abc import Callable

from nri.agent import cgroup_paths as paths
from nri.agent.model import NO_CHANGES, Resources
from nri.agent.parts import Parts
from nri.agent.transports import contexts
from nri.agent.transports.cpu_clearing import clears_cpus
from nri.agent.transports.hook_plugin import Answer, Asked, HookPlugin
from nri.agent.transports.inventory import InventoryEntry
from nri.api import messages as m
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.update import Update
from nri.api.events import EventMask
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.proxy.adjust import CLEAR_CPUS
from nri.proxy.events.views import RUNTIME_ID

__all__ = ["ProxyPlugin"]

_DEFAULT = "containerd"


class ProxyPlugin(HookPlugin):
    """The agent's hooks as a plugin of the proxy.

    Args:
        parts: the agent's.
        runtime_name: returns the runtime's name; "" if unknown.
        requested: returns the kubelet's request for a container; None if unknown.
        fail: whether a request that this plugin does not answer fails.
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
        """Choose the events: those of NRI, and the first moment at which a container has a cgroup."""
        return super().configure() | EventMask.of("PostStartContainer")

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[Update]:
        """Take over what runs, each container with its folder."""
        by_id = {pod.id: pod for pod in pods}
        for container in containers:
            if container.pod_sandbox_id in by_id:
                self._place(by_id[container.pod_sandbox_id], container)
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
        """Note the container's folder, now that it has its id."""
        if self.held.container(container.id) is not None:
            self._place(pod, container)
        super().post_create_container(pod, container)

    def start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Decide for a container that was created without the proxy; its cgroup may not exist yet."""
        if self.held.container(container.id) is None:
            self._place(pod, container)
            self._late(pod, container)

    def post_start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Write what the CRI cannot express."""
        entry = self.held.container(container.id)
        if entry is None:
            return
        self._place(pod, container)
        self.held.mark_created(entry, contexts.placed(entry.context, pod, container, self._scheme))
        self._quietly("start", lambda: self._by_writes(entry))

    def update_container(self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources) -> Update | None:
        """Apply the rules to the resources that the kubelet requests."""
        self._place(pod, container)
        return super().update_container(pod, container, resources)

    def _take_over(self, pod: m.PodSandbox, container: m.Container, requests: Asked, now: int) -> None:
        """Take over a running container; the proxy has stored the kubelet's request."""
        request = self._kubelet_request(container.id)
        if request is not None:
            context = contexts.requested(pod, container, convert.to_nri(request).value, self._scheme)
            requests = {**requests, (pod.uid, container.name): context.resources or Resources()}
        super()._take_over(pod, container, requests, now)

    # -- how ----------------------------------------------------------------------------------------------------------

    @property
    def _scheme(self) -> str:
        if not self._name:
            name = self._runtime_name()
            self._name = name if _is_known(name) else ""
        return self._name or _DEFAULT

    def _place(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Set the path of a container's cgroup, if the runtime did not: from its pod's folder and the runtime's id."""
        if container.linux.cgroups_path:
            return
        parent = contexts.pod_context(pod).folder
        driver = paths.SYSTEMD if parent.endswith(".slice") else paths.CGROUPFS
        runtime_id = container.annotations.get(RUNTIME_ID) or container.id
        container.linux.cgroups_path = f"/{paths.container_path(parent, f'{self._scheme}://{runtime_id}', driver)}"

    def _by_writes(self, entry: InventoryEntry) -> None:
        """Write what the CRI cannot express, now that the cgroup exists."""
        self._clear(entry)
        changes = entry.changes or NO_CHANGES
        results = self._parts.executor.retry(entry.context.folder)
        if changes.resctrl is not None:
            results += self._parts.executor.resctrl(changes.resctrl, entry.context.folder)
        self._parts.decisions.record(entry.context, self._transport, results)


def _is_known(runtime: str) -> bool:
    """Whether the names of a runtime's systemd scopes are known."""
    try:
        return bool(paths.container_path("a.slice", f"{runtime}://c", paths.SYSTEMD))
    except (KeyError, ValueError):
        return False
