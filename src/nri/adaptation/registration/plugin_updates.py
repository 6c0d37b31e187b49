"""Updates and evictions that plugins request outside of events: check against the policy, apply, record.

They come in the reply to Synchronize, and in UpdateContainers at any time, through
`nri.adaptation.registration.update_queue`. Each request has the sequence number that it got when it was read. The code
runs in threads of the adaptation, never inside an event, so the runtime's callbacks may take the runtime's locks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.containers.answer_order import SequenceNumbers
from nri.adaptation.containers.inventory import Presence
from nri.adaptation.merge import limits
from nri.adaptation.merge.side_updates import folded
from nri.api import messages as m
from nri.errors import NriError
from nri.plugin_policy import allow
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.registration.deferred_updates import DeferredUpdates, Evict
    from nri.plugin_policy.policy import Policies
    from nri.rules import Rules

log = logging.getLogger("nri.adaptation")

UPDATE_CONTAINERS: Final = "UpdateContainers"
#: A line of the log names at most this many containers.
_MAX_NAMES_IN_LOG: Final = 5


class PluginUpdates:
    """Gives requests of plugins to the runtime's callbacks, or defers them until their container is created."""

    def __init__(
        self,
        evict: Evict | None,
        policies: Policies,
        rules: Rules,
        trail: AuditTrail,
        deferred: DeferredUpdates,
        reporting: Reporting,
    ) -> None:
        self._evict = evict
        self._deferred = deferred
        self._policies = policies
        self._rules = rules
        self._trail = trail
        self._reporting = reporting

    def max_entries(self) -> int:
        """The limit of entries of a request, which depends on the number of containers; 0 for no limit."""
        containers = self._trail.inventory.known
        return limits.max_entries_for(len(containers)) if self._rules.other_updates_limited else 0

    def check_synchronize(self, peer: Peer, updates: list[m.ContainerUpdate]) -> NriError | None:
        """The error, also recorded, if the policy forbids a plugin's answer to Synchronize.

        Returns None if it does not.
        """
        encoded = m.SynchronizeResponse(update=updates).SerializeToString()
        try:
            self._check(peer, "Synchronize", encoded, [*self._of_known_containers(updates)], [])
        except NriError as error:
            return error
        return None

    def apply_synchronize(self, peer: Peer, updates: list[m.ContainerUpdate], number: int) -> None:
        """Apply the updates in a plugin's answer to Synchronize, which has passed `check_synchronize`."""
        encoded = m.SynchronizeResponse(update=updates).SerializeToString()
        present, missing = self._updates_to_apply(peer.label, "Synchronize", updates, number)
        failed = [*missing, *self._apply(peer.label, "Synchronize", encoded, present, number)]
        if failed:
            named = ", ".join(plain(update.container_id, 128) for update in failed[:_MAX_NAMES_IN_LOG])
            more = f" and {len(failed) - _MAX_NAMES_IN_LOG} more" if len(failed) > _MAX_NAMES_IN_LOG else ""
            self._reporting.limited_log.line(
                "updates that failed",
                logging.WARNING,
                "plugin %s: update of container %s%s failed",
                peer.qualified,
                named,
                more,
            )

    def unsolicited(self, peer: Peer, request: m.UpdateContainersRequest, number: int) -> list[m.ContainerUpdate]:
        """Apply a plugin's UpdateContainers. Returns the updates that failed.

        `number` is the sequence number of the request among all answers.
        """
        encoded = request.SerializeToString()
        if not self._reporting.recorded:
            return self._apply_request(peer, request, encoded, number)
        with self._reporting.plugin_request(peer.label, UPDATE_CONTAINERS, encoded) as outcome:
            failed = self._apply_request(peer, request, encoded, number)
            outcome.append(m.UpdateContainersResponse(failed=failed).SerializeToString())
        return failed

    def _apply_request(
        self, peer: Peer, request: m.UpdateContainersRequest, encoded: bytes, number: int
    ) -> list[m.ContainerUpdate]:
        evictions = list(request.evict) if self._rules.unsolicited_evictions_kept else []
        if evictions and self._evict is None:
            raise NriError("this runtime does not evict containers")
        event = UPDATE_CONTAINERS
        self._check(
            peer,
            event,
            encoded,
            [*self._of_known_containers(request.update)],
            [*self._of_known_containers(evictions)],
            request,
        )
        updates, missing = self._updates_to_apply(peer.label, event, request.update, number)
        failed = self._apply(peer.label, event, encoded, updates, number)
        evictions = self._evictions_to_apply(peer.label, event, evictions)
        if evictions and self._evict is not None:
            self._evict(evictions)
        return [*failed, *missing]

    def _of_known_containers(self, requests: Iterable[Any]) -> Iterator[Any]:
        """Yield the updates or evictions of containers that exist or are being created."""
        containers = self._trail.inventory.known
        for request in requests:
            target = request.container_id
            if not self._rules.absent_containers_left_out or containers.is_creating(target) or target in containers:
                yield request

    def _updates_to_apply(
        self, plugin: str, event: str, updates: Iterable[m.ContainerUpdate], number: int
    ) -> tuple[list[m.ContainerUpdate], list[m.ContainerUpdate]]:
        """Return the updates to apply now, and the updates of unknown containers, which fail; defer the others."""
        if not self._rules.absent_containers_left_out:
            return list(updates), []
        present: list[m.ContainerUpdate] = []
        missing: list[m.ContainerUpdate] = []
        for update in self._merged_by_container(updates):
            presence = self._deferred.defer_update(plugin, update, event, number)
            if presence is Presence.KNOWN:
                present.append(update)
            elif presence is Presence.GONE:
                self._reporting.left_out(plugin, event, update.container_id)
                if not update.ignore_failure:
                    missing.append(update)
        return present, missing

    def _merged_by_container(self, updates: Iterable[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        """The updates; the updates of a container that is being created are merged into one."""
        containers = self._trail.inventory.known
        existing: list[m.ContainerUpdate] = []
        creating: list[m.ContainerUpdate] = []
        for update in updates:
            (creating if containers.is_creating(update.container_id) else existing).append(update)
        return [*existing, *folded(creating)]

    def _evictions_to_apply(
        self, plugin: str, event: str, evictions: Sequence[m.ContainerEviction]
    ) -> list[m.ContainerEviction]:
        """Return the evictions to carry out now.

        Evictions of containers that are being created are deferred, others ignored.
        """
        if not self._rules.absent_containers_left_out:
            return list(evictions)
        present: list[m.ContainerEviction] = []
        for eviction in evictions:
            presence = self._deferred.defer_eviction(plugin, eviction)
            if presence is Presence.KNOWN:
                present.append(eviction)
            elif presence is Presence.GONE:
                self._reporting.left_out(plugin, event, eviction.container_id)
        return present

    def _apply(
        self, plugin: str, what: str, encoded: bytes, updates: list[m.ContainerUpdate], number: int
    ) -> list[m.ContainerUpdate]:
        """Give updates to the runtime and record them. Returns the updates that failed."""
        return self._trail.apply(what, plugin, encoded, updates, SequenceNumbers(number)) if updates else []

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
                del breach  # the error refers to this frame: break the reference cycle
