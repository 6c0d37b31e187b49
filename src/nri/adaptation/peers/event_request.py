"""The request of one event, as messages and as bytes that are encoded once for all plugins.

A remote plugin gets bytes: the bytes of the event's own request, or of a `StateChange` if the plugin is old. A built-in
plugin gets the messages. The requests of CreateContainer and UpdateContainer change between plugins: `refresh` records
that another reply was merged, and only the changed fields are encoded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.merge.container_view import normalise
from nri.api import messages as m
from nri.wire import LENGTHS, bytes_field, varint

if TYPE_CHECKING:
    from nri.adaptation.merge import CreateMerge, UpdateMerge
    from nri.api.events import EventSpec

_POD: Final = b"\x0a"  # field 1, length-delimited
_CONTAINER: Final = b"\x12"  # field 2


class EventRequest:
    """The request of one event.

    Attributes:
        spec: the event.
        pod: the pod, never changed.
        container: the container as the runtime gave it; None for events of pods.
        resources: the resources that UpdateContainer or UpdatePodSandbox asks for, as the next plugin sees them.
        overhead: the pod's overhead, only for UpdatePodSandbox.
    """

    __slots__ = ("_container_parts", "_encoded", "_pod_bytes", "container", "overhead", "pod", "resources", "spec")

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
        self._pod_bytes: bytes | None = None
        self._container_parts: list[bytes] | None = None
        self._encoded: bytes | None = None

    @classmethod
    def of_bytes(cls, spec: EventSpec, pod: m.PodSandbox, encoded: bytes) -> EventRequest:
        """Create a request from its bytes."""
        request = cls(spec, pod)
        request._encoded = encoded
        return request

    def refresh(self) -> None:
        """Record that another reply was merged, so that the request of the next plugin may differ."""

    def container_seen(self) -> m.Container | None:
        """The container as the next plugin sees it, as a message that must not be changed."""
        return self.container

    def container_parts(self) -> list[bytes]:
        """The container as the next plugin sees it, as encoded pieces to be joined. Empty for pod events."""
        if self._container_parts is None:
            self._container_parts = [] if self.container is None else [self.container.SerializeToString()]
        return self._container_parts

    def encoded(self) -> bytes:
        """The bytes of the event's own request message, as the next plugin gets them."""
        if self._encoded is not None:
            return self._encoded
        pod = self._pod_bytes
        if pod is None:
            pod = self._pod_bytes = self.pod.SerializeToString()
        length = len(pod)
        parts = [_POD, LENGTHS.get(length) or varint(length), pod]
        if self.container is not None:
            container = self.container_parts()
            length = 0
            for piece in container:
                length += len(piece)
            parts += (_CONTAINER, LENGTHS.get(length) or varint(length), *container)
        if self.overhead is not None:
            parts.append(bytes_field(2, self.overhead.SerializeToString()))
        if self.resources is not None:
            parts.append(bytes_field(3, self.resources.SerializeToString()))
        encoded = self._encoded = b"".join(parts)
        return encoded

    def state_change(self) -> bytes:
        """The bytes of the same event for a plugin that knows only `StateChange`."""
        parts = [b"\x08", varint(self.spec.number), bytes_field(2, self.pod.SerializeToString())]
        if self.container is not None:
            parts.append(bytes_field(3, b"".join(self.container_parts())))
        return b"".join(parts)

    def message(self, kind: Any) -> Any:
        """The request as a message of its class."""
        return kind.FromString(self.encoded())


def _normal_suffix() -> bytes:
    container = m.Container()
    normalise(container)
    encoded: bytes = container.SerializeToString()
    return encoded


# Appended to a container's bytes, these add the messages that plugins rely on: protobuf merges appended bytes.
_NORMAL: Final = _normal_suffix()


class CreateRequest(EventRequest):
    """The request of CreateContainer, whose container has the adjustments of the earlier plugins."""

    __slots__ = ("_adjusted", "_encoded_steps", "_merge")

    def __init__(self, spec: EventSpec, pod: m.PodSandbox, container: m.Container, merge: CreateMerge) -> None:
        super().__init__(spec, pod, container)
        self._merge = merge
        self._adjusted = False
        self._encoded_steps = 0

    def refresh(self) -> None:
        """Record that another reply was merged: the container may have changed."""
        self._adjusted = True
        self._encoded = None

    def container_parts(self) -> list[bytes]:
        """The container as the next plugin sees it. Bytes to which something was appended are not encoded again."""
        parts = self._container_parts
        if parts is None:
            parts = self._container_parts = [self._merge.encoded_base(), _NORMAL]
        if self._adjusted:
            self._adjusted = False
            steps = self._merge.steps()
            for step in steps[self._encoded_steps :]:
                if step is None:  # the base contains all steps up to the last of them
                    parts[:] = [self._merge.encoded_base()]
                else:
                    parts.append(step)
            self._encoded_steps = len(steps)
        return parts

    def container_seen(self) -> m.Container:
        """The container with the adjustments of the earlier plugins, as a message that must not be changed."""
        return self._merge.container


class UpdateRequest(EventRequest):
    """The request of UpdateContainer, whose resources have the changes of the earlier plugins."""

    __slots__ = ("_merge", "_revision")

    def __init__(self, spec: EventSpec, pod: m.PodSandbox, container: m.Container, merge: UpdateMerge) -> None:
        super().__init__(spec, pod, container, merge.resources)
        self._merge = merge
        self._revision = merge.revision

    def refresh(self) -> None:
        """Record that another reply was merged: the resources may have changed."""
        if self._merge.revision != self._revision:
            self._revision = self._merge.revision
            self.resources = self._merge.resources
            self._encoded = None
