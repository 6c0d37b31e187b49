"""The reply to the runtime: what it is to apply, and `commit` or `abort` when its request has ended.

`Replies` makes one of an event that has passed all plugins, and notes its effects in the live state: the created
container, updates of other containers, and what is kept for containers that are only being created. Nothing else does;
the constructors of replies store their arguments.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any

from nri.adaptation.containers.answer_order import (
    RUNTIME_REQUEST,
    EventOrder,
    FieldOrder,
    OrderedUpdates,
    no_updates,
)
from nri.adaptation.registration.kept_updates import report_left_out
from nri.api import messages as m
from nri.ttrpc.waiters import ARRIVALS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.containers.answer_order import Numbers
    from nri.adaptation.containers.inventory import Begun
    from nri.adaptation.containers.restoration import Restoration
    from nri.adaptation.containers.update_result import UpdateResult
    from nri.adaptation.dispatch.event import AnsweredEvent, CreateEvent, StopEvent, UpdateEvent
    from nri.adaptation.merge.side_updates import Ignored
    from nri.adaptation.registration.kept_updates import KeptUpdates

__all__ = ["CreateReply", "EventReply", "Replies", "StopReply", "UpdateReply"]

#: At most this many bytes of answers are kept with a container, to work out which of them its resources are from when
#: somebody asks; of larger ones it is worked out at once.
_MAX_KEPT_ANSWER_BYTES: Final = 4096


class EventReply:
    """The common part of all replies: owners, and the two ways in which the runtime's request ends.

    Attributes:
        updates: updates of other containers, for the runtime to apply, with their places in the order of answers.
        ignored: what plugins asked for and did not get, with reasons.

    If the runtime fails to create its container after it has updated others, `abort` hands the update callback what
    those had before; `commit` forgets that. Calling neither is harmless.
    """

    __slots__ = ("_container_id", "_merge", "_numbers", "_open", "_trail", "ignored", "updates")

    _event = ""

    def __init__(self, event: AnsweredEvent, trail: AuditTrail, updates: OrderedUpdates) -> None:
        merge: Any = event.merge
        self._merge = merge
        self._trail = trail
        self._container_id = event.container_id
        self._numbers = event.numbers
        self._open = bool(updates)
        self.updates = updates
        side = merge.side
        self.ignored: list[Ignored] = [] if side is None else side.ignored

    @property
    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set, of the event's container and of those updated along with it."""
        owners: m.OwningPlugins = self._merge.owners()
        return owners

    @property
    def numbers(self) -> Numbers:
        """The places of the event's own container's resources in the order of answers, for its `FieldOrder`.

        Values that only the runtime's own request has set count as older than all answers to it.
        """
        return EventOrder(self._merge.ledger, self._numbers).of(self._container_id)

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the runtime's request went well: its side updates hold.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        if self._open or results:
            self._trail.committed(self._event, self.updates, self, results)
            self._open = False

    def abort(self, restore: Callable[[list[Restoration]], object] | None = None) -> list[m.ContainerUpdate]:
        """Have the side updates undone, because the runtime's request failed.

        The update callback gets what the containers had before, or what a later answer has set since, with values for
        "not set" where kernels have one (no limit, 1024 shares). Updates that it could not apply are returned.

        Args:
            restore: called instead of the update callback: it gets the same as `Restoration`, which also names the
                fields that were not set before.
        """
        still_open, self._open = self._open, False
        return self._trail.undo(self._event, self.updates, self, restore) if still_open else []


class CreateReply(EventReply):
    """The outcome of CreateContainer.

    Attributes:
        adjust: the merged adjustment; always there, perhaps empty.
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ("_kept_updates", "_waiting", "adjust")

    _event = "CreateContainer"

    def __init__(
        self,
        event: CreateEvent,
        trail: AuditTrail,
        updates: OrderedUpdates,
        kept_updates: KeptUpdates,
        *,
        waiting: bool,
    ) -> None:
        """`waiting`: what answers want of other containers that are being created waits for `commit`."""
        super().__init__(event, trail, updates)
        self.adjust: m.ContainerAdjustment = event.merge.adjust
        self._kept_updates = kept_updates
        self._waiting = waiting

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the container is created: its side updates hold.

        The update callback gets what plugins have asked for this container while it was being created, in this call.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        super().commit(results)
        self._kept_updates.runtime_commits = True
        if self._waiting:
            self._waiting = False
            self._kept_updates.of_creation(self._container_id, self._merge.side, self._event, self._numbers)
        if not self._trail.inventory.committed(self._container_id):
            self._kept_updates.hand_over(self._container_id)

    def abort(
        self, restore: Callable[[list[Restoration]], object] | None = None, *, reason: str = ""
    ) -> list[m.ContainerUpdate]:
        """Forget the container, which could not be created, and have the side updates undone, as `EventReply.abort`.

        Args:
            restore: as there.
            reason: why it could not, in the runtime's words: `nri why` shows it next to what plugins had changed.
        """
        if self._waiting:
            self._waiting = False
            self._trail.dropped(self._event, self._merge.side.kept, self._numbers)
        self._trail.not_created(self._container_id, reason)
        return super().abort(restore)

    @property
    def evictions(self) -> list[m.ContainerEviction]:
        """Containers that plugins want gone, as messages."""
        return [
            m.ContainerEviction(container_id=each.container_id, reason=each.reason) for each in self._merge.evictions
        ]

    @property
    def container(self) -> m.Container:
        """The container with the adjustment in it, as a further plugin would be shown it. Do not change it."""
        container: m.Container = self._merge.container
        return container


class UpdateReply(EventReply):
    """The outcome of UpdateContainer.

    Attributes:
        resources: what the container is to have: the request with all changes; the request itself if there are none.
        changed: whether a plugin changed it.
        updates: updates of other containers, for the runtime to apply.
        evictions: containers that plugins want gone.
        ignored: what plugins asked for and did not get, with reasons.
        message: the reply as the reference gives it: the requested container's update is the last one.
    """

    __slots__ = ("changed", "evictions", "message", "resources")

    _event = "UpdateContainer"

    def __init__(
        self, event: UpdateEvent, trail: AuditTrail, updates: OrderedUpdates, message: m.UpdateContainerResponse
    ) -> None:
        super().__init__(event, trail, updates)
        requested = message.update[-1]
        self.message = message
        self.changed = bool(requested.container_id)
        self.resources: m.LinuxResources = requested.linux.resources if self.changed else event.requested
        self.evictions: list[m.ContainerEviction] = list(message.evict)


class StopReply(EventReply):
    """The outcome of StopContainer.

    Attributes:
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ()

    _event = "StopContainer"


class Replies:
    """Makes the replies to the runtime, and notes their effects in the live state. One object for all events.

    Args:
        trail: the existing containers, and the records.
        kept_updates: hands over updates that wait until a container is created.
        reporting: gets the updates that are left out.
    """

    __slots__ = ("_reporting", "kept_updates", "trail")

    def __init__(self, trail: AuditTrail, kept_updates: KeptUpdates, reporting: Reporting) -> None:
        self.trail, self.kept_updates, self._reporting = trail, kept_updates, reporting

    def to_creation(self, event: CreateEvent) -> CreateReply:
        """The reply to CreateContainer; from now on the container is created, unless `abort` says otherwise."""
        if event.original_request is None:
            _number_request(event)
        trail, kept_updates, side = self.trail, self.kept_updates, event.merge.side
        is_waiting, updates = False, no_updates()
        if side is not None:
            is_waiting = kept_updates.runtime_commits
            created: list[m.ContainerUpdate] = []
            if is_waiting:
                report_left_out(side, event.rpc, self._reporting)
            else:
                created = self._keep(event)
            updates = _in_order(event, [*side.updates(), *created])
        reply = CreateReply(event, trail, updates, kept_updates, waiting=is_waiting)
        if updates:
            trail.updated(updates, reply)
        container_id, pod = event.container_id, event.request.pod
        answered = reply.adjust.linux.resources.SerializeToString()
        resources, replies = event.requested_resources + answered, event.replies
        order: FieldOrder | Begun | None = None
        if answered and len(replies) == 1:  # nearly always: the plugin's number is all that is to be kept
            order = (answered, event.numbers[replies[0][0]])
        elif answered and replies:
            order = _order_of_answers(event)
        if trail.inventory.created(container_id, pod, resources, order, uncommitted=kept_updates.runtime_commits):
            kept_updates.add(container_id)
        return reply

    def to_update(self, event: UpdateEvent) -> UpdateReply:
        """The reply to UpdateContainer; the container and others that answers update are noted as being updated."""
        if event.original_request is None:
            _number_request(event)
        created = self._keep(event)
        message = event.merge.reply()
        *others, requested = message.update
        if created:
            del message.update[-1]
            message.update.extend([*created, requested])
        reply = UpdateReply(event, self.trail, _in_order(event, [*others, *created]), message)
        if reply.updates:
            self.trail.updated(reply.updates, reply)
        self.trail.inventory.updated(event.container_id, reply.resources, reply.numbers)
        return reply

    def to_stop(self, event: StopEvent) -> StopReply:
        """The reply to StopContainer; other containers that answers update are noted as being updated."""
        if event.original_request is None:
            _number_request(event)
        created = self._keep(event)
        reply = StopReply(event, self.trail, _in_order(event, [*event.merge.reply().update, *created]))
        if reply.updates:
            self.trail.updated(reply.updates, reply)
        return reply

    def _keep(self, event: AnsweredEvent) -> list[m.ContainerUpdate]:
        """Keep what answers want of containers that are only being created; returns updates of those created since."""
        return self.kept_updates.of_event(event.merge.side, event.rpc, event.numbers, self._reporting)


def _number_request(event: AnsweredEvent) -> None:
    """Give the runtime's request its place in the order of answers, if nobody has answered it."""
    event.numbers[RUNTIME_REQUEST] = next(ARRIVALS)


def _in_order(event: AnsweredEvent, updates: list[m.ContainerUpdate]) -> OrderedUpdates:
    """Updates that an event asks for, with their places in the order of answers."""
    if not updates:
        return no_updates()
    order = EventOrder(event.merge.ledger, event.numbers)
    return OrderedUpdates(updates, None, order.by_container(update.container_id for update in updates))


def _order_of_answers(event: CreateEvent) -> FieldOrder | bytes:
    """Which of several answers a creation's resources are from."""
    answers = [(reply, event.numbers[label]) for label, reply in event.replies]
    is_small = sum(len(reply) for reply, _ in answers) <= _MAX_KEPT_ANSWER_BYTES
    return marshal.dumps(answers) if is_small else FieldOrder.of_creation(answers)
