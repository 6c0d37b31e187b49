"""`Eviction`: a plugin's request that the runtime stop a container.

Runtimes with the Go library ignore evictions. Runtimes built on this package pass them to their engine.
"""

from __future__ import annotations

from nri.api.builders.builder import Answer
from nri.api.builders.checks import text
from nri.api.messages import Container, ContainerEviction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def id_of(container: Any) -> str:
    """The id of a container, given as the container or as its id. Raises TypeError for another type."""
    if isinstance(container, Container):
        return container.id
    if not isinstance(container, str):
        raise TypeError(f"container must be a Container or its id, not {_kind(container)}")
    return container


def _kind(value: object) -> str:
    if hasattr(value, "DESCRIPTOR"):  # the text of a message has many lines
        return f"a {type(value).__name__}"
    return repr(value)


class Eviction(Answer):
    """A request to stop a container.

    A handler of `create_container`, `update_container`, `stop_container` or `synchronize` may return it, alone or among
    updates. At any other time use `self.runtime.evict`. Runtimes with the Go library, for example containerd and CRI-O,
    ignore evictions; the plugin logs that once.

    Args:
        container: the container's id, or the container itself.
        reason: a human-readable reason.

    Attributes:
        message: the `ContainerEviction` that is sent.

    Raises:
        TypeError: `container` is not an id or a container, or `reason` is not a string.
        ValueError: the id is empty.
    """

    __slots__ = ()

    message: ContainerEviction

    def __init__(self, container: str | Container, reason: str = "") -> None:
        container_id = id_of(container)
        super().__init__(
            ContainerEviction(
                container_id=text("container_id", container_id, allow_empty=False), reason=text("reason", reason)
            )
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
        """The human-readable reason; may be empty."""
        return self.message.reason
