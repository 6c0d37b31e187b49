"""Report the life of pods and containers to plugins, and evict containers that plugins want removed.

An event before a change raises the error of the request. An error of an event after a change is only logged. Stop and
remove are reported once, even over restarts, because the record has the last reported state.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from nri.adaptation import Adaptation, CreateReply, StopReply, UpdateReply
from nri.api import messages as m
from nri.cri import convert
from nri.cri.evictions import Evictions
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy.events.updates import UPDATE_S, Updates
from nri.proxy.passing import Backend
from nri.proxy.settings import ProxySettings
from nri.proxy.state import CREATED, CREATING, REMOVED, STOPPED, ContainerRecord, PodRecord, Store
from nri.text import plain
from nri.user_agent import package_version

if TYPE_CHECKING:
    from nri.adaptation import BuiltinPlugin
    from nri.interfaces import Reporter
    from nri.metrics import Observer


#: The grace period of an evicted container, in seconds.
EVICTION_S = 10
#: Fields of a pod's resources in the CRI; in NRI they have the prefix ``pod_``.
_RESOURCES: Final = ("overhead", "resources")

_log = logging.getLogger("nri.proxy")


class Domain:
    """The pods and containers of a runtime, as plugins see them. Pods with the skip label are never reported.

    Attributes:
        updates: applies updates of existing containers.
        adaptation: the plugins.
    """

    def __init__(
        self,
        settings: ProxySettings,
        store: Store,
        backend: Backend,
        builtin: Sequence[BuiltinPlugin] = (),
        observer: Observer | None = None,
        reporters: Sequence[Reporter] = (),
    ) -> None:
        self._store, self._backend = store, backend
        self.turns: dict[str, _Turn] = {}
        self._evictions = Evictions("nri-proxy-evict", _log)
        self._lock = threading.Lock()
        self.updates = Updates(store, backend)
        self.adaptation = Adaptation(
            "nri-proxy",
            package_version(),
            synchronize=self.snapshot,
            update=self.updates.apply,
            evict=self.evict,
            builtin=builtin,
            observer=observer,
            reporters=reporters,
            commits=True,
            tell_refused=settings.nri.tell_refused,
            **settings.nri.arguments(),
        )

    def close(self) -> None:
        """Wait for evictions, and stop plugins. Close the runtime's connection first, so that evictions end."""
        self._evictions.wait()
        self.adaptation.stop()

    def block(self, *, urgent: bool = False, deadline: float | None = None) -> AbstractContextManager[object]:
        """Keep plugins from joining during a request. `urgent` is for requests that stop or remove."""
        return self.adaptation.block_sync(urgent=urgent, deadline=deadline)

    # --- pods ---

    def run_pod(self, pod: PodRecord, deadline: float | None = None) -> None:
        """Report a pod that the runtime has just created. Raises the error of the request."""
        self._store.note(pod, reported_step=CREATED)
        self.adaptation.run_pod_sandbox(pod.plugin_view, deadline=deadline)

    def update_pod(self, pod: PodRecord, request: pb.UpdatePodSandboxResourcesRequest, deadline: float | None) -> None:
        """Report new resources of a pod before the change. Raises the error of the request."""
        parts = [
            convert.to_nri(getattr(request, name)).value if request.HasField(name) else None for name in _RESOURCES
        ]
        self.adaptation.update_pod_sandbox(_without_missing_namespaces(pod.plugin_view), *parts, deadline=deadline)

    def post_update_pod(self, pod: PodRecord, request: pb.UpdatePodSandboxResourcesRequest) -> None:
        """Record new resources of a pod, and report them."""
        shown, config = m.PodSandbox(), pb.PodSandboxConfig()
        shown.CopyFrom(pod.plugin_view)
        config.CopyFrom(pod.config)
        for name in _RESOURCES:
            if request.HasField(name):
                getattr(config.linux, name).CopyFrom(getattr(request, name))
                getattr(shown.linux, f"pod_{name}").CopyFrom(convert.to_nri(getattr(request, name)).value)
        self._store.note(pod, plugin_view=shown, config=config)
        self._send_logging_errors("post_update_pod_sandbox", _without_missing_namespaces(pod.plugin_view))

    def stop_pod(self, pod: PodRecord, deadline: float | None = None) -> None:
        """Report once that a pod has stopped, after the end of its containers."""
        for container in self._store.containers(pod.id):
            self.stop(container, deadline)
        with self._turn(pod):
            if self._store.advance(pod, STOPPED, (CREATED,)):
                self._send_logging_errors("stop_pod_sandbox", _without_missing_namespaces(pod.plugin_view))

    def remove_pod(self, pod: PodRecord, deadline: float | None = None) -> None:
        """Report once that a pod and its containers are removed, and drop their records."""
        for container in self._store.containers(pod.id):
            self.remove(container, deadline)
        self.stop_pod(pod, deadline)
        with self._turn(pod):
            if self._store.advance(pod, REMOVED, (STOPPED,)):
                self._send_logging_errors("remove_pod_sandbox", _without_missing_namespaces(pod.plugin_view))
            self._store.drop(pod)

    # --- containers ---

    def create(self, pod: PodRecord, container: ContainerRecord, deadline: float | None) -> CreateReply:
        """Ask plugins about a new container. Raises the error of the request."""
        return self.adaptation.create_container(
            _without_missing_namespaces(pod.plugin_view), container.plugin_view, deadline=deadline
        )

    def undo_create(self, container: ContainerRecord, deadline: float | None = None) -> None:
        """Report that the creation of a container has failed, and drop its record."""
        if self._store.advance(container, REMOVED, (CREATING, CREATED)):
            self._follow(self._send_for_container("stop_container", container), deadline)
            self._send_for_container("remove_container", container)
        self._store.drop(container)

    def post_create(self, container: ContainerRecord) -> None:
        """Report that a container was created."""
        self._send_for_container("post_create_container", container)

    def start(self, container: ContainerRecord, deadline: float | None) -> None:
        """Report a container before its start. Raises the error of the request."""
        self.adaptation.start_container(self._pod_of(container), container.plugin_view, deadline=deadline)

    def post_start(self, container: ContainerRecord) -> None:
        """Report that a container was started."""
        self._send_for_container("post_start_container", container)

    def update(self, container: ContainerRecord, resources: m.LinuxResources, deadline: float | None) -> UpdateReply:
        """Ask plugins about new resources of a container. Raises the error of the request."""
        return self.adaptation.update_container(
            self._pod_of(container), container.plugin_view, resources, deadline=deadline
        )

    def post_update(self, container: ContainerRecord) -> None:
        """Report that a container has new resources."""
        self._send_for_container("post_update_container", container)

    def stop(self, container: ContainerRecord, deadline: float | None = None) -> None:
        """Report once that a container has stopped, and apply the updates of other containers in the reply."""
        with self._turn(container):
            reply = None
            if self._store.advance(container, STOPPED, (CREATED,)):
                container.plugin_view.state = m.ContainerState.CONTAINER_STOPPED
                reply = self._send_for_container("stop_container", container)
        self._follow(reply, deadline)

    def remove(self, container: ContainerRecord, deadline: float | None = None) -> None:
        """Report once that a container has stopped and is removed, and drop its record."""
        self.stop(container, deadline)
        with self._turn(container):
            if self._store.advance(container, REMOVED, (STOPPED,)):
                self._send_for_container("remove_container", container)
            self._store.drop(container)

    # --- other containers ---

    def follow(self, reply: CreateReply | UpdateReply | StopReply, deadline: float | None = None) -> None:
        """Apply the updates and evictions of other containers in a reply. Failed updates are reported to plugins.

        Args:
            deadline: the caller's deadline in monotonic seconds; updates that begin later fail.
        """
        results = self.updates.apply(reply.updates, reply, deadline)
        reply.commit([result for result in results if result.failed])
        self.evict(list(getattr(reply, "evictions", ())))

    def evict(self, evictions: Iterable[m.ContainerEviction]) -> None:
        """Start evictions, and return without waiting. A container that is already being stopped is skipped."""
        missing = list[str]()
        for eviction in evictions:
            record = self._store.named(eviction.container_id)
            if record is None or not record.runtime_id:
                missing.append(eviction.container_id)
            else:
                self._evictions.begin(record.runtime_id, eviction.reason, partial(self._evict, record))
        if missing:
            more = f", nor {len(missing) - 1} more" if len(missing) > 1 else ""
            _log.warning("an eviction is ignored: container %s not found%s", plain(missing[0]), more)

    # --- for plugins that join ---

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """All pods and containers whose creation was reported to plugins, but not their end."""
        pods = [
            _without_missing_namespaces(pod.plugin_view)
            for pod in self._store.pods()
            if pod.reported_step == CREATED and not pod.skipped
        ]
        shown = {pod.id for pod in pods}
        containers = [
            record.plugin_view
            for record in self._store.containers()
            if record.reported_step == CREATED and record.pod_id in shown
        ]
        return pods, containers

    # --- inside ---

    @contextmanager
    def _turn(self, record: PodRecord | ContainerRecord) -> Iterator[None]:
        """Serialize reports about the end of a pod or container, by the kubelet's calls and by `Exits`."""
        with self._lock:
            turn = self.turns.setdefault(record.id, _Turn())
            turn.users += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.users -= 1
                if not turn.users:
                    del self.turns[record.id]

    def _evict(self, record: ContainerRecord) -> None:
        until = monotonic() + EVICTION_S + UPDATE_S
        request = pb.StopContainerRequest(container_id=record.runtime_id, timeout=EVICTION_S)
        self._backend.call("StopContainer", request, timeout_s=until - monotonic())
        with self.block(urgent=True):
            self.stop(record)

    def _follow(self, reply: StopReply | None, deadline: float | None) -> None:
        if reply is not None:
            self.follow(reply, deadline)

    def _pod_of(self, container: ContainerRecord) -> m.PodSandbox:
        pod = self._store.pod(container.pod_id)
        return _without_missing_namespaces(pod.plugin_view) if pod is not None else m.PodSandbox(id=container.pod_id)

    def _send_for_container(self, event: str, container: ContainerRecord) -> Any:
        return self._send_logging_errors(event, self._pod_of(container), container.plugin_view)

    def _send_logging_errors(self, event: str, *messages: Any) -> Any:
        """Send an event whose failure is only logged."""
        try:
            return getattr(self.adaptation, event)(*messages)
        except NriError as error:
            _log.warning("NRI %s of %s: %s", event, messages[-1].id, error)
            return None


class _Turn:
    """A lock for reports about the end of a pod or container, and the number of its users."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def _without_missing_namespaces(pod: m.PodSandbox) -> m.PodSandbox:
    """The pod without namespaces whose path no longer exists."""
    if all(not namespace.path or os.path.exists(namespace.path) for namespace in pod.linux.namespaces):
        return pod
    copy = m.PodSandbox()
    copy.CopyFrom(pod)
    namespaces = [
        namespace for namespace in pod.linux.namespaces if not namespace.path or os.path.exists(namespace.path)
    ]
    del copy.linux.namespaces[:]
    copy.linux.namespaces.extend(namespaces)
    return copy
