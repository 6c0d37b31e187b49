"""The ways by which pods and containers come to the policy and its decisions go back: NRI, CRI proxy, reconciler.

No transport knows another one: each hands contexts to `nri.agent.decisions` and takes changes away in its own words;
what it has no words for goes to `nri.agent.executor`. Next: `nri.agent.transports.nri`.
"""

from typing import Protocol

__all__ = ["Transport"]


class Transport(Protocol):
    """One way. Any thread may call its methods.

    Attributes:
        name: "nri", "proxy" or "standalone".
    """

    name: str

    def start(self) -> None:
        """Begin, once; never blocks on a peer that is not there."""
        ...

    def stop(self) -> None:
        """End; what has been applied stays. A second time does nothing."""
        ...

    def rules_changed(self, kinds: frozenset[str]) -> None:
        """Decide anew for all that runs, because rules of these kinds have changed; returns at once."""
        ...

    def health(self) -> tuple[bool, str]:
        """Return whether pods are served now, and the state in one line."""
        ...
