"""The plugins in the order in which they are called, the validators among them, and missing required plugins.

The list is a tuple that is replaced, never changed, and only while no event is processed. So all running events have
the same list, and their order at one plugin is their order at every plugin. A disconnected plugin stays in the list
until then and is skipped.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nri.adaptation.peers.state import JOINED, State
from nri.adaptation.registration.sync_gate import SyncGate
from nri.api.events import BY_METHOD

if TYPE_CHECKING:
    from nri.adaptation.peers.peer import Peer
    from nri.plugin_policy.policy import PluginPolicy, Policies

_VALIDATION = BY_METHOD["validate_container_adjustment"].number


class Chain:
    """All plugins that take part in events, by index and then by time of registration.

    Attributes:
        gate: the gate between events and joining plugins.
        peers: the plugins; read it while inside the gate.
        validators: the plugins that are subscribed to validation.
        absent: ``NN-name`` and policy of the required plugins that are not connected.
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
        """Insert a plugin. Call it between `gate.join` and `gate.joined`."""
        with self._lock:
            self._replace((*self.peers, peer))
        # Before the plugin is synchronized: events then wait at its lock, and are not refused.
        self.note_absent()

    def leave(self) -> None:
        """Remove disconnected plugins, as soon as no event is processed."""
        self.gate.when_idle(self._drop_gone)

    def _drop_gone(self) -> None:
        with self._lock:
            self._replace(self.peers)

    def _replace(self, peers: tuple[Peer, ...]) -> None:
        alive = [peer for peer in peers if peer.state is not State.GONE]
        self.peers = tuple(sorted(alive, key=lambda peer: (peer.index, peer.order)))
        self.refresh()

    def refresh(self) -> None:
        """Update the validators after a change of a policy or plugin."""
        self.validators = tuple(
            peer for peer in self.peers if peer.event_policies and peer.event_policies[_VALIDATION] is not None
        )

    def note_absent(self) -> None:
        """Update the missing required plugins after a change of plugins or policy."""
        with self._absence:  # without the lock, an older list could replace a newer list
            connected = {peer.label for peer in self.peers if peer.state is not State.GONE}
            self.absent = tuple(row for row in self._policies.required if row[0] not in connected)

    @property
    def active(self) -> int:
        """The number of plugins that take part."""
        return sum(peer.state in JOINED for peer in self.peers)
