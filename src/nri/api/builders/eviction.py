"""`Eviction`: a plugin's request that the runtime stop a container.

Runtimes with the Go library ignore evictions. Runtimes built on this package pass them to their engine.
"""

from __future__ import annotations

from nri.api.builders.builder import Builder
from nri.api.builders.checks import text
from nri.api.messages import Container, ContainerEviction

__all__ = ["Eviction"]


class Eviction(Builder):
    """A request to stop a container.

    A handler of `create_container`, `update_container`, `stop_container` or `synchronize` may return it, alone or among
    updates. At any other time use `self.runtime.evict`. Runtimes with the Go library, for example containerd and CRI-O,
    ignore evictions; the plugin logs that once.

    Args:
        container: the container's id, or the container itself.
        reason: a reason for people.

    Attributes:
        message: the `ContainerEviction` that is sent.

    Raises:
        TypeError: `container` is not an id or a container, or `reason` is not a string.
        ValueError: the id is empty.
    """

    __slots__ = ()

    message: ContainerEviction

    def __init__(self, container: str | Container, reason: str = "") -> None:
        container_id = container.id if isinstance(container, Container) else container
        self.message = ContainerEviction(
            container_id=text("container_id", container_id, empty=False), reason=text("reason", reason)
        )

    @classmethod
    def _message_class(cls) -> type[ContainerEviction]:
        return ContainerEviction

    @property
    def container_id(self) -> str:
        """The id of the container to stop."""
        return self.message.container_id

    @property
    def reason(self) -> str:
        """The reason, for people; may be empty."""
        return self.message.reason
