"""The plugins in the order in which they are called, and who of them validates.

The list is a tuple that is replaced, never changed, and only while no event is under way (the gate sees to that): so
all events in flight have the same list, and their order at one plugin is their order at every plugin. A plugin that is
gone stays in the list until then and is skipped. Next: `nri.adaptation.dispatch.dispatcher`, which walks it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.adaptation.peers.state import JOINED, State
from nri.adaptation.registration.sync_gate import Gate

if TYPE_CHECKING:
    from nri.adaptation.peers.peer import Peer

__all__ = ["Chain"]

_VALIDATION = 14  # number of the event


class Chain:
    """All plugins that take part in events, by index and then by time of registration.

    Attributes:
        gate: between events and joining plugins.
        peers: the plugins; read it while inside the gate.
        validators: those of them that are subscribed to validation.
    """

    def __init__(self, preference_s: float) -> None:
        self.gate = Gate(preference_s, self._at_rest)
        self.peers: tuple[Peer, ...] = ()
        self.validators: tuple[Peer, ...] = ()
        self._lock = threading.Lock()
        self._stale = False

    def add(self, peer: Peer) -> None:
        """Put a plugin into its place. To be called between `gate.join` and `gate.joined`."""
        with self._lock:
            self._replace((*self.peers, peer))

    def leave(self) -> None:
        """Some plugin is gone: drop it as soon as no event is under way."""
        self._stale = True
        self.gate.idle(self._at_rest)

    def _at_rest(self) -> None:
        if self._stale:
            self._stale = False
            with self._lock:
                self._replace(self.peers)

    def _replace(self, peers: tuple[Peer, ...]) -> None:
        alive = [peer for peer in peers if peer.state is not State.GONE]
        self.peers = tuple(sorted(alive, key=lambda peer: (peer.index, peer.order)))
        self.refresh()

    def refresh(self) -> None:
        """Work out anew who validates: a policy or a plugin has changed."""
        self.validators = tuple(peer for peer in self.peers if peer.plans and peer.plans[_VALIDATION] is not None)

    @property
    def active(self) -> int:
        """How many plugins are in and alive."""
        return sum(peer.state in JOINED for peer in self.peers)
