"""Shapes of the agent's parts as others see them, where a class by name would make a circle of imports.

Next: `nri.agent.observe`.
"""

from __future__ import annotations

from typing import Protocol

from nri.policies.koordinator.profile import Node

__all__ = ["Component", "Rules", "Transport"]


class Rules(Protocol):
    """The rules that decisions are made by; `nri.agent.rules` has them."""

    @property
    def node(self) -> Node:
        """All rules as they are now; the value never changes."""
        ...


class Component(Protocol):
    """A part of the agent that runs beside the others: a source, a timer, a transport."""

    def start(self) -> None:
        """Begin; a second call does nothing. It never waits for a peer that is not there."""
        ...

    def stop(self) -> None:
        """End, and wait until it has; a second call does nothing."""
        ...

    def health(self) -> tuple[bool, str]:
        """Whether it does its work now, and in one line how it is."""
        ...


class Transport(Component, Protocol):
    """A way in for pods and containers, and a way out for what was decided.

    Attributes:
        name: its word in `modes`: "nri", "proxy", "standalone", "hooks".
    """

    name: str

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Apply the rules again to what runs already; called from a source's thread, so it only notes the work."""
        ...
