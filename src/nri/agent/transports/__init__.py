"""Transports: how pods and containers reach the hooks, and how decisions reach the node.

Each transport passes contexts to `nri.agent.decisions` and delivers the changes in its own form. Changes that a
transport cannot express go to `nri.agent.executor`.
"""

from typing import Protocol

from nri.agent.executor import ValueWriter
from nri.agent.worker import Component

__all__ = ["Transport"]


class Transport(Component, Protocol):
    """A source of pods and containers, and a receiver of decisions. Thread-safe.

    Attributes:
        name: its mode in the settings: "nri", "proxy", "standalone" or "hooks".
        values: the writer of strategies' values; None if the executor writes all of them.
    """

    name: str
    values: ValueWriter | None

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Request that rules are applied again to running pods. It returns immediately, because a source calls it."""
        ...
