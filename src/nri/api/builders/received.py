"""`resources_of`: every resource of a received message as it was sent, by the names of the setters.

One job: the readers of `nri.api.builders.view` on a container that a runtime shows, or on the resources that it is
about to apply. What was not sent reads as None. Next: `nri.api.readers` for the few that plugins ask most, with "no
limit" as None.
"""

from __future__ import annotations

from nri.api.builders.view import ResourceView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.messages import Container, LinuxResources

__all__ = ["ReceivedResources", "resources_of"]


class ReceivedResources(ResourceView):
    """Readers of the resources of a received message.

    Attributes:
        message: the `Container` or `LinuxResources`.
    """

    __slots__ = ("message",)

    def __init__(self, message: Container | LinuxResources) -> None:
        self.message = message

    @property
    def resources(self) -> LinuxResources:
        """The resources as a message."""
        message: Container | LinuxResources = self.message
        return message.linux.resources if hasattr(message, "linux") else message

    def __repr__(self) -> str:
        from nri.api.builders.builder import describe  # noqa: PLC0415 - for people

        return f"ReceivedResources({', '.join(describe(self.resources))})"


def resources_of(message: Container | LinuxResources) -> ReceivedResources:
    """Readers of all resources, as they were sent: `resources_of(container).memory_limit`, `.unified`."""
    return ReceivedResources(message)
