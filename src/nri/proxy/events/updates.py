"""Updates that plugins want of containers that are there, by UpdateContainerResources.

Rules: no plugin is asked about it again; of two answers the later one counts, whichever is done first; each update
comes back field by field as applied, unsupported or stale; what the CRI has no word for is unsupported, and told with
the plugin's name where a reply has it. Only what plugins set is sent, so that nothing that others have set is
overwritten. The wishes of a reply are carried out inside the call that it answers, as runtimes do, and in that call's
time: what is left over then is reported as failed. Next: `nri.proxy.events.containers`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from nri.adaptation import CreateReply, FieldOrder, Numbers, OrderedUpdates, StopReply, UpdateReply, UpdateResult
from nri.api import messages as m
from nri.api.owners import owners_of
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.errors import DeadlineExceeded, NriError, RpcError
from nri.proxy.adjust import ZERO, zeros
from nri.proxy.passing import Backend
from nri.proxy.state import CREATED, CREATING, ContainerRecord, Store

__all__ = ["UPDATE_S", "Updates", "in_force", "merged"]

#: gRPC's numbers of DEADLINE_EXCEEDED and NOT_FOUND.
_LATE, _NOT_FOUND = 4, 5
UPDATE_S = 30.0
#: So much of the caller's time is left for the answer to reach it, in seconds.
_ANSWER_S = 0.2
#: So many containers more than there are may be remembered before those that are gone are forgotten.
_FEW = 64

#: Why a container cannot be updated, by the last state that plugins got; "" is one that is not known.
_WHY_NOT = {"": "there is no such container", CREATING: "the container is not made yet"}

_log = logging.getLogger("nri.proxy")


class Updates:
    """Changes containers for plugins."""

    def __init__(self, store: Store, backend: Backend) -> None:
        self._store, self._backend = store, backend
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.Lock()

    def apply(
        self,
        updates: OrderedUpdates,
        reply: CreateReply | UpdateReply | StopReply | None = None,
        deadline: float | None = None,
    ) -> list[UpdateResult]:
        """Apply updates; one result for each, never an error. `reply` is the answer that they came in."""
        results = []
        until = None if deadline is None else deadline - _ANSWER_S
        for update in updates:
            result = UpdateResult(update)
            try:
                self._apply(update, result, updates.numbers(update), until)
            except NriError as error:
                _fail(result, error)
            results.append(result)
            if result.failed:
                whose = set(owners_of(reply.owners, update.container_id).values()) if reply is not None else set()
                by = f" by {', '.join(sorted(whose))}" if whose else ""
                rows = "; ".join(str(row) for row in result.fields if row.reason)
                _log.warning("update of container %s%s: %s", update.container_id, by, rows)
        return results

    # --- inside ---

    @contextmanager
    def turn(self, record: ContainerRecord, deadline: float | None = None) -> Iterator[FieldOrder]:
        """One update of a container at a time; gives the order of the answers that its fields were set by.

        Raises DeadlineExceeded if another one is not through by then.
        """
        with self._lock:
            if len(self._turns) > 2 * len(self._store.containers()) + _FEW:
                self._turns = {name: each for name, each in self._turns.items() if self._store.named(name) is not None}
            mine = self._turns.setdefault(record.id, _Turn())
        if not mine.lock.acquire(timeout=-1 if deadline is None else max(deadline - monotonic(), 0.0)):
            raise DeadlineExceeded(f"another update of container {record.runtime_id}")
        try:
            yield mine.order
        finally:
            mine.lock.release()

    def _apply(self, update: m.ContainerUpdate, result: UpdateResult, numbers: Numbers, until: float | None) -> None:
        record = self._store.named(update.container_id)
        if record is None or record.reported != CREATED:
            result.mark_stale(_WHY_NOT.get("" if record is None else record.reported, "the container has ended"))
            return
        now = monotonic()
        if until is not None and until <= now:
            raise DeadlineExceeded("its turn: the time of the call that it belongs to is over")
        until = min(now + UPDATE_S, until or now + UPDATE_S)
        with self.turn(record, until) as order:
            wanted = order.newest(update.linux.resources, numbers, result)
            self._send(record, wanted, result, until)
            order.note(result, numbers)

    def _send(self, record: ContainerRecord, wanted: m.LinuxResources, result: UpdateResult, until: float) -> None:
        made = convert.to_cri(wanted)
        sent = made.value
        for field in zeros(wanted):
            result.mark_unsupported(field, ZERO)
        for each in made.dropped:
            _unsupported(result, each.field, each.reason)
        if not sent.ListFields():
            return
        request = pb.UpdateContainerResourcesRequest(container_id=record.runtime_id, linux=sent)
        self._backend.call("UpdateContainerResources", request, timeout_s=max(until - monotonic(), 0.001))
        in_force(self._store, record, sent, wanted)


class _Turn:
    """The updates of one container: who is at it, and by which answers its fields were set last."""

    __slots__ = ("lock", "order")

    def __init__(self) -> None:
        self.order = FieldOrder()
        self.lock = threading.Lock()


def merged(before: pb.LinuxContainerResources, newer: pb.LinuxContainerResources) -> pb.LinuxContainerResources:
    """Return resources with newer ones over them; of limits of one page size the newer one counts."""
    resources = pb.LinuxContainerResources()
    resources.CopyFrom(before)
    pages = {each.page_size: each.limit for each in [*before.hugepage_limits, *newer.hugepage_limits]}
    resources.MergeFrom(newer)
    del resources.hugepage_limits[:]
    for size, limit in pages.items():
        resources.hugepage_limits.add(page_size=size, limit=limit)
    return resources


def in_force(store: Store, record: ContainerRecord, sent: pb.LinuxContainerResources, wanted: m.LinuxResources) -> None:
    """Note resources that the runtime has taken."""
    resources = merged(record.resources, sent)
    shown = m.Container()
    shown.CopyFrom(record.shown)
    for part in ("cpu", "memory"):
        for field, value in getattr(wanted, part).ListFields():
            target: Any = getattr(shown.linux.resources, part)
            if field.message_type is None:
                setattr(target, field.name, value)
            elif value.value:
                getattr(target, field.name).CopyFrom(value)
    shown.linux.resources.unified.update(wanted.unified)
    store.note(record, resources=resources, shown=shown)


def _fail(result: UpdateResult, error: NriError) -> None:
    if isinstance(error, RpcError) and error.code == _NOT_FOUND:
        result.mark_stale("the runtime has no such container")
        return
    reason = error.message if isinstance(error, RpcError) else str(error)
    if isinstance(error, RpcError) and error.code == _LATE:
        reason = "the runtime did not answer in time, and may still do it"
    result.mark_refused(reason)


def _unsupported(result: UpdateResult, dropped: str, reason: str) -> None:
    """Note a field that was dropped in the rows that the result has of it."""
    for row in result.fields:
        name = row.field.partition("[")[0]
        if dropped == name or dropped.startswith((f"{name}.", f"{name}[")):
            result.mark_unsupported(row.field, reason)
