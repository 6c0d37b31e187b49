"""`Update`: a plugin's change of an existing container.

Only resources can change after the creation. An update without resources would make a runtime set the kubelet's values
to zero, so the stub checks `has_resources` before it sends an update.
"""

from __future__ import annotations

from nri.api.builders.checks import flag, text
from nri.api.builders.eviction import id_of
from nri.api.builders.resources import Resources
from nri.api.messages import Container, ContainerUpdate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Update(Resources):
    """Changes of an existing container.

    `nri.Update(container.id).set_cpu_shares(512)`; the container itself is accepted as well.

    Attributes:
        message: the `ContainerUpdate` that is sent.

    Raises:
        TypeError: `container` is not an id or a container.
        ValueError: the id is empty.
    """

    __slots__ = ()

    message: ContainerUpdate

    def __init__(self, container: str | Container) -> None:
        super().__init__(ContainerUpdate())
        self.set_container_id(id_of(container))

    @classmethod
    def _message_class(cls) -> type[ContainerUpdate]:
        return ContainerUpdate

    def set_container_id(self, container_id: str) -> Self:
        """Set the id of the container to change."""
        self.message.container_id = text("container_id", container_id, allow_empty=False)
        return self

    def set_ignore_failure(self, ignore: bool = True) -> Self:
        """Let the request continue even if this update cannot be applied."""
        self.message.ignore_failure = flag("ignore", ignore)
        return self

    @property
    def container_id(self) -> str:
        """The id of the container to change."""
        return self.message.container_id

    @property
    def ignore_failure(self) -> bool:
        """Whether the request continues even if this update cannot be applied."""
        return self.message.ignore_failure
