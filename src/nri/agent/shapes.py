"""Shapes of the agent's parts as others see them, where a class by name would make a circle of imports.

Next: `nri.agent.observe`.
"""

from __future__ import annotations

from typing import Protocol

from nri.policies.koordinator.profile import Node

__all__ = ["Component", "Rules"]


class Rules(Protocol):
    """The rules that decisions are made by; `nri.agent.rules` has them."""

    @property
    def node(self) -> Node:
        """All rules as they are now; the value never changes."""
        ...


class Component(Protocol):
    """A part of the agent that runs beside the others: a timer, a source; a transport is one as well."""

    def start(self) -> None:
        """Begin; a second call does nothing. It never waits for a peer that is not there."""
        ...

    def stop(self) -> None:
        """End, and wait until it has; a second call does nothing."""
        ...

    def health(self) -> tuple[bool, str]:
        """Whether it does its work now, and in one line how it is."""
        ...
