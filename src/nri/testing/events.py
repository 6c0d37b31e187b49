"""The events of `FakeRuntime`, a method for each, with default pods and containers."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nri.adaptation import FieldOrder, UpdateResult
from nri.api import messages as m
from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update
from nri.api.events import EVENTS
from nri.errors import LocalProtocolError
from nri.testing.builders import make_container, make_pod
from nri.testing.replies import CreateReply, StopReply, UpdateReply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.adaptation import Adaptation, Block, OrderedUpdates, SequenceNumbers
    from nri.api.events import EventSpec


class Contents:
    """A runtime's pods and containers.

    Attributes:
        pods, containers: the existing pods and containers, by id.
        updates: the updates that plugins requested, in order.
        evictions: the evictions that plugins requested, in order.
        refuse_updates: the ids of containers whose updates fail.
    """

    def __init__(self, pods: Iterable[m.PodSandbox] = (), containers: Iterable[m.Container] = ()) -> None:
        self.pods = {pod.id: pod for pod in pods}
        self.containers = {container.id: container for container in containers}
        self.updates: list[Update] = []
        self.evictions: list[Eviction] = []
        self.refuse_updates: set[str] = set()
        self._lock = threading.Lock()
        self._orders: dict[str, FieldOrder] = {}

    def _pod(self, pod: m.PodSandbox | None) -> m.PodSandbox:
        """The pod of an event: the argument, or the latest pod, or a new one."""
        _check(pod, m.PodSandbox, "a pod first", "make_pod()")
        with self._lock:
            if pod is None:
                pod = next(reversed(self.pods.values()), None) or make_pod()
            return self.pods.setdefault(pod.id, pod)

    def _container(self, pod: m.PodSandbox, container: m.Container | None) -> m.Container:
        """The container of an event: the argument, or the latest container of the pod, or a new one."""
        _check(container, m.Container, "a container after the pod", "make_container(), or container=...")
        with self._lock:
            if container is None:
                inside = [candidate for candidate in self.containers.values() if candidate.pod_sandbox_id == pod.id]
                container = inside[-1] if inside else make_container(pod=pod)
            return self.containers.setdefault(container.id, container)

    # -- callbacks of the adaptation ----------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        with self._lock:
            return list(self.pods.values()), list(self.containers.values())

    def _update(self, updates: OrderedUpdates) -> list[m.ContainerUpdate | UpdateResult]:
        failed: list[m.ContainerUpdate | UpdateResult] = []
        with self._lock:
            for update in updates:
                container = self.containers.get(update.container_id)
                if container is None or update.container_id in self.refuse_updates:
                    failed += [] if update.ignore_failure else [update]
                    continue
                result = self._apply_update(container, update, updates.numbers(update))
                if result.failed:
                    failed.append(result)
                self.updates.append(Update.of(update))
        return failed

    def _apply_update(
        self, container: m.Container, update: m.ContainerUpdate, numbers: SequenceNumbers
    ) -> UpdateResult:
        """Apply the resources of an update, except fields that a later answer has set. The caller holds the lock."""
        result, order = UpdateResult(update), self._orders.setdefault(container.id, FieldOrder())
        container.linux.resources.MergeFrom(order.newest(update.linux.resources, numbers, result))
        order.note(result, numbers)
        return result

    def _evict(self, evictions: list[m.ContainerEviction]) -> None:
        with self._lock:
            self.evictions.extend(Eviction.of(eviction) for eviction in evictions)


def _check(argument: object, expected: type, place: str, step: str) -> None:
    """Raise LocalProtocolError for an argument of another type. None is an omitted argument."""
    if argument is not None and not isinstance(argument, expected):
        raise LocalProtocolError(f"an event takes {place}, not {type(argument).__name__}: write {step}")


class PodEvent(Protocol):
    """A pod event without an answer: `runtime.run_pod_sandbox(pod)`."""

    def __call__(
        self, pod: m.PodSandbox | None = None, *, timeout_s: float | None = None, deadline: float | None = None
    ) -> None:
        """Notify the plugins. Raises the error with which the runtime's request would fail."""


class ContainerEvent(Protocol):
    """A container event without an answer: `runtime.start_container(pod, container)`."""

    def __call__(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Notify the plugins. Raises the error with which the runtime's request would fail."""


def _sync_block(adaptation: Adaptation, spec: EventSpec) -> Block:
    return adaptation.block_sync(urgent=spec.method.startswith(("stop", "remove")))


class Events(Contents):
    """The events of a runtime for tests.

    Attributes:
        adaptation: the runtime's adaptation.
        closed: whether the runtime has been closed; then all methods fail.
    """

    adaptation: Adaptation
    closed: bool = False

    run_pod_sandbox: PodEvent
    stop_pod_sandbox: PodEvent
    remove_pod_sandbox: PodEvent
    post_update_pod_sandbox: PodEvent
    post_create_container: ContainerEvent
    start_container: ContainerEvent
    post_start_container: ContainerEvent
    post_update_container: ContainerEvent
    remove_container: ContainerEvent

    def __init__(self, pods: Iterable[m.PodSandbox] = (), containers: Iterable[m.Container] = ()) -> None:
        super().__init__(pods, containers)
        for spec in EVENTS:
            if spec.relayed:
                relay = self._relay_pod if spec.kind == "pod" else self._relay_container
                setattr(self, spec.method, partial(relay, spec))

    def _live_adaptation(self) -> Adaptation:
        """The adaptation. Raises LocalProtocolError if the runtime is closed."""
        if self.closed:
            raise LocalProtocolError("this runtime is closed: create a new FakeRuntime")
        return self.adaptation

    def _relay_pod(self, spec: EventSpec, pod: m.PodSandbox | None = None, **when: Any) -> None:
        adaptation = self._live_adaptation()
        pod = self._pod(pod)
        with _sync_block(adaptation, spec):
            getattr(adaptation, spec.method)(pod, **when)
            if spec.method == "remove_pod_sandbox":
                self.pods.pop(pod.id, None)

    def _relay_container(
        self, spec: EventSpec, pod: m.PodSandbox | None = None, container: m.Container | None = None, **when: Any
    ) -> None:
        adaptation = self._live_adaptation()
        pod = self._pod(pod)
        container = self._container(pod, container)
        with _sync_block(adaptation, spec):
            getattr(adaptation, spec.method)(pod, container, **when)
            if spec.method == "remove_container":
                self.containers.pop(container.id, None)
                self._orders.pop(container.id, None)

    def create_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> CreateReply:
        """Create a container. Raises the error with which the runtime's request would fail."""
        adaptation = self._live_adaptation()
        pod = self._pod(pod)
        _check(container, m.Container, "a container after the pod", "make_container(), or container=...")
        if container is None:
            container = make_container(pod=pod)
        elif not container.pod_sandbox_id:
            container.pod_sandbox_id = pod.id
        with adaptation.block_sync():
            reply = adaptation.create_container(pod, container, timeout_s=timeout_s, deadline=deadline)
            outcome = m.Container()
            outcome.CopyFrom(reply.container)
            with self._lock:
                self.containers[container.id] = outcome
                self._orders[container.id] = FieldOrder(reply.adjust.linux.resources, reply.numbers)
        return CreateReply(reply, outcome)

    def update_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        resources: m.LinuxResources | Update | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> UpdateReply:
        """Update a container's resources. Raises the error with which the runtime's request would fail.

        Args:
            pod, container: default: the latest pod and container.
            resources: the requested resources: `nri.Update(container)` with its setters, or a message.
            timeout_s, deadline: as on `nri.adaptation.Adaptation`.
        """
        adaptation = self._live_adaptation()
        pod = self._pod(pod)
        container = self._container(pod, container)
        requested = resources.resources if isinstance(resources, Update) else resources
        _check(requested, m.LinuxResources, "resources last", "nri.Update(container).set_memory_limit(...)")
        requested = requested or m.LinuxResources()
        with adaptation.block_sync():
            reply = adaptation.update_container(pod, container, requested, timeout_s=timeout_s, deadline=deadline)
            update = m.ContainerUpdate(container_id=container.id)
            update.linux.resources.CopyFrom(reply.resources)
            with self._lock:
                self._apply_update(container, update, reply.numbers)
        return UpdateReply(reply, container.id)

    def stop_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> StopReply:
        """Stop a container. Raises the error with which the runtime's request would fail."""
        adaptation = self._live_adaptation()
        pod = self._pod(pod)
        container = self._container(pod, container)
        with adaptation.block_sync(urgent=True):
            reply = adaptation.stop_container(pod, container, timeout_s=timeout_s, deadline=deadline)
        return StopReply(reply, container.id)

    def update_pod_sandbox(
        self,
        pod: m.PodSandbox | None = None,
        overhead: m.LinuxResources | None = None,
        resources: m.LinuxResources | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Update a pod's resources."""
        adaptation = self._live_adaptation()
        pod = self._pod(pod)
        with adaptation.block_sync():
            adaptation.update_pod_sandbox(pod, overhead, resources, timeout_s=timeout_s, deadline=deadline)
