"""Updates and evictions that plugins ask for beside the answers to events: held to policy, applied, recorded.

Two occasions: the reply to Synchronize, and UpdateContainers at any time, which comes through the queue of
`nri.adaptation.registration.update_queue`. Runs in threads of the adaptation, never inside an event, so the runtime's
callbacks may take the runtime's locks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nri.adaptation.audit.update_result import UpdateResult, results_of
from nri.adaptation.plugin_policy import allow
from nri.api import messages as m
from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.policy import Policies
    from nri.rules import Rules

    Update = Callable[[list[m.ContainerUpdate]], Iterable[m.ContainerUpdate | UpdateResult] | None]
    Evict = Callable[[list[m.ContainerEviction]], object]

__all__ = ["PluginUpdates"]

log = logging.getLogger("nri.adaptation")


class PluginUpdates:
    """Hands what plugins ask for to the runtime's callbacks `update` and `evict`."""

    def __init__(
        self, update: Update, evict: Evict | None, policies: Policies, rules: Rules, trail: AuditTrail
    ) -> None:
        self._update, self._evict = update, evict
        self._policies = policies
        self._rules = rules
        self._trail = trail

    def in_synchronize(self, peer: Peer, updates: list[m.ContainerUpdate]) -> None:
        """Apply the updates in a plugin's answer to Synchronize."""
        encoded = m.SynchronizeResponse(update=updates).SerializeToString()
        self._check(peer, "Synchronize", encoded, updates, [])
        for update in self._apply(peer, "Synchronize", encoded, updates):
            log.warning("plugin %s: update of container %s failed", peer.qualified, update.container_id)

    def unsolicited(self, peer: Peer, request: m.UpdateContainersRequest) -> list[m.ContainerUpdate]:
        """Apply what a plugin asks for by itself; returns the updates that failed."""
        updates = list(request.update)
        evictions = list(request.evict) if self._rules.unsolicited_evictions_kept else []
        encoded = request.SerializeToString()
        self._check(peer, "UpdateContainers", encoded, updates, evictions)
        if evictions and self._evict is None:
            raise NriError("this runtime does not evict containers")
        failed = self._apply(peer, "UpdateContainers", encoded, updates)
        if evictions and self._evict is not None:
            self._evict(evictions)
        return failed

    def _apply(
        self, peer: Peer, what: str, encoded: bytes, updates: list[m.ContainerUpdate]
    ) -> list[m.ContainerUpdate]:
        if not updates:
            return []
        failed, results = results_of(updates, self._update(updates))
        self._trail.asked(what, peer.label, encoded, updates, failed, results)
        return failed

    def _check(
        self,
        peer: Peer,
        what: str,
        encoded: bytes,
        updates: list[m.ContainerUpdate],
        evictions: list[m.ContainerEviction],
    ) -> None:
        policy = self._policies.for_plugin(peer.index, peer.name, peer.declared, self._rules)
        if policy.allow is None:
            return
        namespace_of = self._trail.inventory.known.namespace_of
        breach = allow.breach(policy.allow, peer.label, "", update=updates, evict=evictions, namespace_of=namespace_of)
        if breach is not None:
            peer.last_error = str(breach)
            self._trail.refused(what, peer.label, encoded, updates, str(breach))
            raise breach
