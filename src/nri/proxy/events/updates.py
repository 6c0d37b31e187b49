"""Apply updates that plugins request for existing containers, by UpdateContainerResources.

Of two answers the later answer wins, whichever is applied first. Each field of an update is reported as applied,
unsupported or stale. Only fields that plugins set are sent, so that values of other fields are not overwritten.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from nri.adaptation import (
    CreateReply,
    FieldOrder,
    OrderedUpdates,
    SequenceNumbers,
    StopReply,
    UpdateReply,
    UpdateResult,
)
from nri.api import messages as m
from nri.api.owners import owners_of
from nri.cri import convert
from nri.cri.pb import api_pb2 as pb
from nri.errors import DeadlineExceeded, NriError, RpcError
from nri.proxy.adjust import ZERO, zeros
from nri.proxy.passing import Backend
from nri.proxy.state import CREATED, CREATING, ContainerRecord, Store

#: gRPC's numbers of DEADLINE_EXCEEDED and NOT_FOUND.
_LATE, _NOT_FOUND = 4, 5
UPDATE_S = 30.0
#: This much of the caller's time is kept for returning the answer, in seconds.
_ANSWER_S = 0.2
#: The locks of at most this many removed containers are stored.
_MAX_STALE_TURNS = 64

#: The reason why a container cannot be updated, by its last reported step; "" is an unknown container.
_STALE_REASONS = {"": "the container does not exist", CREATING: "the container has not been created yet"}

_log = logging.getLogger("nri.proxy")


class Updates:
    """Applies updates that plugins request."""

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
        """Apply updates.

        Returns a result for each, and never raises. `reply` is the reply that contains the updates.
        """
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
        """Serialize updates of a container. Yields the order of the answers that have set its fields.

        Raises DeadlineExceeded if another update takes longer.
        """
        with self._lock:
            if len(self._turns) > 2 * len(self._store.containers()) + _MAX_STALE_TURNS:
                self._turns = {
                    name: entry for name, entry in self._turns.items() if self._store.named(name) is not None
                }
            turn = self._turns.setdefault(record.id, _Turn())
        if not turn.lock.acquire(timeout=-1 if deadline is None else max(deadline - monotonic(), 0.0)):
            raise DeadlineExceeded(f"another update of container {record.runtime_id}")
        try:
            yield turn.order
        finally:
            turn.lock.release()

    def _apply(
        self, update: m.ContainerUpdate, result: UpdateResult, numbers: SequenceNumbers, until: float | None
    ) -> None:
        record = self._store.named(update.container_id)
        if record is None or record.reported_step != CREATED:
            result.mark_stale(
                _STALE_REASONS.get("" if record is None else record.reported_step, "the container has ended")
            )
            return
        now = monotonic()
        if until is not None and until <= now:
            raise DeadlineExceeded(f"the update of container {record.runtime_id}")
        until = min(now + UPDATE_S, until or now + UPDATE_S)
        with self.turn(record, until) as order:
            newest = order.newest(update.linux.resources, numbers, result)
            self._send(record, newest, result, until)
            order.note(result, numbers)

    def _send(self, record: ContainerRecord, resources: m.LinuxResources, result: UpdateResult, until: float) -> None:
        converted = convert.to_cri(resources)
        sent = converted.value
        for field in zeros(resources):
            result.mark_unsupported(field, ZERO)
        for drop in converted.dropped:
            _unsupported(result, drop.field, drop.reason)
        if not sent.ListFields():
            return
        request = pb.UpdateContainerResourcesRequest(container_id=record.runtime_id, linux=sent)
        self._backend.call("UpdateContainerResources", request, timeout_s=max(until - monotonic(), 0.001))
        in_force(self._store, record, sent, resources)


class _Turn:
    """A lock for updates of a container, and the answers that have set its fields."""

    __slots__ = ("lock", "order")

    def __init__(self) -> None:
        self.order = FieldOrder()
        self.lock = threading.Lock()


def merged(before: pb.LinuxContainerResources, newer: pb.LinuxContainerResources) -> pb.LinuxContainerResources:
    """Merge newer resources over older resources. Huge page limits are merged by page size."""
    resources = pb.LinuxContainerResources()
    resources.CopyFrom(before)
    pages = {limits.page_size: limits.limit for limits in [*before.hugepage_limits, *newer.hugepage_limits]}
    resources.MergeFrom(newer)
    del resources.hugepage_limits[:]
    for size, limit in pages.items():
        resources.hugepage_limits.add(page_size=size, limit=limit)
    return resources


def in_force(
    store: Store, record: ContainerRecord, sent: pb.LinuxContainerResources, changes: m.LinuxResources
) -> None:
    """Record resources that the runtime has applied."""
    resources = merged(record.resources, sent)
    shown = m.Container()
    shown.CopyFrom(record.plugin_view)
    for part in ("cpu", "memory"):
        for field, value in getattr(changes, part).ListFields():
            target: Any = getattr(shown.linux.resources, part)
            if field.message_type is None:
                setattr(target, field.name, value)
            elif value.value:
                getattr(target, field.name).CopyFrom(value)
    shown.linux.resources.unified.update(changes.unified)
    store.note(record, resources=resources, plugin_view=shown)


def _fail(result: UpdateResult, error: NriError) -> None:
    if isinstance(error, RpcError) and error.code == _NOT_FOUND:
        result.mark_stale("the runtime does not know the container")
        return
    reason = error.message if isinstance(error, RpcError) else str(error)
    if isinstance(error, RpcError) and error.code == _LATE:
        reason = "the runtime did not answer in time, and may still apply it"
    result.mark_refused(reason)


def _unsupported(result: UpdateResult, dropped: str, reason: str) -> None:
    """Mark a dropped field as unsupported in the result's rows."""
    for row in result.fields:
        name = row.field.partition("[")[0]
        if dropped == name or dropped.startswith((f"{name}.", f"{name}[")):
            result.mark_unsupported(row.field, reason)
