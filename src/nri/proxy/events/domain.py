"""The one place that owns and tells plugins: a method for each moment in the life of a pod or container; evictions.

Rules: events before a change raise what the request fails with, events after one are logged; stop and remove are
reported once, also over restarts, because the record says what was reported, and in this order, because the second
caller waits until the first one has reported it; a pod with the skip label is never told of. Next:
`nri.proxy.events.updates`, for what plugins want of other containers.
"""

from __future__ import annotations

import importlib.metadata
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

if TYPE_CHECKING:
    from nri.adaptation import BuiltinPlugin
    from nri.interfaces import Reporter
    from nri.metrics import Observer

__all__ = ["Domain"]

#: How long a container that plugins want gone has to end by itself, in seconds.
EVICTION_S = 10
#: A pod's resources, in an update and in its configuration; NRI has ``pod_`` before them.
_RESOURCES: Final = ("overhead", "resources")

_log = logging.getLogger("nri.proxy")


class Domain:
    """Pods and containers of one runtime, for plugins.

    Args:
        settings: those of NRI, and the name of the label of pods that are skipped.
        store: what is known of pods and containers.
        backend: the runtime.
        builtin: plugins inside this process.
        observer, reporters: metrics, recorders.

    Attributes:
        updates: does what plugins want of containers that are there.
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
            importlib.metadata.version("nri"),
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
        """Wait for evictions, and stop plugins; the runtime's connection is closed before, so that evictions end."""
        self._evictions.wait()
        self.adaptation.stop()

    def block(self, *, urgent: bool = False, deadline: float | None = None) -> AbstractContextManager[object]:
        """Keep plugins from joining during a request; `urgent` for those that stop or remove."""
        return self.adaptation.block_sync(urgent=urgent, deadline=deadline)

    # --- pods ---

    def run_pod(self, pod: PodRecord, deadline: float | None = None) -> None:
        """Tell of a pod that the runtime has just made. Raises what the request fails with."""
        self._store.note(pod, reported=CREATED)
        self.adaptation.run_pod_sandbox(pod.shown, deadline=deadline)

    def update_pod(self, pod: PodRecord, request: pb.UpdatePodSandboxResourcesRequest, deadline: float | None) -> None:
        """Tell of resources that a pod is about to get. Raises what the request fails with."""
        parts = [
            convert.to_nri(getattr(request, name)).value if request.HasField(name) else None for name in _RESOURCES
        ]
        self.adaptation.update_pod_sandbox(_present(pod.shown), *parts, deadline=deadline)

    def post_update_pod(self, pod: PodRecord, request: pb.UpdatePodSandboxResourcesRequest) -> None:
        """Note that a pod has got new resources, and tell it."""
        shown, config = m.PodSandbox(), pb.PodSandboxConfig()
        shown.CopyFrom(pod.shown)
        config.CopyFrom(pod.config)
        for name in _RESOURCES:
            if request.HasField(name):
                getattr(config.linux, name).CopyFrom(getattr(request, name))
                getattr(shown.linux, f"pod_{name}").CopyFrom(convert.to_nri(getattr(request, name)).value)
        self._store.note(pod, shown=shown, config=config)
        self._logged("post_update_pod_sandbox", _present(pod.shown))

    def stop_pod(self, pod: PodRecord, deadline: float | None = None) -> None:
        """Tell, once, that a pod has stopped; that its containers have comes first."""
        for each in self._store.containers(pod.id):
            self.stop(each, deadline)
        with self._turn(pod):
            if self._store.advance(pod, STOPPED, (CREATED,)):
                self._logged("stop_pod_sandbox", _present(pod.shown))

    def remove_pod(self, pod: PodRecord, deadline: float | None = None) -> None:
        """Tell, once, that a pod is removed with all that is in it, and forget it."""
        for each in self._store.containers(pod.id):
            self.remove(each, deadline)
        self.stop_pod(pod, deadline)
        with self._turn(pod):
            if self._store.advance(pod, REMOVED, (STOPPED,)):
                self._logged("remove_pod_sandbox", _present(pod.shown))
            self._store.drop(pod)

    # --- containers ---

    def create(self, pod: PodRecord, container: ContainerRecord, deadline: float | None) -> CreateReply:
        """Ask plugins about a container to be made. Raises what the request fails with."""
        return self.adaptation.create_container(_present(pod.shown), container.shown, deadline=deadline)

    def undo_create(self, container: ContainerRecord, deadline: float | None = None) -> None:
        """Tell those that were asked that a container is not made after all, and forget it."""
        if self._store.advance(container, REMOVED, (CREATING, CREATED)):
            self._follow(self._pair("stop_container", container), deadline)
            self._pair("remove_container", container)
        self._store.drop(container)

    def post_create(self, container: ContainerRecord) -> None:
        """Tell that a container is made."""
        self._pair("post_create_container", container)

    def start(self, container: ContainerRecord, deadline: float | None) -> None:
        """Tell of a container that is about to start. Raises what the request fails with."""
        self.adaptation.start_container(self._pod_of(container), container.shown, deadline=deadline)

    def post_start(self, container: ContainerRecord) -> None:
        """Tell that a container runs."""
        self._pair("post_start_container", container)

    def update(self, container: ContainerRecord, wanted: m.LinuxResources, deadline: float | None) -> UpdateReply:
        """Ask plugins about new resources. Raises what the request fails with."""
        return self.adaptation.update_container(self._pod_of(container), container.shown, wanted, deadline=deadline)

    def post_update(self, container: ContainerRecord) -> None:
        """Tell that a container has got new resources."""
        self._pair("post_update_container", container)

    def stop(self, container: ContainerRecord, deadline: float | None = None) -> None:
        """Tell, once, that a container has stopped, and do what plugins want of others then, by the deadline."""
        with self._turn(container):
            reply = None
            if self._store.advance(container, STOPPED, (CREATED,)):
                container.shown.state = m.ContainerState.CONTAINER_STOPPED
                reply = self._pair("stop_container", container)
        self._follow(reply, deadline)

    def remove(self, container: ContainerRecord, deadline: float | None = None) -> None:
        """Tell, once, that a container is removed, and forget it; that it has stopped comes first."""
        self.stop(container, deadline)
        with self._turn(container):
            if self._store.advance(container, REMOVED, (STOPPED,)):
                self._pair("remove_container", container)
            self._store.drop(container)

    # --- what plugins want of other containers ---

    def follow(self, reply: CreateReply | UpdateReply | StopReply, deadline: float | None = None) -> None:
        """Do what a reply asks for beside its own container; updates that fail are reported, and stop nothing.

        `deadline` is the caller's, in monotonic seconds: an update that cannot be done in time has failed.
        """
        results = self.updates.apply(reply.updates, reply, deadline)
        reply.commit([each for each in results if each.failed])
        self.evict(list(getattr(reply, "evictions", ())))

    def evict(self, evictions: Iterable[m.ContainerEviction]) -> None:
        """Begin to stop containers that plugins want gone, and return; one that is being stopped goes once."""
        missing = list[str]()
        for each in evictions:
            record = self._store.named(each.container_id)
            if record is None or not record.runtime_id:
                missing.append(each.container_id)
            else:
                self._evictions.begin(record.runtime_id, each.reason, partial(self._evict, record))
        if missing:
            more = f", nor {len(missing) - 1} more" if len(missing) > 1 else ""
            _log.warning("an eviction is left out: there is no container %s%s", plain(missing[0]), more)

    # --- for plugins that join ---

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """All pods and containers that plugins know, and whose end they have not heard of."""
        pods = [_present(pod.shown) for pod in self._store.pods() if pod.reported == CREATED and not pod.skipped]
        shown = {pod.id for pod in pods}
        containers = [
            each.shown for each in self._store.containers() if each.reported == CREATED and each.pod_id in shown
        ]
        return pods, containers

    # --- inside ---

    @contextmanager
    def _turn(self, record: PodRecord | ContainerRecord) -> Iterator[None]:
        """Tell ends of a pod or container one after the other: by the kubelet's calls, and as they are found."""
        with self._lock:
            mine = self.turns.setdefault(record.id, _Turn())
            mine.users += 1
        try:
            with mine.lock:
                yield
        finally:
            with self._lock:
                mine.users -= 1
                if not mine.users:
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
        return _present(pod.shown) if pod is not None else m.PodSandbox(id=container.pod_id)

    def _pair(self, event: str, container: ContainerRecord) -> Any:
        return self._logged(event, self._pod_of(container), container.shown)

    def _logged(self, event: str, *messages: Any) -> Any:
        """Send an event whose failure stops nothing."""
        try:
            return getattr(self.adaptation, event)(*messages)
        except NriError as error:
            _log.warning("NRI %s of %s: %s", event, messages[-1].id, error)
            return None


class _Turn:
    """The ends of one pod or container: a lock for the caller that reports one, and how many hold or await it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def _present(pod: m.PodSandbox) -> m.PodSandbox:
    """A pod without namespaces whose path is gone."""
    if all(not each.path or os.path.exists(each.path) for each in pod.linux.namespaces):
        return pod
    made = m.PodSandbox()
    made.CopyFrom(pod)
    there = [each for each in pod.linux.namespaces if not each.path or os.path.exists(each.path)]
    del made.linux.namespaces[:]
    made.linux.namespaces.extend(there)
    return made
