"""Decide again for what runs: when a runtime has told what there is, and when a rule has changed.

Pods' values are written, containers' values go to the runtime: in the reply to Synchronize, else as unsolicited
updates, in portions, because a runtime holds its lock while it applies one. Only what is decided otherwise than
before is sent. Order: pods, containers, and again those pods whose value the kernel has refused while containers had
more. A hook that cannot decide changes nothing; a rule that is gone gives back what the kubelet asked for. Next:
`nri.agent.transports.refresher`, the thread for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final, NamedTuple

from nri import host
from nri.agent.hooks import MEND_CONTAINER, MEND_POD, Outcome
from nri.agent.model import CPUS, OOM_SCORE, QUOTA, Changes, Pod, Resources, Setting, pod_writes, writes
from nri.agent.ownership import Level
from nri.agent.parts import Parts
from nri.agent.transports import translation
from nri.agent.transports.clear_cpus import clear_cpus, clears_cpus
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory
from nri.api import messages as m
from nri.errors import NriError
from nri.host import Result
from nri.stub.support.runtime_handle import RuntimeHandle
from nri.text import plain

__all__ = ["PORTION", "Reapply"]

_log = logging.getLogger(__name__)
#: The knobs whose values are given back.
_GIVEN_BACK: Final = (QUOTA, CPUS)
#: Containers in one update: a runtime takes up to 50 ms for each, and has 5 s.
PORTION: Final = 32
#: The part of the time for an answer to Synchronize that is used; what is left then follows by itself.
_SHARE: Final = 0.5


class _Due(NamedTuple):
    """An update to be sent. `asked` is what `InventoryEntry.asked` was when it was decided."""

    known: InventoryEntry
    changes: Changes
    update: m.ContainerUpdate
    asked: int


class Reapply:
    """Decides again for what one runtime runs.

    Attributes:
        generation: grows whenever a rule has changed.
        left: whether some of what runs is still to be decided.
    """

    def __init__(self, parts: Parts, held: RuntimeInventory, transport: str) -> None:
        self._parts, self._held, self._transport = parts, held, transport
        self.generation = 0
        self.left = False
        self._missing: set[str] = set()
        #: The hooks whose values are given back.
        self._given_back = frozenset(
            owner.name
            for owner in parts.profile.owners()
            if owner.owns.level is Level.CONTAINER and owner.owns.knob in _GIVEN_BACK
        )

    def rules_changed(self) -> None:
        """Note that what was decided until now is out of date."""
        self.generation += 1

    def synchronized(self, reported: Mapping[str, m.Container], time_left_s: float | None) -> list[m.ContainerUpdate]:
        """Decide for all that runs; return the updates of containers that differ from what the runtime reports.

        Pods' values are written before that. Pods for which the time is too short stay in `left`.
        """
        until = None if time_left_s is None else monotonic() + time_left_s * _SHARE
        updates, beside = [], []
        self.left = False
        for number, known in self._held.containers():
            if number not in reported:
                continue
            if until is not None and monotonic() > until:
                self.left = True
                break
            changes = self._decide(known)
            if changes is None:
                continue
            known.hand_over(changes)
            update = self._update(known, changes, number, reported[number])
            if update is not None:
                updates.append(update)
            beside.append((known, changes))
        for context in [context for _, context in self._held.pods()]:
            self.left |= not self.pod(context) if until is None or monotonic() < until else True
        for known, changes in beside:
            if until is not None and monotonic() > until:
                known.changes, self.left = None, True
            else:
                self._beside(known, changes)
        return updates

    def run(self, runtime: RuntimeHandle) -> bool:
        """Decide for all that runs, and send what is different now; return whether nothing is left to do."""
        generation = self.generation
        refused = [context for _, context in self._held.pods() if not self.pod(context)]
        well = not runtime.connected or self._send_all(runtime, generation)
        again = [self.pod(context) for context in refused]
        return well and all(again) and generation == self.generation

    def vanished(self) -> list[Pod]:
        """Forget the pods that have neither containers nor a cgroup, now and the last time; return them.

        A runtime that was restarted may tell nothing when a pod is removed that is older than that.
        """
        used = {known.pod_id for _, known in self._held.containers()}
        exists = self._parts.executor.hierarchies.exists
        missing = {
            number: context
            for number, context in self._held.pods()
            if number not in used and not (context.folder and exists(context.folder))
        }
        gone = [context for number, context in missing.items() if number in self._missing]
        for number in self._missing & set(missing):
            self._held.drop_pod(number)
        self._missing = set(missing)
        return gone

    def pod(self, context: Pod, *, force: bool = False) -> bool:
        """Decide and write a pod's values; return whether the kernel refused none of them."""
        decisions = self._parts.decisions
        try:
            outcome = decisions.decide(MEND_POD, context, self._transport)
            if outcome.failed is not None:
                return True
            if force:
                self._parts.executor.write(pod_writes(context.folder, outcome.changes), force=True)
            results = decisions.carry_out(context, outcome, self._transport)
        except Exception:  # noqa: BLE001 - one pod never stops the others
            _log.exception("mode %s: a pod could not be decided", self._transport)
            return True
        return all(result.outcome is not host.Outcome.REFUSED for result in results)

    # -- containers ---------------------------------------------------------------------------------------------------

    def _send_all(self, runtime: RuntimeHandle, generation: int) -> bool:
        well, portion = True, list[_Due]()
        for number, known in self._held.containers():
            if not known.created:  # what is being created is looked at when it has been
                continue
            asked, before = known.asked, known.changes
            changes = self._decide(known)
            known.generation = generation
            if changes is None or (before is not None and before.knobs == changes.knobs):
                continue
            known.hand_over(changes)
            self._beside(known, changes)
            update = self._update(known, changes, number)
            if update is not None:
                portion.append(_Due(known, changes, update, asked))
            if len(portion) == PORTION:
                well &= self._send(runtime, portion)
                portion = []
        return self._send(runtime, portion) and well

    def _send(self, runtime: RuntimeHandle, portion: list[_Due]) -> bool:
        """Send updates and record what came of them; return whether none has to be sent again."""
        if not portion:
            return True
        reason = "the runtime could not update it"
        try:
            failed = {each.container_id for each in runtime.update(*(due.update for due in portion)).result()}
        except NriError as error:
            reason = plain(str(error))
            failed = {due.update.container_id for due in portion}
        well = True
        for due in portion:
            number, known = due.update.container_id, due.known
            if self._held.container(number) is not known:  # it has stopped meanwhile
                continue
            bad = number in failed
            if not bad:
                known.said.update(translation.updatable(due.changes, self._parts.executor.on_v2).knobs)
            self._tell(known, due.changes, reason if bad else "")
            if bad or known.asked != due.asked:  # a kubelet that asks for something else meanwhile: decide by that
                known.changes, well = None, False
        return well

    def _decide(self, known: InventoryEntry) -> Changes | None:
        """Ask the hooks for a container that runs; None if nothing is to be changed by that."""
        try:
            outcome = self._parts.decisions.decide(MEND_CONTAINER, known.context, self._transport)
            if outcome.failed is not None:
                return None
            changes, left_out = translation.sayable(self._with_what_was_asked(known, outcome), known.context.folder)
            self._parts.decisions.record(known.context, self._transport, left_out)
        except Exception:  # noqa: BLE001 - one pod never stops the others
            _log.exception("mode %s: a container could not be decided", self._transport)
            return None
        return changes

    def _with_what_was_asked(self, known: InventoryEntry, outcome: Outcome) -> Changes:
        """Return what was decided, and what the kubelet had asked for where only an earlier decision set a value."""
        changes, before = outcome.changes, known.changes
        if before is None or any(error.hook in self._given_back for error in outcome.errors):
            return changes  # a hook that cannot decide gives nothing back
        asked = known.context.resources or Resources()
        back: dict[str, Setting] = {}
        if asked.cfs_quota is not None:
            back[QUOTA] = asked.cfs_quota
        back[CPUS] = asked.cpuset or ""
        return Changes({name: value for name, value in back.items() if name in before.knobs}) | changes

    def _update(
        self, known: InventoryEntry, changes: Changes, number: str, reported: m.Container | None = None
    ) -> m.ContainerUpdate | None:
        try:
            return translation.update(changes, number, self._parts.executor.on_v2, reported)
        except Exception as error:  # noqa: BLE001 - one container's values must not stop those of the others
            self._tell(known, changes, f"it cannot be said to the runtime: {plain(str(error))}")
            return None

    def _beside(self, known: InventoryEntry, changes: Changes) -> None:
        """Do what no update can say."""
        executor, folder = self._parts.executor, known.context.folder
        deeds: list[Callable[[], list[Result]]] = []
        if clears_cpus(changes):
            deeds.append(lambda: clear_cpus(executor, folder))
        rest = translation.beside(changes, executor.on_v2)
        if (score := rest.number(OOM_SCORE)) is not None:
            deeds.append(lambda: executor.oom_score(folder, score))
        if rest := rest.without((OOM_SCORE, CPUS)):
            deeds.append(lambda: executor.write(writes(folder, rest), keep=False))
        for deed in deeds:
            try:
                self._parts.decisions.record(known.context, self._transport, deed())
            except Exception:  # noqa: BLE001 - one pod never stops the others
                _log.exception("mode %s: a write failed", self._transport)

    def _tell(self, known: InventoryEntry, changes: Changes, reason: str) -> None:
        outcome = host.Outcome.REFUSED if reason else host.Outcome.APPLIED
        target = known.context.folder
        said = translation.updatable(changes, self._parts.executor.on_v2).knobs
        results = [Result(target, knob, value, outcome, reason) for knob, value in said.items() if value != ""]
        self._parts.decisions.record(known.context, self._transport, results)
