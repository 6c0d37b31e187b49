"""The reply to the runtime: what the runtime has to apply, and `commit` or `abort` when its request has ended.

Only `Replies` applies the effects of an event to the live state: the created container, updates of other containers,
and updates that are deferred until a container is created. The constructors of replies only store their arguments.
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
from nri.adaptation.registration.deferred_updates import report_left_out
from nri.api import messages as m
from nri.ttrpc.waiters import ARRIVALS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.containers.answer_order import SequenceNumbers
    from nri.adaptation.containers.inventory import CreationAnswers
    from nri.adaptation.containers.restoration import Restoration
    from nri.adaptation.containers.update_result import UpdateResult
    from nri.adaptation.dispatch.event import AnsweredEvent, CreateEvent, StopEvent, UpdateEvent
    from nri.adaptation.merge.side_updates import IgnoredRequest
    from nri.adaptation.registration.deferred_updates import DeferredUpdates

#: A container keeps at most this many bytes of answers, from which the order of its fields is computed on demand.
#: For larger answers the order is computed at once.
_MAX_KEPT_ANSWER_BYTES: Final = 4096


class EventReply:
    """The common base of all replies: owners, `commit` and `abort`.

    Attributes:
        updates: updates of other containers, for the runtime to apply, with their sequence numbers.
        ignored: requests of plugins that were ignored, with reasons.

    If the runtime fails to create its container after it has updated other containers, `abort` gives the update
    callback the resources that those containers had before; `commit` forgets them. Calling neither is harmless.
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
        self.ignored: list[IgnoredRequest] = [] if side is None else side.ignored

    @property
    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set, in the event's container and in updated containers."""
        owners: m.OwningPlugins = self._merge.owners()
        return owners

    @property
    def numbers(self) -> SequenceNumbers:
        """The sequence numbers of the event's own container's resources, for its `FieldOrder`.

        Values from the runtime's own request count as older than all answers to the request.
        """
        return EventOrder(self._merge.ledger, self._numbers).container_numbers(self._container_id)

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Confirm that the runtime's request succeeded: its side updates are final.

        Args:
            results: the results of the updates, for later questions (`nri why`). An update without a result was
                applied.
        """
        if self._open or results:
            self._trail.committed(self._event, self.updates, self, results)
            self._open = False

    def abort(self, restore: Callable[[list[Restoration]], object] | None = None) -> list[m.ContainerUpdate]:
        """Undo the side updates, because the runtime's request failed.

        The update callback gets the resources that the containers had before, or that a later answer has set since,
        with the kernel's values for "not set" (no limit, 1024 shares). Returns the updates that the callback could not
        apply.

        Args:
            restore: called instead of the update callback with a list of `Restoration`, which also name fields that
                were not set before.
        """
        still_open, self._open = self._open, False
        return self._trail.undo(self._event, self.updates, self, restore) if still_open else []


class CreateReply(EventReply):
    """The outcome of CreateContainer.

    Attributes:
        adjust: the merged adjustment; always present, perhaps empty.
        updates: updates of other containers, for the runtime to apply.
        ignored: requests of plugins that were ignored, with reasons.
    """

    __slots__ = ("_answering_peers", "_deferred_updates", "_waiting", "adjust")

    _event = "CreateContainer"

    def __init__(
        self,
        event: CreateEvent,
        trail: AuditTrail,
        updates: OrderedUpdates,
        deferred_updates: DeferredUpdates,
        *,
        waiting: bool,
    ) -> None:
        """With `waiting`, updates of other containers that are being created wait for `commit`."""
        super().__init__(event, trail, updates)
        self.adjust: m.ContainerAdjustment = event.merge.adjust
        self._answering_peers = event.answering_peers
        self._deferred_updates = deferred_updates
        self._waiting = waiting

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Confirm that the container is created: its side updates are final.

        This call gives the update callback the updates that plugins requested while the container was being created.

        Args:
            results: the results of the updates, for later questions (`nri why`). An update without a result was
                applied.
        """
        super().commit(results)
        self._deferred_updates.runtime_commits = True
        if self._waiting:
            self._waiting = False
            self._deferred_updates.defer_for_creation(self._container_id, self._merge.side, self._event, self._numbers)
        if not self._trail.inventory.committed(self._container_id):
            self._deferred_updates.hand_over(self._container_id)

    def abort(
        self, restore: Callable[[list[Restoration]], object] | None = None, *, reason: str = ""
    ) -> list[m.ContainerUpdate]:
        """Forget the container, which could not be created, and undo the side updates, as `EventReply.abort` does.

        Args:
            restore: see `EventReply.abort`.
            reason: the runtime's error text; `nri why` shows it next to the changes of plugins.
        """
        if self._waiting:
            self._waiting = False
            self._trail.dropped(self._event, self._merge.side.deferred, self._numbers)
        self._trail.not_created(self._container_id, reason)
        return super().abort(restore)

    @property
    def plugins(self) -> tuple[str, ...]:
        """The plugins that answered, as NN-name, also those that changed nothing."""
        return tuple(peer.label for peer in self._answering_peers)

    @property
    def evictions(self) -> list[m.ContainerEviction]:
        """The evictions that plugins request, as messages."""
        return [
            m.ContainerEviction(container_id=eviction.container_id, reason=eviction.reason)
            for eviction in self._merge.evictions
        ]

    @property
    def container(self) -> m.Container:
        """The adjusted container, as a further plugin would see it. Do not change it."""
        container: m.Container = self._merge.container
        return container


class UpdateReply(EventReply):
    """The outcome of UpdateContainer.

    Attributes:
        resources: the requested resources with all changes of plugins.
        changed: whether a plugin changed the resources.
        updates: updates of other containers, for the runtime to apply.
        evictions: the evictions that plugins request.
        ignored: requests of plugins that were ignored, with reasons.
        message: the reply in the Go library's form, in which the requested container's update is the last.
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
        ignored: requests of plugins that were ignored, with reasons.
    """

    __slots__ = ()

    _event = "StopContainer"


class Replies:
    """Creates the replies to the runtime, and applies their effects to the live state. One object for all events.

    Args:
        trail: the existing containers, and the records.
        deferred_updates: hands over updates that wait until a container is created.
        reporting: gets the ignored updates.
    """

    __slots__ = ("_reporting", "deferred_updates", "trail")

    def __init__(self, trail: AuditTrail, deferred_updates: DeferredUpdates, reporting: Reporting) -> None:
        self.trail, self.deferred_updates, self._reporting = trail, deferred_updates, reporting

    def to_creation(self, event: CreateEvent) -> CreateReply:
        """Create the reply to CreateContainer. The container counts as created until `abort`."""
        if event.original_request is None:
            _number_request(event)
        trail, deferred_updates, side = self.trail, self.deferred_updates, event.merge.side
        is_waiting, updates = False, no_updates()
        if side is not None:
            is_waiting = deferred_updates.runtime_commits
            created: list[m.ContainerUpdate] = []
            if is_waiting:
                report_left_out(side, event.rpc, self._reporting)
            else:
                created = self._defer_updates(event)
            updates = _ordered_updates(event, [*side.updates(), *created])
        reply = CreateReply(event, trail, updates, deferred_updates, waiting=is_waiting)
        if updates:
            trail.updated(updates, reply)
        container_id, pod = event.container_id, event.request.pod
        answered = reply.adjust.linux.resources.SerializeToString()
        resources, replies = event.requested_resources + answered, event.replies
        order: FieldOrder | CreationAnswers | None = None
        if answered and len(replies) == 1:  # the usual case: only the plugin's number is required
            order = (answered, event.numbers[replies[0][0]])
        elif answered and replies:
            order = _order_of_answers(event)
        if trail.inventory.created(container_id, pod, resources, order, uncommitted=deferred_updates.runtime_commits):
            deferred_updates.add(container_id)
        return reply

    def to_update(self, event: UpdateEvent) -> UpdateReply:
        """Create the reply to UpdateContainer, and record the updated containers."""
        if event.original_request is None:
            _number_request(event)
        created = self._defer_updates(event)
        message = event.merge.reply()
        *side_updates, requested = message.update
        if created:
            del message.update[-1]
            message.update.extend([*created, requested])
        reply = UpdateReply(event, self.trail, _ordered_updates(event, [*side_updates, *created]), message)
        if reply.updates:
            self.trail.updated(reply.updates, reply)
        self.trail.inventory.updated(event.container_id, reply.resources, reply.numbers)
        return reply

    def to_stop(self, event: StopEvent) -> StopReply:
        """Create the reply to StopContainer, and record the updated containers."""
        if event.original_request is None:
            _number_request(event)
        created = self._defer_updates(event)
        reply = StopReply(event, self.trail, _ordered_updates(event, [*event.merge.reply().update, *created]))
        if reply.updates:
            self.trail.updated(reply.updates, reply)
        return reply

    def _defer_updates(self, event: AnsweredEvent) -> list[m.ContainerUpdate]:
        """Defer updates of containers that are being created. Returns the updates of containers that exist by now."""
        return self.deferred_updates.defer_for_event(event.merge.side, event.rpc, event.numbers, self._reporting)


def _number_request(event: AnsweredEvent) -> None:
    """Give the runtime's request a sequence number if no plugin answered it."""
    event.numbers[RUNTIME_REQUEST] = next(ARRIVALS)


def _ordered_updates(event: AnsweredEvent, updates: list[m.ContainerUpdate]) -> OrderedUpdates:
    """An event's updates with their sequence numbers."""
    if not updates:
        return no_updates()
    order = EventOrder(event.merge.ledger, event.numbers)
    return OrderedUpdates(updates, None, order.by_container(update.container_id for update in updates))


def _order_of_answers(event: CreateEvent) -> FieldOrder | bytes:
    """The answers that set a creation's resources, with their sequence numbers."""
    answers = [(reply, event.numbers[label]) for label, reply in event.replies]
    is_small = sum(len(reply) for reply, _ in answers) <= _MAX_KEPT_ANSWER_BYTES
    return marshal.dumps(answers) if is_small else FieldOrder.of_creation(answers)
