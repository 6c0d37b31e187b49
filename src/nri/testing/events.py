"""The events of a test's runtime: each one a method, with pod and container for those that a test leaves out.

One job: bring an event to the adaptation and keep the pods and containers true to it. The events without an answer are
one table, as on `nri.adaptation.Adaptation`; their types are declared, so that a misspelt one is found by a type
checker. Next: `nri.testing.runtime`, which adds the plugins.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from nri.api import messages as m
from nri.api.builders.update import Update
from nri.api.events import EVENTS
from nri.errors import LocalProtocolError
from nri.testing.builders import make_container
from nri.testing.contents import Contents
from nri.testing.replies import Created, Stopped, Updated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.adaptation import Adaptation, Block
    from nri.api.events import EventSpec

__all__ = ["ContainerEvent", "Events", "PodEvent"]


class PodEvent(Protocol):
    """An event of a pod that has no answer: `runtime.run_pod_sandbox(pod)`."""

    def __call__(
        self, pod: m.PodSandbox | None = None, *, timeout_s: float | None = None, deadline: float | None = None
    ) -> None:
        """Tell the plugins. Raises what the runtime's request would fail with."""


class ContainerEvent(Protocol):
    """An event of a container that has no answer: `runtime.start_container(pod, container)`."""

    def __call__(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Tell the plugins. Raises what the runtime's request would fail with."""


def _blocked(adaptation: Adaptation, spec: EventSpec) -> Block:
    return adaptation.block_sync(urgent=spec.method.startswith(("stop", "remove")))


class Events(Contents):
    """The part of a runtime for tests that its events are.

    Attributes:
        adaptation: the real thing.
        closed: whether the runtime has been closed; nothing can be asked of it then.
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

    def _live(self) -> Adaptation:
        """The adaptation, as long as the runtime is not closed."""
        if self.closed:
            raise LocalProtocolError("this runtime is closed, and no event reaches a plugin: make a new FakeRuntime")
        return self.adaptation

    def _relay_pod(self, spec: EventSpec, pod: m.PodSandbox | None = None, **when: Any) -> None:
        adaptation = self._live()
        pod = self._pod(pod)
        with _blocked(adaptation, spec):
            getattr(adaptation, spec.method)(pod, **when)
            if spec.method == "remove_pod_sandbox":
                self.pods.pop(pod.id, None)

    def _relay_container(
        self, spec: EventSpec, pod: m.PodSandbox | None = None, container: m.Container | None = None, **when: Any
    ) -> None:
        adaptation = self._live()
        pod = self._pod(pod)
        container = self._container(pod, container)
        with _blocked(adaptation, spec):
            getattr(adaptation, spec.method)(pod, container, **when)
            if spec.method == "remove_container":
                self.containers.pop(container.id, None)

    def create_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> Created:
        """Create a container; raises what the creation fails with."""
        adaptation = self._live()
        pod = self._pod(pod)
        if container is None:
            container = make_container(pod=pod)
        elif not container.pod_sandbox_id:
            container.pod_sandbox_id = pod.id
        with adaptation.block_sync():
            reply = adaptation.create_container(pod, container, timeout_s=timeout_s, deadline=deadline)
            outcome = m.Container()
            outcome.CopyFrom(reply.container)
            self.containers[container.id] = outcome
        return Created(reply, outcome)

    def update_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        resources: m.LinuxResources | Update | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> Updated:
        """Update a container's resources; raises what the update fails with."""
        adaptation = self._live()
        pod = self._pod(pod)
        container = self._container(pod, container)
        wanted = resources.resources if isinstance(resources, Update) else resources or m.LinuxResources()
        with adaptation.block_sync():
            reply = adaptation.update_container(pod, container, wanted, timeout_s=timeout_s, deadline=deadline)
            container.linux.resources.MergeFrom(reply.resources)
        return Updated(reply, container.id)

    def stop_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> Stopped:
        """Stop a container; raises what the stop fails with."""
        adaptation = self._live()
        pod = self._pod(pod)
        container = self._container(pod, container)
        with adaptation.block_sync(urgent=True):
            reply = adaptation.stop_container(pod, container, timeout_s=timeout_s, deadline=deadline)
        return Stopped(reply, container.id)

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
        adaptation = self._live()
        pod = self._pod(pod)
        with adaptation.block_sync():
            adaptation.update_pod_sandbox(pod, overhead, resources, timeout_s=timeout_s, deadline=deadline)
