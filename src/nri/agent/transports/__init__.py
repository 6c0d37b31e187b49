"""Transports: how pods and containers reach the hooks and how decisions get back (NRI, CRI proxy, standalone).

Each transport passes contexts to `nri.agent.decisions` and delivers the changes in its own form; what it cannot express
goes to `nri.agent.executor`.
"""

from typing import Protocol

from nri.agent.executor import ValueWriter
from nri.agent.worker import Component

__all__ = ["Transport"]


class Transport(Component, Protocol):
    """A source of pods and containers, and a receiver of decisions. Thread-safe.

    Attributes:
        name: its mode in the settings: "nri", "proxy", "standalone", "hooks".
        values: writes the values of strategies; None if the executor writes all of them.
    """

    name: str
    values: ValueWriter | None

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Apply the rules again to what runs already; called from a source's thread, so it only notes the work."""
        ...
