"""Unsolicited updates of running containers: values of strategies, and room for a container during its creation.

A strategy's value for a container goes to the runtime, so that the runtime's view stays correct and the runtime does
not undo the value later. Values that NRI cannot express go to the executor. During the creation of a container, hooks
may decide for running containers (stage `MAKE_ROOM`); these updates are a part of the reply.

After an update the kernel's files are read. A missing or refused value is written to its file, and the record has
the reason. A value is not sent again while the runtime's view contains it. A refused value is sent again after a pause.
If pods come from NRI alone, the runtime's view is the only record of the kubelet's request, which a later agent needs:
values of such knobs are therefore written to their files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from nri.agent.executor import WriteOutcome, tidy
from nri.agent.hooks import MAKE_ROOM
from nri.agent.model import (
    AT_CREATION,
    MEMORY_LIMIT,
    QUOTA,
    SHARES,
    Changes,
    Container,
    Setting,
    Write,
    writes,
)
from nri.agent.parts import Parts
from nri.agent.pods.nri import NriPods
from nri.agent.transports import messages, translation
from nri.agent.transports.inventory import InventoryEntry, RuntimeInventory
from nri.agent.transports.reapplication import PORTION
from nri.agent.writing.cpus import value_of
from nri.api import messages as m
from nri.errors import DeadlineExceeded, NriError
from nri.host import Outcome, Result
from nri.stub.support.runtime_handle import RuntimeHandle
from nri.text import plain

_log = logging.getLogger(__name__)
#: The pause in seconds before a refused value is sent again, and after a timeout of the runtime.
_PAUSE_S: Final = 60.0
#: The maximum time in seconds for the updates of one round; further updates follow in the next round.
_ROUND_S: Final = 4.0
#: The fraction of the time for a reply to CreateContainer in which hooks decide for other containers.
_SHARE: Final = 0.5
#: The resources that a kubelet requests.
_REQUESTED_KNOBS: Final = (SHARES, QUOTA, MEMORY_LIMIT)
_LEFT_OUT: Final = "the runtime accepted the update without setting the value, so the value was written to its file"


class _DueUpdate(NamedTuple):
    """An update of one container, with the indexes of its values in the list of requested writes."""

    entry: InventoryEntry
    update: m.ContainerUpdate
    values: dict[str, Setting]
    places: list[int]


class RuntimeUpdates:
    """Sends updates of one runtime's containers.

    Args:
        parts: the shared parts of the agent.
        inventory: the containers of the runtime.
        transport: the name of the transport in records.
        runtime: returns the current connection.
        now: returns monotonic seconds.
    """

    def __init__(
        self,
        parts: Parts,
        inventory: RuntimeInventory,
        transport: str,
        runtime: Callable[[], RuntimeHandle],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._inventory, self.name = parts, inventory, transport
        self._runtime, self._clock = runtime, now
        self._deaf_until = 0.0
        #: Refused values by container and knob, each with the time before which the value is not sent again.
        self._refused: dict[tuple[str, str], tuple[Setting, float]] = {}
        #: Unconfirmed values of other containers, by the id of the container that is being created.
        self._unconfirmed_values: dict[str, list[tuple[Container, list[Write]]]] = {}
        #: Knobs that are not sent to the runtime, because a later agent reads the kubelet's request from its view.
        self._asked_for = _REQUESTED_KNOBS if isinstance(parts.pods, NriPods) else ()
        self._makes_room = any(MAKE_ROOM in row.stages for row in parts.profile.hooks)

    # -- strategies ---------------------------------------------------------------------------------------------------

    def write(self, requests: Sequence[Write]) -> list[WriteOutcome]:
        """Write values through the runtime or the executor, and return a result for each of `requests`, in their order.

        Cgroups above containers are written first, because a parent's value must grow before its containers' values.
        Values that the kernel refuses are written again after the containers' values, because a parent must shrink
        after them.
        """
        executor = self._parts.executor
        due = self._due_updates(requests)
        reason_by_place = {place: "" for update in due for place in update.places}
        by_file = [place for place in range(len(requests)) if place not in reason_by_place]
        results = dict(zip(by_file, executor.write([requests[place] for place in by_file], keep=False), strict=True))
        if due:
            for update, reason in self._send(due):
                reason_by_place.update(dict.fromkeys(update.places, reason))
            looked_at = executor.write([requests[place] for place in reason_by_place], force=True, keep=False)
            results.update(zip(reason_by_place, looked_at, strict=True))
            failed = [place for place in by_file if results[place].outcome in (Outcome.REFUSED, Outcome.CLAMPED)]
            results.update(zip(failed, executor.write([requests[place] for place in failed], keep=False), strict=True))
        return [
            _by_update(results[place], reason_by_place[place])
            if place in reason_by_place
            else WriteOutcome(results[place], False)
            for place in range(len(requests))
        ]

    def _due_updates(self, requests: Sequence[Write]) -> list[_DueUpdate]:
        """Return the updates with values that were decided now or could not be sent before."""
        runtime, now = self._runtime(), self._clock()
        if not runtime.connected:
            return []
        listed = dict(self._inventory.containers())
        by_folder: dict[str, str] = {}
        if requests:
            by_folder = {tidy(entry.context.folder).rpartition("/")[2]: key for key, entry in listed.items()}
        places: dict[tuple[str, str], int] = {}
        for place, write in enumerate(requests):
            number = by_folder.get(tidy(write.folder).rpartition("/")[2], "")
            value = self._value(write) if number and listed[number].created else None
            if value is not None:
                listed[number].decided[write.knob] = value
                places[number, write.knob] = place
        self._refused = {key: update for key, update in self._refused.items() if key[0] in listed and update[1] > now}
        if now < self._deaf_until:
            return []
        updates = (self._due_update(number, entry, places) for number, entry in listed.items() if entry.decided)
        return [update for update in updates if update is not None]

    def _due_update(
        self, number: str, entry: InventoryEntry, places: Mapping[tuple[str, str], int]
    ) -> _DueUpdate | None:
        values = {
            name: value
            for name, value in entry.decided.items()
            if not translation.same(name, value, entry.reported.get(name))
            and self._refused.get((number, name), (None, 0.0))[0] != value
        }
        update = translation.update(Changes(values), number, self._parts.executor.on_v2)
        if update is None:
            return None
        return _DueUpdate(entry, update, values, [places[number, name] for name in values if (number, name) in places])

    def _value(self, write: Write) -> Setting | None:
        """Return the value of a write for an update, or None if an update cannot express it in the kernel's unit.

        Runtimes convert shares to cgroup v2 weights in different ways, so the file would not confirm the value.
        """
        on_v2 = self._parts.executor.on_v2
        name = write.knob
        if name in self._asked_for or name in AT_CREATION or not messages.is_expressible(name, on_v2):
            return None
        if name == SHARES and on_v2(name):
            return None
        try:
            value = value_of(name, write.value)
        except (KeyError, ValueError):
            return None  # the executor reports the error
        if isinstance(value, int):
            return value
        return write.value or None

    def _send(self, due: Sequence[_DueUpdate]) -> list[tuple[_DueUpdate, str]]:
        """Send updates, and return each with the reason why the runtime refused it; "" if the runtime accepted it."""
        outcomes, until = [], self._clock() + _ROUND_S
        for start in range(0, len(due), PORTION):
            portion = due[start : start + PORTION]
            if self._clock() > until:
                outcomes += [(update, "the round's time was up") for update in portion]
            else:
                outcomes += self._send_portion(portion)
        for update, reason in outcomes:
            if reason:
                self._parts.observer.count_event(self.name, "update refused")
            elif self._inventory.container(update.update.container_id) is update.entry:
                update.entry.reported.update(update.values)
        return outcomes

    def _send_portion(self, portion: Sequence[_DueUpdate]) -> list[tuple[_DueUpdate, str]]:
        reason, until = "the update failed", self._clock() + _PAUSE_S
        try:
            failed = {
                update_.container_id
                for update_ in self._runtime().update(*(update_.update for update_ in portion)).result()
            }
        except NriError as error:
            reason, failed = plain(str(error)), {update_.update.container_id for update_ in portion}
            if isinstance(error, DeadlineExceeded):
                self._deaf_until = until
        if failed:
            _log.warning("mode %s: %s does not update %s: %s; their values are written to cgroup files for %d s",
                         self.name, self._runtime().name, ", ".join(sorted(failed)), reason, _PAUSE_S)  # fmt: skip
        for update_ in portion:
            if update_.update.container_id in failed:
                self._refused.update(
                    ((update_.update.container_id, name), (value, until)) for name, value in update_.values.items()
                )
        return [(update_, reason if update_.update.container_id in failed else "") for update_ in portion]

    # -- requests of the kubelet --------------------------------------------------------------------------------------

    def values_to_keep(self, entry: InventoryEntry, requested: m.LinuxResources) -> Changes:
        """Return the decided values to keep when a kubelet requests resources.

        A changed request drops a decided value.
        """
        request = messages.reported(requested)
        anew = {
            name
            for name, value in request.items()
            if value and not translation.same(name, value, entry.requested.get(name))
        }
        entry.requested.update({name: value for name, value in request.items() if value})
        for name in anew & set(entry.decided):
            del entry.decided[name]
        return Changes(dict(entry.decided))

    # -- creations ----------------------------------------------------------------------------------------------------

    def room(self, created: str, new: Container, time_left_s: float | None) -> list[m.ContainerUpdate]:
        """Run the hooks of running containers for the creation of another container, and return the updates.

        Args:
            created: the id of the new container.
            new: the new container.
            time_left_s: the time until the runtime's deadline; None means no deadline.
        """
        if not self._makes_room:
            return []
        until = None if time_left_s is None else time.monotonic() + time_left_s * _SHARE
        updates: list[m.ContainerUpdate] = []
        looked_at = self._unconfirmed_values[created] = []
        running = [
            (number, entry) for number, entry in self._inventory.containers() if entry.created and number != created
        ]
        for position, (number, entry) in enumerate(running):
            if until is not None and time.monotonic() > until:
                self._parts.observer.left_out("containers updated during a creation", len(running) - position)
                break
            update = self._room_update(number, entry, new, looked_at)
            if update is not None:
                updates.append(update)
        return updates

    def _room_update(
        self,
        number: str,
        entry: InventoryEntry,
        new: Container,
        looked_at: list[tuple[Container, list[Write]]],
    ) -> m.ContainerUpdate | None:
        """Decide for one running container. Values that no update can express are written immediately."""
        decisions, executor, context = self._parts.decisions, self._parts.executor, entry.context
        outcome = decisions.decide(MAKE_ROOM, replace(context, new=new), self.name)
        changes, left_out = translation.valid_changes(outcome.changes, context.folder)
        if not changes.knobs and not left_out:
            return None
        sent, file_changes = (
            translation.updatable(changes, executor.on_v2),
            translation.written_changes(changes, executor.on_v2),
        )
        results = executor.write(writes(context.folder, file_changes), keep=False) if file_changes else []
        decisions.record(context, self.name, [*left_out, *results])
        update = translation.update(sent, number, executor.on_v2)
        if update is not None:
            update.ignore_failure = True
            entry.decided.update(sent.knobs)
            entry.reported.update(sent.knobs)
            looked_at.append((context, writes(context.folder, sent)))
        return update

    def created(self, number: str) -> None:
        """Read the kernel's values after the updates in the reply to CreateContainer, and record the results."""
        for context, requests in self._unconfirmed_values.pop(number, []):
            results_of_writes = self._parts.executor.write(requests, force=True, keep=False)
            results = [_by_update(result, "").result for result in results_of_writes]
            self._parts.decisions.record(context, self.name, results)

    def forget(self, number: str) -> None:
        """Forget the updates for a container that was not created."""
        self._unconfirmed_values.pop(number, None)


def _by_update(result: Result, reason: str) -> WriteOutcome:
    """Return the result of a value that was sent to the runtime, from the result of the executor's later check."""
    if reason:
        words = f"the runtime refused the value, so the value was written to its file: {reason}"
        return WriteOutcome(replace(result, reason=f"{result.reason}; {words}" if result.reason else words), False)
    if result.outcome is Outcome.UNCHANGED:
        return WriteOutcome(replace(result, outcome=Outcome.APPLIED), True)
    if result.outcome is Outcome.APPLIED:
        return WriteOutcome(replace(result, reason=_LEFT_OUT), False)
    return WriteOutcome(result, True)
