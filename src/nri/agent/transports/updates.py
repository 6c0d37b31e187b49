"""Updates of containers that run, which no request of the runtime asks for: values of strategies, and room for others.

A strategy's value for a container goes to the runtime, so that the runtime's own view stays true, and nothing that it
applies again undoes the value; what NRI has no word for goes to the executor. While a container is being created, hooks
may decide for those that run already (stage `MAKE_ROOM`), and their updates go with the answer.

Rules: what came of an update is read from the kernel. A value that is not there after it is written to its file, and
the record says why; so it is after a refusal. A value is sent once, while the runtime's view has it; one that was
refused is sent again after a pause, or when it is another one. Where pods come from NRI alone, the runtime's view is
the only record of what a kubelet has asked for, and a later agent has to find that there: such values are written to
their files. Next: `nri.agent.transports.hook_plugin`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from nri.agent.executor import Written, tidy
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
from nri.agent.transports.reapply import PORTION
from nri.agent.writing.cpus import value_of
from nri.api import messages as m
from nri.errors import DeadlineExceeded, NriError
from nri.host import Outcome, Result
from nri.stub.support.runtime_handle import RuntimeHandle
from nri.text import plain

__all__ = ["RuntimeUpdates"]

_log = logging.getLogger(__name__)
#: For how many seconds a value that was refused is not told again, and a runtime that does not answer is left alone.
_PAUSE_S: Final = 60.0
#: For how many seconds updates of one round go out; what is left follows in the next one.
_ROUND_S: Final = 4.0
#: The part of the time for an answer to a creation in which hooks decide for other containers.
_SHARE: Final = 0.5
#: The resources by which it is known what a kubelet asks for.
_ASKED: Final = (SHARES, QUOTA, MEMORY_LIMIT)
_LEFT_OUT: Final = "the runtime took the update and did not set it, so it was written to its file"


class _Due(NamedTuple):
    """An update of one container, and the places of its values in what was asked for."""

    known: InventoryEntry
    update: m.ContainerUpdate
    values: dict[str, Setting]
    places: list[int]


class RuntimeUpdates:
    """The updates of one runtime's containers.

    Args:
        parts: the agent's.
        held: the containers.
        transport: the word in records.
        runtime: gives the connection of now.
        now: monotonic seconds.
    """

    def __init__(
        self,
        parts: Parts,
        held: RuntimeInventory,
        transport: str,
        runtime: Callable[[], RuntimeHandle],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._held, self.name = parts, held, transport
        self._runtime, self._now = runtime, now
        self._deaf_until = 0.0
        #: Values that were refused, by container and knob, each with the time until which it is not told again.
        self._refused: dict[tuple[str, str], tuple[Setting, float]] = {}
        #: Values for others, by the container that was being created then; not looked at yet.
        self._room: dict[str, list[tuple[Container, list[Write]]]] = {}
        #: Knobs that a runtime is not told, because a later agent reads from its view what was asked for.
        self._asked_for = _ASKED if isinstance(parts.pods, NriPods) else ()
        self._makes_room = any(MAKE_ROOM in row.stages for row in parts.profile.hooks)

    # -- strategies ---------------------------------------------------------------------------------------------------

    def write(self, wanted: Sequence[Write]) -> list[Written]:
        """Have values set, by the runtime or by the executor; one result for each, in the order of `wanted`.

        Cgroups above containers come first, as they have to where values grow; what the kernel refuses of them is tried
        once more when the containers have theirs, as it has to be where values shrink.
        """
        executor = self._parts.executor
        due = self._due(wanted)
        told = {place: "" for each in due for place in each.places}
        by_file = [place for place in range(len(wanted)) if place not in told]
        found = dict(zip(by_file, executor.write([wanted[place] for place in by_file], keep=False), strict=True))
        if due:
            for each, reason in self._send(due):
                told.update(dict.fromkeys(each.places, reason))
            looked_at = executor.write([wanted[place] for place in told], force=True, keep=False)
            found.update(zip(told, looked_at, strict=True))
            again = [place for place in by_file if found[place].outcome in (Outcome.REFUSED, Outcome.CLAMPED)]
            found.update(zip(again, executor.write([wanted[place] for place in again], keep=False), strict=True))
        return [
            _by_update(found[place], told[place]) if place in told else Written(found[place], False)
            for place in range(len(wanted))
        ]

    def _due(self, wanted: Sequence[Write]) -> list[_Due]:
        """The updates that bring the runtime's view to what was decided now, or before and could not be sent."""
        runtime, now = self._runtime(), self._now()
        if not runtime.connected:
            return []
        listed = dict(self._held.containers())
        by_folder: dict[str, str] = {}
        if wanted:
            by_folder = {tidy(known.context.folder).rpartition("/")[2]: key for key, known in listed.items()}
        places: dict[tuple[str, str], int] = {}
        for place, write in enumerate(wanted):
            number = by_folder.get(tidy(write.folder).rpartition("/")[2], "")
            value = self._value(write) if number and listed[number].created else None
            if value is not None:
                listed[number].decided[write.knob] = value
                places[number, write.knob] = place
        self._refused = {key: each for key, each in self._refused.items() if key[0] in listed and each[1] > now}
        if now < self._deaf_until:
            return []
        made = (self._of(number, known, places) for number, known in listed.items() if known.decided)
        return [each for each in made if each is not None]

    def _of(self, number: str, known: InventoryEntry, places: Mapping[tuple[str, str], int]) -> _Due | None:
        values = {
            name: value
            for name, value in known.decided.items()
            if not translation.same(name, value, known.said.get(name))
            and self._refused.get((number, name), (None, 0.0))[0] != value
        }
        update = translation.update(Changes(values), number, self._parts.executor.on_v2)
        if update is None:
            return None
        return _Due(known, update, values, [places[number, name] for name in values if (number, name) in places])

    def _value(self, write: Write) -> Setting | None:
        """The value of a write as an update says it; None if an update cannot, or the kernel has another unit for it.

        Runtimes make weights of cgroup v2 of shares in ways of their own, so that no file tells whether they have.
        """
        on_v2 = self._parts.executor.on_v2
        name = write.knob
        if name in self._asked_for or name in AT_CREATION or not messages.sayable(name, on_v2):
            return None
        if name == SHARES and on_v2(name):
            return None
        try:
            value = value_of(name, write.value)
        except (KeyError, ValueError):
            return None  # the executor says what is wrong with it
        if isinstance(value, int):
            return value
        return write.value or None

    def _send(self, due: Sequence[_Due]) -> list[tuple[_Due, str]]:
        """Send updates; return each with the reason why the runtime does not have it, "" if it has."""
        found, until = [], self._now() + _ROUND_S
        for start in range(0, len(due), PORTION):
            portion = due[start : start + PORTION]
            if self._now() > until:
                found += [(each, "it had enough to do for one round") for each in portion]
            else:
                found += self._sent(portion)
        for each, reason in found:
            if reason:
                self._parts.observer.met(self.name, "update refused")
            elif self._held.container(each.update.container_id) is each.known:
                each.known.said.update(each.values)
        return found

    def _sent(self, portion: Sequence[_Due]) -> list[tuple[_Due, str]]:
        reason, until = "it could not update the container", self._now() + _PAUSE_S
        try:
            failed = {each.container_id for each in self._runtime().update(*(each.update for each in portion)).result()}
        except NriError as error:
            reason, failed = plain(str(error)), {each.update.container_id for each in portion}
            if isinstance(error, DeadlineExceeded):
                self._deaf_until = until
        if failed:
            _log.warning("mode %s: %s does not update %s: %s; their values are written to their files for %d s",
                         self.name, self._runtime().name, ", ".join(sorted(failed)), reason, _PAUSE_S)  # fmt: skip
        for each in portion:
            if each.update.container_id in failed:
                self._refused.update(
                    ((each.update.container_id, name), (value, until)) for name, value in each.values.items()
                )
        return [(each, reason if each.update.container_id in failed else "") for each in portion]

    # -- requests of the kubelet --------------------------------------------------------------------------------------

    def kept(self, known: InventoryEntry, requested: m.LinuxResources) -> Changes:
        """Return the values to be kept when a kubelet asks for resources: those that it asks for again are not."""
        asked = messages.reported(requested)
        anew = {
            name
            for name, value in asked.items()
            if value and not translation.same(name, value, known.asked_for.get(name))
        }
        known.asked_for.update({name: value for name, value in asked.items() if value})
        for name in anew & set(known.decided):
            del known.decided[name]
        return Changes(dict(known.decided))

    # -- creations ----------------------------------------------------------------------------------------------------

    def room(self, created: str, new: Container, time_left_s: float | None) -> list[m.ContainerUpdate]:
        """Ask the hooks what the creation of a container asks of those that run; return the updates.

        Args:
            created: the new container's id.
            new: its context.
            time_left_s: until the runtime waits no longer; None is for ever.
        """
        if not self._makes_room:
            return []
        until = None if time_left_s is None else time.monotonic() + time_left_s * _SHARE
        updates: list[m.ContainerUpdate] = []
        looked_at = self._room[created] = []
        running = [(number, known) for number, known in self._held.containers() if known.created and number != created]
        for done, (number, known) in enumerate(running):
            if until is not None and time.monotonic() > until:
                self._parts.observer.left_out("containers beside a creation", len(running) - done)
                break
            update = self._moved(number, known, new, looked_at)
            if update is not None:
                updates.append(update)
        return updates

    def _moved(
        self,
        number: str,
        known: InventoryEntry,
        new: Container,
        looked_at: list[tuple[Container, list[Write]]],
    ) -> m.ContainerUpdate | None:
        """Decide for one container that runs; what no update can say is written at once."""
        decisions, executor, context = self._parts.decisions, self._parts.executor, known.context
        outcome = decisions.decide(MAKE_ROOM, replace(context, new=new), self.name)
        changes, left_out = translation.sayable(outcome.changes, context.folder)
        if not changes.knobs and not left_out:
            return None
        said, rest = translation.updatable(changes, executor.on_v2), translation.beside(changes, executor.on_v2)
        results = executor.write(writes(context.folder, rest), keep=False) if rest else []
        decisions.record(context, self.name, [*left_out, *results])
        update = translation.update(said, number, executor.on_v2)
        if update is not None:
            update.ignore_failure = True
            known.decided.update(said.knobs)
            known.said.update(said.knobs)
            looked_at.append((context, writes(context.folder, said)))
        return update

    def created(self, number: str) -> None:
        """Look at what the kernel has of the updates that went with the answer to a creation, and record it."""
        for context, wanted in self._room.pop(number, []):
            found = self._parts.executor.write(wanted, force=True, keep=False)
            results = [_by_update(result, "").result for result in found]
            self._parts.decisions.record(context, self.name, results)

    def forget(self, number: str) -> None:
        """Drop what is remembered of a creation that came to nothing."""
        self._room.pop(number, None)


def _by_update(result: Result, reason: str) -> Written:
    """The result of a value that the runtime got, from what the executor has found after that."""
    if reason:
        words = f"the runtime did not take it, so it was written to its file: {reason}"
        return Written(replace(result, reason=f"{result.reason}; {words}" if result.reason else words), False)
    if result.outcome is Outcome.UNCHANGED:
        return Written(replace(result, outcome=Outcome.APPLIED), True)
    if result.outcome is Outcome.APPLIED:
        return Written(replace(result, reason=_LEFT_OUT), False)
    return Written(result, True)
