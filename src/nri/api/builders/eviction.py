"""`Eviction`: a plugin's request that the runtime stop a container.

One job: build a `ContainerEviction`. The reference's runtimes ignore evictions; ours hands them to the engine.
"""

from __future__ import annotations

from nri.api.builders.builder import Builder
from nri.api.builders.checks import text
from nri.api.messages import Container, ContainerEviction

__all__ = ["Eviction"]


class Eviction(Builder):
    """Request to stop one container.

    A handler returns it, alone or among updates: `create_container`, `update_container`, `stop_container` and
    `synchronize` may. At any other time `self.runtime.evict` asks for the same. Runtimes on the Go library, containerd
    and CRI-O among them, ignore evictions; the plugin's log then says so, once.

    Args:
        container: its id, or the container itself.
        reason: why, for people.

    Attributes:
        message: the `ContainerEviction` that is sent.

    Raises:
        TypeError: `container` is neither an id nor a container, or `reason` no text.
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
        """The container to stop."""
        return self.message.container_id

    @property
    def reason(self) -> str:
        """The reason, for people; may be empty."""
        return self.message.reason
