"""The ways by which pods and containers come to the policy and its decisions go back: NRI, CRI proxy, reconciler.

No transport knows another one: each hands contexts to `nri.agent.decisions` and takes changes away in its own words;
what it has no words for goes to `nri.agent.executor`. Next: `nri.agent.transports.nri`.
"""

from typing import Protocol

from nri.agent.executor import ValueWriter
from nri.agent.worker import Component

__all__ = ["Transport"]


class Transport(Component, Protocol):
    """A way in for pods and containers, and a way out for what was decided. Any thread may call its methods.

    Attributes:
        name: its word among the modes of the settings: "nri", "proxy", "standalone", "hooks".
        values: sets what strategies decide; None if the executor does all of that.
    """

    name: str
    values: ValueWriter | None

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Apply the rules again to what runs already; called from a source's thread, so it only notes the work."""
        ...
