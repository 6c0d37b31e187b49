"""Decide again for running pods and containers, after a runtime reported them and after a rule changed.

Values of pods are written. Values of containers go to the runtime: in the reply to Synchronize, otherwise as
unsolicited updates. These are sent in portions, because a runtime holds its lock while it applies them. Only changed
decisions are sent. Pods come first, then containers. A pod's value that the kernel refused, for example because a
container had a higher value, is then tried again. A failing hook changes nothing. A removed rule restores the values
that the kubelet requested.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple

from nri import host
from nri.agent.hooks import RECONCILE_CONTAINER, RECONCILE_POD, Outcome
from nri.agent.model import CPUS, OOM_SCORE, QUOTA, Changes, Pod, Resources, Setting, pod_writes, writes
from nri.agent.ownership import Level
from nri.agent.parts import Parts
from nri.agent.transports import translation
from nri.agent.transports.cpu_clearing import clear_cpus, clears_cpus
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory
from nri.api import messages as m
from nri.errors import NriError
from nri.host import Result
from nri.stub.support.runtime_handle import RuntimeHandle
from nri.text import plain

_log = logging.getLogger(__name__)
#: The knobs that get the kubelet's value again when no hook sets them any more.
_GIVEN_BACK: Final = (QUOTA, CPUS)
#: The maximum number of containers in one update: a runtime needs up to 50 ms for each, and the request times out after
#: 5 s.
PORTION: Final = 32
#: The fraction of the time for the reply to Synchronize that is used; later values are sent as unsolicited updates.
_SHARE: Final = 0.5


class _DueUpdate(NamedTuple):
    """An update to be sent. `request_count` is the entry's count at the time of the decision."""

    entry: InventoryEntry
    changes: Changes
    update: m.ContainerUpdate
    request_count: int


class Reapply:
    """Decides again for the pods and containers of one runtime.

    Attributes:
        generation: the number of rule changes.
        left: whether a decision is missing for some pods or containers.
    """

    def __init__(self, parts: Parts, inventory: RuntimeInventory, transport: str) -> None:
        self._parts, self._inventory, self._transport = parts, inventory, transport
        self.generation = 0
        self.left = False
        self._missing: set[str] = set()
        #: The hooks that set knobs of `_GIVEN_BACK`.
        self._given_back = frozenset(
            owner.name
            for owner in parts.profile.owners()
            if owner.owns.level is Level.CONTAINER and owner.owns.knob in _GIVEN_BACK
        )

    def rules_changed(self) -> None:
        """Record that all decisions are out of date."""
        self.generation += 1

    def synchronized(self, reported: Mapping[str, m.Container], time_left_s: float | None) -> list[m.ContainerUpdate]:
        """Decide for all pods and containers, and return the updates that differ from the runtime's view.

        Values of pods are written first. If the time is too short, `left` is set.
        """
        until = None if time_left_s is None else monotonic() + time_left_s * _SHARE
        updates, decisions = [], []
        self.left = False
        for number, entry in self._inventory.containers():
            if number not in reported:
                continue
            if until is not None and monotonic() > until:
                self.left = True
                break
            changes = self._decide(entry)
            if changes is None:
                continue
            entry.hand_over(changes)
            update = self._update(entry, changes, number, reported[number])
            if update is not None:
                updates.append(update)
            decisions.append((entry, changes))
        for context in [context for _, context in self._inventory.pods()]:
            self.left |= not self.pod(context) if until is None or monotonic() < until else True
        for entry, changes in decisions:
            if until is not None and monotonic() > until:
                entry.changes, self.left = None, True
            else:
                self._write_others(entry, changes)
        return updates

    def run(self, runtime: RuntimeHandle) -> bool:
        """Decide for all pods and containers, and send changed decisions. Returns whether all of them succeeded."""
        generation = self.generation
        refused = [context for _, context in self._inventory.pods() if not self.pod(context)]
        well = not runtime.connected or self._send_all(runtime, generation)
        retried = [self.pod(context) for context in refused]
        return well and all(retried) and generation == self.generation

    def vanished(self) -> list[Pod]:
        """Forget and return the pods that had neither containers nor a cgroup in this call and in the previous call.

        A restarted runtime may not report the removal of an older pod.
        """
        used = {entry.pod_id for _, entry in self._inventory.containers()}
        exists = self._parts.executor.hierarchies.exists
        missing = {
            number: context
            for number, context in self._inventory.pods()
            if number not in used and not (context.folder and exists(context.folder))
        }
        vanished = [context for number, context in missing.items() if number in self._missing]
        for number in self._missing & set(missing):
            self._inventory.drop_pod(number)
        self._missing = set(missing)
        return vanished

    def pod(self, context: Pod, *, force: bool = False) -> bool:
        """Decide and write a pod's values. Returns False if the kernel refused a value."""
        decisions = self._parts.decisions
        try:
            outcome = decisions.decide(RECONCILE_POD, context, self._transport)
            if outcome.failed is not None:
                return True
            if force:
                self._parts.executor.write(pod_writes(context.folder, outcome.changes), force=True)
            results = decisions.carry_out(context, outcome, self._transport)
        except Exception:  # noqa: BLE001 - an error of one pod must not stop the others
            _log.exception("mode %s: a pod could not be decided", self._transport)
            return True
        return all(result.outcome is not host.Outcome.REFUSED for result in results)

    # -- containers ---------------------------------------------------------------------------------------------------

    def _send_all(self, runtime: RuntimeHandle, generation: int) -> bool:
        well, portion = True, list[_DueUpdate]()
        for number, entry in self._inventory.containers():
            if not entry.created:  # a container that is being created is decided afterwards
                continue
            request_number, before = entry.request_count, entry.changes
            changes = self._decide(entry)
            entry.generation = generation
            if changes is None or (before is not None and before.knobs == changes.knobs):
                continue
            entry.hand_over(changes)
            self._write_others(entry, changes)
            update = self._update(entry, changes, number)
            if update is not None:
                portion.append(_DueUpdate(entry, changes, update, request_number))
            if len(portion) == PORTION:
                well &= self._send(runtime, portion)
                portion = []
        return self._send(runtime, portion) and well

    def _send(self, runtime: RuntimeHandle, portion: list[_DueUpdate]) -> bool:
        """Send updates, and record their outcomes. Returns False if an update has to be sent again."""
        if not portion:
            return True
        reason = "the runtime could not update the container"
        try:
            failed = {
                refused_update.container_id
                for refused_update in runtime.update(*(due.update for due in portion)).result()
            }
        except NriError as error:
            reason = plain(str(error))
            failed = {due.update.container_id for due in portion}
        well = True
        for due in portion:
            number, entry = due.update.container_id, due.entry
            if self._inventory.container(number) is not entry:  # the container has stopped meanwhile
                continue
            bad = number in failed
            if not bad:
                entry.reported.update(translation.updatable(due.changes, self._parts.executor.on_v2).knobs)
            self._record_outcome(entry, due.changes, reason if bad else "")
            if (
                bad or entry.request_count != due.request_count
            ):  # the kubelet has sent another request meanwhile: decide again
                entry.changes, well = None, False
        return well

    def _decide(self, entry: InventoryEntry) -> Changes | None:
        """Return the hooks' changes of a running container, or None if the hooks fail."""
        try:
            outcome = self._parts.decisions.decide(RECONCILE_CONTAINER, entry.context, self._transport)
            if outcome.failed is not None:
                return None
            changes, left_out = translation.valid_changes(
                self._with_requested_values(entry, outcome), entry.context.folder
            )
            self._parts.decisions.record(entry.context, self._transport, left_out)
        except Exception:  # noqa: BLE001 - an error of one container must not stop the others
            _log.exception("mode %s: a container could not be decided", self._transport)
            return None
        return changes

    def _with_requested_values(self, entry: InventoryEntry, outcome: Outcome) -> Changes:
        """Return the changes, plus the kubelet's values for knobs that only an earlier decision set."""
        changes, before = outcome.changes, entry.changes
        if before is None or any(error.hook in self._given_back for error in outcome.errors):
            return changes  # a failed hook must not reset earlier values
        requested = entry.context.resources or Resources()
        back: dict[str, Setting] = {}
        if requested.cfs_quota is not None:
            back[QUOTA] = requested.cfs_quota
        back[CPUS] = requested.cpuset or ""
        return Changes({name: value for name, value in back.items() if name in before.knobs}) | changes

    def _update(
        self, entry: InventoryEntry, changes: Changes, number: str, reported: m.Container | None = None
    ) -> m.ContainerUpdate | None:
        try:
            return translation.update(changes, number, self._parts.executor.on_v2, reported)
        except Exception as error:  # noqa: BLE001 - an error of one container must not stop the others
            self._record_outcome(entry, changes, f"the decision cannot be converted to a message: {plain(str(error))}")
            return None

    def _write_others(self, entry: InventoryEntry, changes: Changes) -> None:
        """Write the values that no update can express."""
        executor, folder = self._parts.executor, entry.context.folder
        actions: list[Callable[[], list[Result]]] = []
        if clears_cpus(changes):
            actions.append(lambda: clear_cpus(executor, folder))
        file_changes = translation.written_changes(changes, executor.on_v2)
        if (score := file_changes.number(OOM_SCORE)) is not None:
            actions.append(lambda: executor.oom_score(folder, score))
        if file_changes := file_changes.without((OOM_SCORE, CPUS)):
            actions.append(lambda: executor.write(writes(folder, file_changes), keep=False))
        for action in actions:
            try:
                self._parts.decisions.record(entry.context, self._transport, action())
            except Exception:  # noqa: BLE001 - an error of one write must not stop the others
                _log.exception("mode %s: a write failed", self._transport)

    def _record_outcome(self, entry: InventoryEntry, changes: Changes, reason: str) -> None:
        outcome = host.Outcome.REFUSED if reason else host.Outcome.APPLIED
        target = entry.context.folder
        sent = translation.updatable(changes, self._parts.executor.on_v2).knobs
        results = [Result(target, knob, value, outcome, reason) for knob, value in sent.items() if value != ""]
        self._parts.decisions.record(entry.context, self._transport, results)
