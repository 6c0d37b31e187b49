"""The types of the event methods that `Adaptation` makes from the table of events. For type checkers and readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nri.api import messages as m

__all__ = ["ContainerEvent", "PodEvent"]


class PodEvent(Protocol):
    """An event of a pod that has no answer: it returns when all plugins have handled it, or raises."""

    def __call__(self, pod: m.PodSandbox, *, timeout_s: float | None = None, deadline: float | None = None) -> None:
        """Relay it. Raises what the runtime's request should fail with."""


class ContainerEvent(Protocol):
    """An event of a container that has no answer: it returns when all plugins have handled it, or raises."""

    def __call__(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
    ) -> None:
        """Relay it. Raises what the runtime's request should fail with."""
