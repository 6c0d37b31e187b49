"""Updates and evictions that plugins ask for beside the answers to events: held to policy, applied, recorded.

Two occasions: the reply to Synchronize, and UpdateContainers at any time, which comes through the queue of
`nri.adaptation.registration.update_queue`. Each has the number that it got where it was read. Runs in threads of the
adaptation, never inside an event, so the runtime's callbacks may take the runtime's locks. Next:
`nri.adaptation.registration.kept_updates`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.containers.answer_order import Numbers
from nri.adaptation.containers.inventory import Presence
from nri.adaptation.merge import limits
from nri.adaptation.merge.side_updates import folded
from nri.adaptation.plugin_policy import allow
from nri.api import messages as m
from nri.errors import NriError
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.policy import Policies
    from nri.adaptation.registration.kept_updates import Evict, KeptUpdates
    from nri.rules import Rules

__all__ = ["PluginUpdates"]

log = logging.getLogger("nri.adaptation")

UPDATE_CONTAINERS: Final = "UpdateContainers"
#: Containers that a line of the log names.
_NAMED: Final = 5


class PluginUpdates:
    """Hands what plugins ask for to the runtime's callbacks, or keeps it until its container is created."""

    def __init__(
        self,
        evict: Evict | None,
        policies: Policies,
        rules: Rules,
        trail: AuditTrail,
        kept: KeptUpdates,
        reporting: Reporting,
    ) -> None:
        self._evict = evict
        self._kept = kept
        self._policies = policies
        self._rules = rules
        self._trail = trail
        self._reporting = reporting

    def most(self) -> int:
        """Entries that a plugin may ask for at once, by the number of containers; 0 for no limit."""
        known = self._trail.inventory.known
        return limits.most_for(len(known)) if self._rules.other_updates_limited else 0

    def check_synchronize(self, peer: Peer, updates: list[m.ContainerUpdate]) -> NriError | None:
        """Say why the policy does not allow a plugin's answer to Synchronize, and record that; None if it does."""
        encoded = m.SynchronizeResponse(update=updates).SerializeToString()
        try:
            self._check(peer, "Synchronize", encoded, [*self._there(updates)], [])
        except NriError as error:
            return error
        return None

    def in_synchronize(self, peer: Peer, updates: list[m.ContainerUpdate], number: int) -> None:
        """Apply the updates in a plugin's answer to Synchronize, which has passed `check_synchronize`."""
        encoded = m.SynchronizeResponse(update=updates).SerializeToString()
        present, missing = self._present(peer.label, "Synchronize", updates, number)
        failed = [*missing, *self._apply(peer.label, "Synchronize", encoded, present, number)]
        if failed:
            named = ", ".join(plain(update.container_id, 128) for update in failed[:_NAMED])
            more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
            self._reporting.lines.line(
                "updates that failed",
                logging.WARNING,
                "plugin %s: update of container %s%s failed",
                peer.qualified,
                named,
                more,
            )

    def unsolicited(self, peer: Peer, request: m.UpdateContainersRequest, number: int) -> list[m.ContainerUpdate]:
        """Apply what a plugin asks for by itself; returns the updates that failed.

        `number` is the place of its request in the order of answers.
        """
        encoded = request.SerializeToString()
        if not self._reporting.recorded:
            return self._unsolicited(peer, request, encoded, number)
        with self._reporting.asked_by(peer.label, UPDATE_CONTAINERS, encoded) as outcome:
            failed = self._unsolicited(peer, request, encoded, number)
            outcome.append(m.UpdateContainersResponse(failed=failed).SerializeToString())
        return failed

    def _unsolicited(
        self, peer: Peer, request: m.UpdateContainersRequest, encoded: bytes, number: int
    ) -> list[m.ContainerUpdate]:
        evictions = list(request.evict) if self._rules.unsolicited_evictions_kept else []
        if evictions and self._evict is None:
            raise NriError("this runtime does not evict containers")
        event = UPDATE_CONTAINERS
        self._check(peer, event, encoded, [*self._there(request.update)], [*self._there(evictions)], request)
        updates, missing = self._present(peer.label, event, request.update, number)
        failed = self._apply(peer.label, event, encoded, updates, number)
        evictions = self._present_evictions(peer.label, event, evictions)
        if evictions and self._evict is not None:
            self._evict(evictions)
        return [*failed, *missing]

    def _there(self, asked: Iterable[Any]) -> Iterator[Any]:
        """Updates or evictions, without those whose container is neither there nor about to be."""
        known = self._trail.inventory.known
        for each in asked:
            target = each.container_id
            if not self._rules.absent_containers_left_out or known.is_creating(target) or target in known:
                yield each

    def _present(
        self, plugin: str, event: str, asked: Iterable[m.ContainerUpdate], number: int
    ) -> tuple[list[m.ContainerUpdate], list[m.ContainerUpdate]]:
        """The updates to apply now, and those that fail because their container is not there; others are kept."""
        if not self._rules.absent_containers_left_out:
            return list(asked), []
        present: list[m.ContainerUpdate] = []
        missing: list[m.ContainerUpdate] = []
        for update in self._folded(asked):
            presence = self._kept.keep_update(plugin, update, event, number)
            if presence is Presence.KNOWN:
                present.append(update)
            elif presence is Presence.GONE:
                self._reporting.left_out(plugin, event, update.container_id)
                if not update.ignore_failure:
                    missing.append(update)
        return present, missing

    def _folded(self, asked: Iterable[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        """Updates, with one for each container that is being created: those are kept together anyway."""
        known = self._trail.inventory.known
        there: list[m.ContainerUpdate] = []
        creating: list[m.ContainerUpdate] = []
        for update in asked:
            (creating if known.is_creating(update.container_id) else there).append(update)
        return [*there, *folded(creating)]

    def _present_evictions(
        self, plugin: str, event: str, asked: Sequence[m.ContainerEviction]
    ) -> list[m.ContainerEviction]:
        """The evictions to carry out now; those of containers that are being created are kept, others left out."""
        if not self._rules.absent_containers_left_out:
            return list(asked)
        present: list[m.ContainerEviction] = []
        for eviction in asked:
            presence = self._kept.keep_eviction(plugin, eviction)
            if presence is Presence.KNOWN:
                present.append(eviction)
            elif presence is Presence.GONE:
                self._reporting.left_out(plugin, event, eviction.container_id)
        return present

    def _apply(
        self, plugin: str, what: str, encoded: bytes, updates: list[m.ContainerUpdate], number: int
    ) -> list[m.ContainerUpdate]:
        """Hand updates to the runtime and record them; returns those that failed."""
        return self._trail.apply(what, plugin, encoded, updates, Numbers(number)) if updates else []

    def _check(
        self,
        peer: Peer,
        what: str,
        encoded: bytes,
        updates: list[m.ContainerUpdate],
        evictions: list[m.ContainerEviction],
        reply: Any = None,
    ) -> None:
        policy = self._policies.for_plugin(peer.index, peer.name, peer.declared, self._rules)
        if policy.allow is None:
            return
        namespace_of = self._trail.inventory.known.namespace_of
        breach = allow.breach(
            policy.allow, peer.label, "", reply=reply, update=updates, evict=evictions, namespace_of=namespace_of
        )
        if breach is not None:
            peer.last_error = str(breach)
            self._trail.refused(what, peer.label, encoded, updates, str(breach))
            try:
                raise breach
            finally:
                del breach  # it has this frame, with the updates: they would keep each other
