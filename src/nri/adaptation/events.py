"""The events of a runtime as methods of `Events`, the base class of `Adaptation`.

Methods of events without an answer are created from the table of events. Each event with an answer has its own method.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from nri.adaptation.peers.event_request import EventRequest
from nri.api import messages as m
from nri.api.events import BY_METHOD, EVENTS

if TYPE_CHECKING:
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.dispatch.dispatcher import Dispatcher
    from nri.adaptation.dispatch.reply import CreateReply, StopReply, UpdateReply
    from nri.adaptation.registration.chain import Chain
    from nri.adaptation.registration.sync_gate import Block
    from nri.api.events import EventSpec

_POD, _CONTAINER = m.PodSandbox, m.Container
_UPDATE_POD = BY_METHOD["update_pod_sandbox"]
_CREATE, _UPDATE, _STOP = (BY_METHOD[f"{verb}_container"] for verb in ("create", "update", "stop"))
_REMOVE_POD, _REMOVE_CONTAINER = BY_METHOD["remove_pod_sandbox"], BY_METHOD["remove_container"]


class PodEvent(Protocol):
    """The method of a pod event without an answer. It returns when all plugins have handled the event, or raises."""

    def __call__(self, pod: m.PodSandbox, *, timeout_s: float | None = None, deadline: float | None = None) -> None:
        """Relay the event. Raises the error with which the runtime's request should fail."""


class ContainerEvent(Protocol):
    """The method of a container event without an answer. It returns when all plugins have handled it, or raises."""

    def __call__(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Relay the event. Raises the error with which the runtime's request should fail."""


class Events:
    """The event methods of `nri.adaptation.Adaptation`. Thread-safe: call them from any number of threads.

    Every event takes `timeout_s` (seconds) or `deadline` (absolute `time.monotonic()`), the limit of the whole event.
    Without a limit, only the plugins' own timeouts apply. Let the runtime's request fail with the exception of an
    event: `PluginError` and its kinds, `ConflictError`, `UpdateError`, `ValidationRejected`, `DeadlineExceeded`.
    """

    run_pod_sandbox: PodEvent  #: A pod starts: it has its network, but no containers yet.
    stop_pod_sandbox: PodEvent  #: A pod has stopped: it still has its network.
    remove_pod_sandbox: PodEvent  #: A pod is removed.
    post_update_pod_sandbox: PodEvent  #: A pod's resources have changed.
    post_create_container: ContainerEvent  #: A container has been created.
    start_container: ContainerEvent  #: A container is about to start.
    post_start_container: ContainerEvent  #: A container has started.
    post_update_container: ContainerEvent  #: A container's resources have changed.
    remove_container: ContainerEvent  #: A container is removed.

    def __init__(self, dispatcher: Dispatcher, trail: AuditTrail, chain: Chain) -> None:
        self._dispatcher = dispatcher
        self._trail = trail
        self._chain = chain
        for spec in EVENTS:
            if spec.relayed:
                relay = self._relay_pod if spec.kind == "pod" else self._relay_container
                setattr(self, spec.method, partial(relay, spec))

    def _relay_pod(
        self, spec: EventSpec, pod: m.PodSandbox, *, timeout_s: float | None = None, deadline: float | None = None
    ) -> None:
        if type(pod) is not _POD:
            raise _wrong_types(spec, pod)
        limit = deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline)
        try:
            self._dispatcher.relay(EventRequest(spec, pod), limit)
        finally:
            if spec is _REMOVE_POD:  # also called if a plugin fails the event, because the pod is gone in any case
                self._trail.pod_removed(pod)

    def _relay_container(
        self,
        spec: EventSpec,
        pod: m.PodSandbox,
        container: m.Container,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        if type(pod) is not _POD or type(container) is not _CONTAINER:
            raise _wrong_types(spec, pod, container)
        limit = deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline)
        try:
            self._dispatcher.relay(EventRequest(spec, pod, container), limit)
        finally:
            if spec is _REMOVE_CONTAINER:
                self._trail.container_removed(container)

    def update_pod_sandbox(
        self,
        pod: m.PodSandbox,
        overhead: m.LinuxResources | None = None,
        resources: m.LinuxResources | None = None,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Notify the plugins that the resources of a pod are about to change."""
        if type(pod) is not _POD:
            raise _wrong_types(_UPDATE_POD, pod)
        request = EventRequest(_UPDATE_POD, pod, None, resources, overhead)
        self._dispatcher.relay(request, deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline))

    def create_container(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> CreateReply:
        """Ask the plugins about a container that will be created. Call `commit` or `abort` of the reply afterwards."""
        if type(pod) is not _POD or type(container) is not _CONTAINER:
            raise _wrong_types(_CREATE, pod, container)
        return self._dispatcher.create_container(
            pod, container, deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline)
        )

    def update_container(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        resources: m.LinuxResources,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> UpdateReply:
        """Ask the plugins about a change of a container's resources. Returns the merged result."""
        if type(pod) is not _POD or type(container) is not _CONTAINER:
            raise _wrong_types(_UPDATE, pod, container)
        return self._dispatcher.update_container(
            pod, container, resources, deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline)
        )

    def stop_container(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> StopReply:
        """Notify the plugins that a container stops or has stopped. Returns their updates of other containers."""
        if type(pod) is not _POD or type(container) is not _CONTAINER:
            raise _wrong_types(_STOP, pod, container)
        return self._dispatcher.stop_container(
            pod, container, deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline)
        )

    def block_sync(
        self, *, urgent: bool = False, timeout_s: float | None = None, deadline: float | None = None
    ) -> Block:
        """Keep plugins from joining until the block is released; a context manager. Hold the block for a whole request.

        Without the block, a plugin that joins in the middle of a request may miss the request's container both in the
        state of the runtime and in the events.

        Args:
            urgent: do not queue behind a plugin that waits to join; for requests that stop or remove.
        """
        return self._chain.gate.block(
            urgent=urgent, deadline=deadline if timeout_s is None else _earlier_deadline(timeout_s, deadline)
        )


def _earlier_deadline(timeout_s: float, deadline: float | None) -> float:
    """The earlier of a timeout and a deadline, in monotonic seconds."""
    limit = monotonic() + timeout_s
    return limit if deadline is None else min(limit, deadline)


def _wrong_types(spec: EventSpec, *arguments: object) -> TypeError:
    """The error for arguments of wrong types: messages of another library, or in the wrong order."""
    signature = "(pod)" if spec.kind == "pod" else "(pod, container)"
    kinds = "PodSandbox" if spec.kind == "pod" else "PodSandbox and Container"
    names = " and ".join(type(argument).__name__ for argument in arguments)
    return TypeError(f"{spec.method}{signature} takes {kinds} of nri.api.messages, not {names}")
