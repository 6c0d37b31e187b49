"""The plugins in the order in which they are called, who of them validates, and which required ones are missing.

The list is a tuple that is replaced, never changed, and only while no event is under way (the gate sees to that): so
all events in flight have the same list, and their order at one plugin is their order at every plugin. A plugin that is
gone stays in the list until then and is skipped.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.adaptation.peers.state import JOINED, State
from nri.adaptation.registration.sync_gate import SyncGate
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.policy import PluginPolicy, Policies

__all__ = ["Chain"]

_VALIDATION = BY_METHOD["validate_container_adjustment"].number


class Chain:
    """All plugins that take part in events, by index and then by time of registration.

    Attributes:
        gate: between events and joining plugins.
        peers: the plugins; read it while inside the gate.
        validators: those of them that are subscribed to validation.
        absent: ``NN-name`` and policy of the plugins that the operator requires and that are not here.
    """

    def __init__(self, preference_s: float, policies: Policies) -> None:
        self._policies = policies
        self.gate = SyncGate(preference_s)
        self.peers: tuple[Peer, ...] = ()
        self.validators: tuple[Peer, ...] = ()
        self.absent: tuple[tuple[str, PluginPolicy], ...] = ()
        self._lock = threading.Lock()
        self._absence = threading.Lock()

    def add(self, peer: Peer) -> None:
        """Put a plugin into its place. To be called between `gate.join` and `gate.joined`."""
        with self._lock:
            self._replace((*self.peers, peer))
        # Not only once it has taken the state in: events wait for that at its lock, and are not refused meanwhile.
        self.note_absent()

    def leave(self) -> None:
        """Drop the plugins that are gone, as soon as no event is under way."""
        self.gate.when_idle(self._drop_gone)

    def _drop_gone(self) -> None:
        with self._lock:
            self._replace(self.peers)

    def _replace(self, peers: tuple[Peer, ...]) -> None:
        alive = [peer for peer in peers if peer.state is not State.GONE]
        self.peers = tuple(sorted(alive, key=lambda peer: (peer.index, peer.order)))
        self.refresh()

    def refresh(self) -> None:
        """Work out again who validates: a policy or a plugin has changed."""
        self.validators = tuple(
            peer for peer in self.peers if peer.event_policies and peer.event_policies[_VALIDATION] is not None
        )

    def note_absent(self) -> None:
        """Work out again who is required and not here: a plugin came or went, or the policy has changed."""
        with self._absence:  # else an older list could replace a newer one
            here = {peer.label for peer in self.peers if peer.state is not State.GONE}
            self.absent = tuple(each for each in self._policies.required if each[0] not in here)

    @property
    def active(self) -> int:
        """The number of plugins that are in and alive."""
        return sum(peer.state in JOINED for peer in self.peers)
