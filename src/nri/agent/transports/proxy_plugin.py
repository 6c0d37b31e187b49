"""The plugin behind our own CRI proxy: the same as with NRI, for a runtime that tells less and makes cgroups later.

| what is different | what follows |
|---|---|
| a container has no id while it is made, and another one for plugins | its folder is worked out from the runtime's id |
| the proxy's name is not the runtime's | ids and folders have the runtime's name, which the proxy asks for |
| cgroups are made after StartContainer | what only a write can do is done at PostStartContainer |
| the request says the CPUs that the kubelet asks for | an explicit clear takes them out of it, by an annotation |
| the CRI has no RDT class | the container's threads are put into the group by the executor |

Next: `nri.agent.transports.proxy`.
"""

from __future__ import annotations

from collections.abc import Callable

from nri.agent import cgroup_paths as paths
from nri.agent.model import NO_CHANGES, Resources
from nri.agent.parts import Parts
from nri.agent.transports import contexts
from nri.agent.transports.clear_cpus import clears_cpus
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
    """The policy as a plugin of the proxy.

    Args:
        parts: the agent's.
        runtime_name: gives the runtime's own name; empty if it is not known.
        asked: gives the resources that the kubelet asks for a container; None if they are not known.
        fail: whether a request fails that this plugin has failed to answer.
    """

    def __init__(
        self,
        parts: Parts,
        runtime_name: Callable[[], str],
        asked: Callable[[str], pb.LinuxContainerResources | None],
        *,
        fail: bool = False,
    ) -> None:
        super().__init__(parts, "proxy", fail=fail)
        self._runtime_name, self._name = runtime_name, ""
        self._asked = asked

    def configure(self) -> EventMask:
        """Choose the events: those of NRI, and the first moment at which a container has a cgroup."""
        return super().configure() | EventMask.of("PostStartContainer")

    def synchronize(self, pods: list[m.PodSandbox], containers: list[m.Container]) -> list[Update]:
        """Take in what runs, each container with its folder."""
        by_id = {pod.id: pod for pod in pods}
        for each in containers:
            if each.pod_sandbox_id in by_id:
                self._place(by_id[each.pod_sandbox_id], each)
        return super().synchronize(pods, containers)

    def create_container(self, pod: m.PodSandbox, container: m.Container) -> Answer:
        """Adjust a container that is about to be created; its group of threads follows when there are some."""
        adjusted, updates = super().create_container(pod, container)
        wanted = adjusted or Adjustment()
        wanted.message.linux.resources.ClearField("rdt_class")
        known = self.held.container(container.id)
        if known is not None and clears_cpus(known.changes):
            wanted.add_annotation(CLEAR_CPUS, "yes")
        return (wanted if wanted.message.ByteSize() else None), updates

    def post_create_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Note the container's folder, now that it has its id."""
        if self.held.container(container.id) is not None:
            self._place(pod, container)
        super().post_create_container(pod, container)

    def start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Decide for a container that was made around the proxy; there may be no cgroup yet for any write."""
        if self.held.container(container.id) is None:
            self._place(pod, container)
            self._late(pod, container)

    def post_start_container(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Do by writes what could not be said."""
        known = self.held.container(container.id)
        if known is None:
            return
        self._place(pod, container)
        self.held.mark_created(known, contexts.placed(known.context, pod, container, self._scheme))
        self._quietly("start", lambda: self._by_writes(known))

    def update_container(self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources) -> Update | None:
        """Change what the kubelet asks for into what the rules say."""
        self._place(pod, container)
        return super().update_container(pod, container, resources)

    def _found(self, pod: m.PodSandbox, container: m.Container, asked: Asked, now: int) -> None:
        """Take in a container that runs already; the proxy has kept what the kubelet asks for it."""
        kept = self._asked(container.id)
        if kept is not None:
            wanted = contexts.requested(pod, container, convert.to_nri(kept).value, self._scheme)
            asked = {**asked, (pod.uid, container.name): wanted.resources or Resources()}
        super()._found(pod, container, asked, now)

    # -- how ----------------------------------------------------------------------------------------------------------

    @property
    def _scheme(self) -> str:
        if not self._name:
            name = self._runtime_name()
            self._name = name if _is_known(name) else ""
        return self._name or _DEFAULT

    def _place(self, pod: m.PodSandbox, container: m.Container) -> None:
        """Say in a container where its cgroup is, if the runtime has not: by its pod's folder and the runtime's id."""
        if container.linux.cgroups_path:
            return
        parent = contexts.pod_context(pod).folder
        driver = paths.SYSTEMD if parent.endswith(".slice") else paths.CGROUPFS
        runtime_id = container.annotations.get(RUNTIME_ID) or container.id
        container.linux.cgroups_path = f"/{paths.container_path(parent, f'{self._scheme}://{runtime_id}', driver)}"

    def _by_writes(self, known: InventoryEntry) -> None:
        """Write what the CRI has no words for, now that there is a cgroup."""
        self._clear(known)
        changes = known.changes or NO_CHANGES
        results = self._parts.executor.retry(known.context.folder)
        if changes.resctrl is not None:
            results += self._parts.executor.resctrl(changes.resctrl, known.context.folder)
        self._parts.decisions.record(known.context, self._transport, results)


def _is_known(runtime: str) -> bool:
    """Whether it is known what systemd's scopes of a runtime are called."""
    try:
        return bool(paths.container_path("a.slice", f"{runtime}://c", paths.SYSTEMD))
    except (KeyError, ValueError):
        return False
