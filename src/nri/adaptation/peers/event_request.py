"""One event as it is put to the plugins: the request's parts, encoded once, joined into the form that a plugin takes.

A remote plugin gets bytes: those of the event's own request, or of a `StateChange` if it is old. A built-in one gets
the messages. Nothing is encoded before somebody asks, nor twice for two plugins; what an earlier plugin changed is
followed step by step. Knows no plugin and no connection. Next: `nri.adaptation.dispatch.dispatcher`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.merge.container_view import normalise
from nri.api import messages as m
from nri.wire import bytes_field, varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.merge import CreateState, UpdateState
    from nri.api.events import EventSpec

__all__ = ["CreateQuestion", "Question", "UpdateQuestion"]

_POD: Final = b"\x0a"  # field 1, length-delimited
_CONTAINER: Final = b"\x12"  # field 2


class Question:
    """The request of one event.

    Attributes:
        spec: the event.
        pod: the pod, never changed.
        container: the container as the next plugin sees it; None for events of pods.
        resources: what UpdateContainer or UpdatePodSandbox asks for, as the next plugin sees it.
        overhead: UpdatePodSandbox alone.
        meanwhile: what this side may do while the first remote plugin is at work; it is taken from here by then.
    """

    __slots__ = (
        "_container_parts", "_payload", "_pod_bytes", "container", "meanwhile", "overhead", "pod", "resources", "spec",
    )  # fmt: skip

    def __init__(
        self,
        spec: EventSpec,
        pod: m.PodSandbox,
        container: m.Container | None = None,
        resources: m.LinuxResources | None = None,
        overhead: m.LinuxResources | None = None,
    ) -> None:
        self.spec = spec
        self.pod = pod
        self.container = container
        self.resources = resources
        self.overhead = overhead
        self.meanwhile: Callable[[], None] | None = None
        self._pod_bytes: bytes | None = None
        self._container_parts: list[bytes] | None = None
        self._payload: bytes | None = None

    @classmethod
    def prepared(cls, spec: EventSpec, pod: m.PodSandbox, payload: bytes) -> Question:
        """A request whose bytes are there already."""
        question = cls(spec, pod)
        question._payload = payload
        return question

    def follow(self, state: Any) -> None:
        """The state has taken another reply: what the next plugin sees may have changed."""

    def shown(self) -> m.Container | None:
        """The container as the next plugin sees it."""
        return self.container

    @property
    def pod_bytes(self) -> bytes:
        """The pod, encoded."""
        if self._pod_bytes is None:
            self._pod_bytes = self.pod.SerializeToString()
        return self._pod_bytes

    @property
    def container_parts(self) -> list[bytes]:
        """The container, encoded, in pieces to be joined; none for events of pods."""
        if self._container_parts is None:
            self._container_parts = [] if self.container is None else [self.container.SerializeToString()]
        return self._container_parts

    @property
    def payload(self) -> bytes:
        """The bytes of the event's own request message."""
        if self._payload is None:
            pod = self.pod_bytes
            parts = [_POD, varint(len(pod)), pod]
            if self.container is not None:
                container = self.container_parts
                length = 0
                for piece in container:
                    length += len(piece)
                parts += (_CONTAINER, varint(length), *container)
            if self.overhead is not None:
                parts.append(bytes_field(2, self.overhead.SerializeToString()))
            if self.resources is not None:
                parts.append(bytes_field(3, self.resources.SerializeToString()))
            self._payload = b"".join(parts)
        return self._payload

    @property
    def state_change(self) -> bytes:
        """The same event for a plugin that knows `StateChange` only."""
        parts = [b"\x08", varint(self.spec.number), bytes_field(2, self.pod_bytes)]
        if self.container is not None:
            parts.append(bytes_field(3, b"".join(self.container_parts)))
        return b"".join(parts)

    def message(self, kind: Any) -> Any:
        """The request as a message of its class, for whoever wants that."""
        return kind.FromString(self.payload)


def _normal_suffix() -> bytes:
    container = m.Container()
    normalise(container)
    encoded: bytes = container.SerializeToString()
    return encoded


# Appended to a container's bytes, this makes the parts present that plugins may rely on: protobuf merges what follows.
_NORMAL: Final = _normal_suffix()


class CreateQuestion(Question):
    """The request of CreateContainer, which follows what the state collects from the plugins asked so far."""

    __slots__ = ("_adjusted", "_seen", "state")

    def __init__(self, spec: EventSpec, pod: m.PodSandbox, container: m.Container, state: CreateState) -> None:
        super().__init__(spec, pod, container)
        self.state = state
        self._adjusted = False
        self._seen = 0

    def follow(self, state: CreateState) -> None:  # noqa: ARG002 - it is the one that this question has
        """Another reply was merged: the container that is shown may have changed."""
        self._adjusted = True
        self._payload = None

    @property
    def container_parts(self) -> list[bytes]:
        """The container as the next plugin sees it, encoded; what was only appended to is not encoded again."""
        parts = self._container_parts
        if parts is None:
            parts = self._container_parts = [self.state.encoded_base(), _NORMAL]
        if self._adjusted:
            self._adjusted = False
            steps = self.state.steps()
            for step in steps[self._seen :]:
                if step is None:  # the base has all steps in it, up to the last one of these
                    parts[:] = [self.state.encoded_base()]
                else:
                    parts.append(step)
            self._seen = len(steps)
        return parts

    def shown(self) -> m.Container:
        """The container with what the plugins so far made of it."""
        return self.state.container


class UpdateQuestion(Question):
    """The request of UpdateContainer, which follows what plugins make of the requested resources."""

    __slots__ = ("_revision",)

    def __init__(self, spec: EventSpec, pod: m.PodSandbox, container: m.Container, state: UpdateState) -> None:
        super().__init__(spec, pod, container, state.resources)
        self._revision = state.revision

    def follow(self, state: UpdateState) -> None:
        """Another reply was merged: the resources that are shown may have changed."""
        if state.revision != self._revision:
            self._revision = state.revision
            self.resources = state.resources
            self._payload = None
