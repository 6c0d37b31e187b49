"""One event on its way through the plugins: what each is asked, what becomes of the answers, and the reply in the end.

`Event` is only passed on: answers to it say nothing. The answers to an `AnsweredEvent` are merged; its three kinds are
`CreateEvent`, `UpdateEvent` and `StopEvent`. `nri.adaptation.dispatch.dispatcher` takes an event around, in one thread
at a time: `request_bytes` for the next plugin, `add` of each answer, and in the end its `result`, which is an
`EventReply` to the runtime.

An answer has bounds: its size, the room that it leaves for the next request, how much of it is recorded. The plugin
that asks for too much is the one that fails, by name.

Next: `nri.adaptation.merge.create` and `nri.adaptation.merge.update`, which say what answers mean together.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nri.adaptation.audit import shadow
from nri.adaptation.audit.record import SILENT
from nri.adaptation.audit.reporting import SERIALS, adjustment_of, evictions_of
from nri.adaptation.containers.answer_order import EventOrder, FieldOrder, OrderedUpdates, no_updates
from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge, limits
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.merge.side_updates import NO_CONTAINER, NOT_IN_UPDATES, UNKNOWN_CONTAINER
from nri.adaptation.peers.event_request import CreateRequest, EventRequest, UpdateRequest
from nri.adaptation.peers.synchronize import ENVELOPE
from nri.adaptation.plugin_policy import allow
from nri.adaptation.registration.kept_updates import report_left_out
from nri.adaptation.time_budget import SilenceBudget
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import NriError, PluginError
from nri.text import count, cut, quote
from nri.ttrpc.codes import Code
from nri.ttrpc.frames import MAX_DATA
from nri.ttrpc.waiters import ARRIVALS
from nri.wire import sole_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.containers.answer_order import Numbers
    from nri.adaptation.containers.inventory import Begun
    from nri.adaptation.containers.restoration import Restoration
    from nri.adaptation.containers.update_result import UpdateResult
    from nri.adaptation.merge.side_updates import Ignored
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import EventPolicy
    from nri.adaptation.registration.kept_updates import KeptUpdates
    from nri.rules import Rules

__all__ = [
    "AnsweredEvent",
    "CreateEvent",
    "CreateReply",
    "Event",
    "EventContext",
    "EventReply",
    "StopEvent",
    "StopReply",
    "UpdateEvent",
    "UpdateReply",
]

#: Bytes that the request to a plugin may have.
ROOM: Final = MAX_DATA - ENVELOPE
#: The most that headers of fields add to a request for one answer, in bytes.
HEADERS: Final = 64
#: Updates left out that the record of an event names.
_NAMED: Final = 20

#: So many bytes of answers are kept with a container, to work out which of them its resources are from when that is
#: asked for; of larger ones it is worked out at once.
_KEPT: Final = 4096

_CREATE: Final = BY_METHOD["create_container"]
_UPDATE: Final = BY_METHOD["update_container"]
_STOP: Final = BY_METHOD["stop_container"]


class Event:
    """An event that plugins hear of, and whose answers say nothing.

    Attributes:
        request: what the plugins are asked.
        rpc, number: the event's name, `StartContainer`, and number.
        serial: counts the events of this process, for reports.
        answer: number of the last answer (`Peer.answer`), taken while its plugin was held.
        told: reporters know that it has begun.
        silence: how much longer it may wait for plugins that do not answer; None: it has waited for none.
    """

    __slots__ = ("answer", "number", "request", "rpc", "serial", "silence", "told")

    def __init__(self, request: EventRequest) -> None:
        spec = request.spec
        self.request = request
        self.rpc = spec.rpc
        self.number = spec.number
        self.serial = next(SERIALS)
        self.answer = 0
        self.told = False
        self.silence: SilenceBudget | None = None

    def request_bytes(self) -> bytes:
        """The request as the next plugin gets it, encoded."""
        return self.request.encoded()

    def start_waiting(self, peer: Peer) -> None:
        """Note that the event starts to wait for a plugin, in its queue or for its answer."""
        silence = self.silence
        if silence is None:
            silence = self.silence = SilenceBudget()
        silence.start_waiting(peer, peer.breaker.silence_s)

    def tell_begin(self, reporting: Reporting) -> None:
        """Tell reporters, once, that the event has begun, before anything else of it."""
        if not self.told:
            self.told = True
            reporting.event_begins(self.rpc, self.serial, self.request.encoded())

    def tell_asked(self, peer: Peer, reporting: Reporting) -> None:
        """Tell reporters that a plugin is asked now."""
        self.tell_begin(reporting)
        reporting.plugin_asked(peer.label, self.rpc, self.serial, self.request.encoded())

    def overlap(self) -> None:
        """Do the bookkeeping that overlaps the first plugin's work, so that it costs the event no time."""

    def weigh(self, peer: Peer, policy: EventPolicy, reply: bytes) -> bytes | None:  # noqa: ARG002 - see below
        """Hold a big answer to the limits, while the plugin is held. Returns the answer to add; None for none."""
        return reply

    def add(self, peer: Peer, policy: EventPolicy, reply: bytes) -> None:
        """Take one plugin's answer. PluginError, ConflictError or UpdateError: the event fails because of it."""

    def silent(self, plugin: str, reason: str) -> None:
        """Note that the event goes on without a plugin, which gave no answer."""

    def record(self, failed: str = "") -> None:
        """Keep a record of the event, which is over; `failed` says why, if it failed."""

    def result_bytes(self) -> bytes:
        """The result as the reply message of the event, encoded, for reports; empty for an event without one."""
        return b""


class EventContext:
    """The parts that an event with an answer needs beside its request; one object for all events of a runtime.

    Attributes:
        rules: where to differ from the reference.
        trail: records, and the containers that there are.
        reporting: those who hear of its steps.
        kept: hands over updates that wait until a container is created.
    """

    __slots__ = ("kept", "reporting", "rules", "trail")  # compiled, a NamedTuple needs its types at run time

    def __init__(self, rules: Rules, trail: AuditTrail, reporting: Reporting, kept: KeptUpdates) -> None:
        self.rules, self.trail, self.reporting, self.kept = rules, trail, reporting, kept


class Parts(NamedTuple):
    """A request's messages side by side, as the merge reads them: one message would copy them."""

    pod: Any
    container: Any
    linux_resources: Any = None


class AnsweredEvent(Event):
    """An event whose answers are merged into one result. Abstract: see its three kinds.

    Attributes:
        merge: what the answers mean together; its kind is that of the event.
        answered: the plugins that answered.
        asked: the request's bytes as the runtime made it; None as long as no plugin has answered.
        replies: name and bytes of every answer that says something.
        touched: ids of the containers that the answers update.
        absent: the event's container, and each plugin that gave no answer, with the reason, as provenance has outcomes.
        numbers: of the answers that say something, by the plugin's label, and of the first one by "".
        reply_type: the reply message of the event.
    """

    __slots__ = ("_context", "_room", "absent", "answered", "asked", "merge", "numbers", "replies", "touched")

    reply_type: ClassVar[Any] = None

    def __init__(self, request: EventRequest, merge: Any, context: EventContext) -> None:
        super().__init__(request)
        self.merge = merge
        self._context = context
        self._room = 0
        self.answered: list[Peer] = []
        self.asked: bytes | None = None
        self.replies: list[tuple[str, bytes]] = []
        self.touched: set[str] = set()
        self.absent: tuple[tuple[str, str, str, str], ...] = ()
        self.numbers: dict[str, int] = {}

    def add(self, peer: Peer, policy: EventPolicy, reply: bytes) -> None:
        """Take one plugin's answer: read it, hold it to the operator's policy, merge it, show it to the next plugin.

        PluginError, ConflictError or UpdateError: the event fails because of it, and nothing of it was merged.
        """
        request = self.request
        if self.asked is None:
            self.numbers[""] = self.answer
            self.asked = request.encoded()
            self._room = ROOM - len(self.asked)
        self.answered.append(peer)
        if not reply:
            return
        operator = policy.policy
        if operator.shadow:
            self._describe(peer, reply)
            return
        adjust = self._sole_adjustment(reply) if operator.allow is None else None
        message = self._read(peer, reply, adjust)
        label = peer.label
        self.replies.append((label, reply))
        self.numbers[label] = self.answer
        if adjust is None and message.update:
            self.touched.update([update.container_id for update in self._there(message.update)])
        reporting = self._context.reporting
        try:
            if adjust is not None:
                self.merge.adjusted(label, message, adjust)
            else:
                if operator.allow is not None:
                    self._check(peer, operator.allow, message)
                self.merge.apply(label, message)
            request.refresh()
            # A request grows by no more than the reply has: so it is looked at only where it may be too long.
            self._room -= len(reply) + HEADERS
            if self._room < 0 and self._context.rules.event_replies_limited:
                leave_room(self.rpc, label, self.asked, request.encoded())
        except NriError as error:
            peer.last_error = str(error)
            if reporting.watched:
                reporting.reply_merged(label, self.rpc, self.serial, message, error)
            raise
        if reporting.watched:
            reporting.reply_merged(label, self.rpc, self.serial, message, None)

    def weigh(self, peer: Peer, policy: EventPolicy, reply: bytes) -> bytes | None:
        """Hold a big answer to the limits, while the plugin is held. Returns the answer to add; None for none.

        PluginError: it is more than a plugin may ask for, and the event fails because of it.
        """
        if not self._context.rules.event_replies_limited:
            return reply
        return weighed(self.request, self.serial, self.reply_type, self._context.reporting, peer, policy, reply)

    def _sole_adjustment(self, reply: bytes) -> bytes | None:  # noqa: ARG002 - CreateContainer alone has any
        """The adjustment, encoded, of an answer that has nothing else, as nearly all; else None."""
        return None

    def _read(self, peer: Peer, reply: bytes, adjust: bytes | None) -> Any:
        """The adjustment as a message if it is all that there is, else the whole answer."""
        try:
            return self.reply_type.FromString(reply) if adjust is None else m.ContainerAdjustment.FromString(adjust)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise PluginError(peer.label, f"its reply cannot be read: {error}") from None

    def _check(self, peer: Peer, allowed: allow.Allow, message: Any) -> None:
        """Raise PluginError if an answer touches what the operator does not allow."""
        breach = allow.breach(
            allowed,
            peer.label,
            self.request.pod.namespace,
            self.number,
            reply=message,
            adjust=adjustment_of(message),
            update=self._there(message.update),
            evict=self._there(evictions_of(message)),
            namespace_of=self._context.trail.inventory.known.namespace_of,
        )
        try:
            if breach is not None:
                raise breach
        finally:
            del breach  # it has this frame, with the reply: they would keep each other

    def _there(self, asked: Iterable[Any]) -> list[Any]:
        """Those updates or evictions that are not left out anyway, because their container is not there."""
        if not self._context.rules.absent_containers_left_out:
            return list(asked)
        known = self._context.trail.inventory.known
        return [each for each in asked if known.is_creating(each.container_id) or each.container_id in known]

    def _describe(self, peer: Peer, reply: bytes) -> None:
        """Report what a shadow plugin's answer would have done, which is all that it does."""
        report = shadow.of_reply(
            peer.label, self.rpc, self.request.pod, self.request.container_seen(), reply, self.reply_type,
            self.merge.ledger, self._context.trail.inventory.resources_of,
        )  # fmt: skip
        self._context.reporting.shadow_answered(report)

    def silent(self, plugin: str, reason: str) -> None:
        """Note that the event goes on without a plugin, for its container's history."""
        container = self.request.container
        if container is not None:
            self.absent += ((container.id, plugin, SILENT, reason),)

    def record(self, failed: str = "") -> None:
        """Keep a record of request and answers for provenance, also where no plugin was asked."""
        provenance = self._context.trail.provenance
        if provenance is None:
            return
        request = self.request
        container = request.container
        container_id = "" if container is None else container.id
        side = self.merge.side
        outcomes: Any = () if side is None or not side.ignored else left_out(container_id, side.ignored)
        if self.absent:
            outcomes = (*outcomes, *self.absent)
        asked = self.asked
        if asked is None:
            asked = request.encoded()
        provenance.record(self.rpc, container_id, asked, self.replies, self.touched, failed, outcomes, self.numbers)

    def granted(self) -> list[Peer]:
        """The plugins whose answers say something."""
        labels = {label for label, _ in self.replies}
        return [peer for peer in self.answered if peer.label in labels]

    def side_updates(self) -> list[m.ContainerUpdate]:
        """Keep what answers want of containers that are only being created; returns updates of those created since."""
        context = self._context
        return context.kept.of_event(self.merge.side, self.rpc, self.numbers, context.reporting)

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.reply().SerializeToString()
        return encoded


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

    def __init__(
        self,
        merge: Any,
        trail: AuditTrail,
        container_id: str,
        updates: list[m.ContainerUpdate],
        ignored: list[Ignored],
        numbers: dict[str, int],
    ) -> None:
        self._merge = merge
        self._trail = trail
        self._container_id = container_id
        self._numbers = numbers
        if "" not in numbers:  # what the runtime asks for has its place as well
            numbers[""] = next(ARRIVALS)
        self.ignored = ignored
        self._open = False
        if updates:
            self._open = True
            by_container = self._order().by_container(update.container_id for update in updates)
            self.updates = OrderedUpdates(updates, None, by_container)
            trail.updated(self.updates, self)
        else:
            self.updates = no_updates()

    def _order(self) -> EventOrder:
        """The order of the fields that the answers have set; worked out where it is asked for, as it seldom is."""
        return EventOrder(self._merge.ledger, self._numbers)

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
        return self._order().of(self._container_id)

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

    __slots__ = ("_kept", "_waiting", "adjust")

    _event = "CreateContainer"

    def __init__(
        self,
        merge: CreateMerge,
        context: EventContext,
        adjust: m.ContainerAdjustment,
        container_id: str,
        created: list[m.ContainerUpdate] | None,
        numbers: dict[str, int],
    ) -> None:
        """`created`: updates of what was created meanwhile; None: what was being created waits for `commit`."""
        self.adjust = adjust
        self._kept = context.kept
        self._waiting = created is None
        side = merge.side
        if side is None:
            super().__init__(merge, context.trail, container_id, [], [], numbers)
        else:
            super().__init__(
                merge, context.trail, container_id, [*side.updates(), *(created or ())], side.ignored, numbers
            )

    def commit(self, results: Sequence[UpdateResult] = ()) -> None:
        """Say that the container is created: its side updates hold.

        The update callback gets what plugins have asked for this container while it was being created, in this call.

        Args:
            results: what became of the updates, for those who ask later (`nri why`); what is not named was applied.
        """
        super().commit(results)
        self._kept.runtime_commits = True
        if self._waiting:
            self._waiting = False
            self._kept.of_creation(self._container_id, self._merge.side, self._event, self._numbers)
        if not self._trail.inventory.committed(self._container_id):
            self._kept.hand_over(self._container_id)

    def abort(
        self, restore: Callable[[list[Restoration]], object] | None = None, *, reason: str = ""
    ) -> list[m.ContainerUpdate]:
        """Forget the container, which could not be created, and have the side updates undone, as `EventReply.abort`.

        Args:
            restore: as there.
            reason: why it could not, in the runtime's words: `nri why` tells it beside what plugins had changed.
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


class CreateEvent(AnsweredEvent):
    """One container that is about to be created."""

    __slots__ = ("_container", "_pod", "_resources")

    reply_type: ClassVar[Any] = m.CreateContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, context: EventContext) -> None:
        merge = CreateMerge(Parts(pod, container), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(CreateRequest(_CREATE, pod, container, merge), merge, context)
        self._pod, self._container = pod, container
        self._resources: bytes | None = None
        context.trail.inventory.creating(container.id, pod.namespace)

    def _sole_adjustment(self, reply: bytes) -> bytes | None:
        return sole_field(reply, 1)

    def refused(self) -> None:
        """Forget the container, whose creation has failed."""
        self._context.trail.inventory.not_created(self._container.id)

    def overlap(self) -> None:
        """Encode what the container had before, and sort earlier records: in the time that a plugin needs anyway."""
        if self._resources is None:
            self._resources = self._container.linux.resources.SerializeToString()
            provenance = self._context.trail.provenance
            if provenance is not None:
                provenance.tidy()

    def validation_request(self, present: Iterable[Peer], *, sent: bool) -> bytes:
        """The request that all validators get: the container as it was, the merged result, and who set what.

        PluginError, with the name of the plugin that asked for most, if it is to be sent and too long for a message.
        """
        reply = self.merge.reply()
        if self._context.rules.hooks_only_when_set and not reply.adjust.hooks.ListFields():
            reply.adjust.ClearField("hooks")
        message = m.ValidateContainerAdjustmentRequest(
            pod=self._pod,
            container=self._container,
            adjust=reply.adjust,
            update=reply.update,
            owners=self.merge.owners(),
            plugins=[m.PluginInstance(name=peer.name, index=peer.index) for peer in present],
        )
        normalise(message.container)
        encoded: bytes = message.SerializeToString()
        if sent and len(encoded) > ROOM and self._context.rules.event_replies_limited and self.replies:
            largest = max(self.replies, key=lambda reply: len(reply[1]))[0]
            reason = f"its reply to {self.rpc} makes the request to validators {len(encoded)} bytes long"
            raise PluginError(largest, f"{reason}, at most {ROOM} are sent", code=Code.RESOURCE_EXHAUSTED)
        return encoded

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.encoded_reply(self.replies)
        return encoded

    def result(self) -> CreateReply:
        """The merged adjustment, updates of other containers, and evictions."""
        resources = self._resources
        if resources is None:
            resources = self._container.linux.resources.SerializeToString()
        adjust = self.merge.adjust
        mine = adjust.linux.resources.SerializeToString()
        resources += mine
        context, container_id, numbers, replies = self._context, self._container.id, self.numbers, self.replies
        kept, side = context.kept, self.merge.side
        created: list[m.ContainerUpdate] | None = []
        if side is not None and kept.runtime_commits:
            report_left_out(side, self.rpc, context.reporting)
            created = None
        elif side is not None:
            created = self.side_updates()
        reply = CreateReply(self.merge, context, adjust, container_id, created, numbers)
        begun: FieldOrder | Begun | None = None
        if mine and len(replies) == 1:  # one plugin's nearly always: its number is all that is to be kept
            begun = (mine, numbers[replies[0][0]])
        elif mine and replies:
            answers = [(reply, numbers[label]) for label, reply in replies]
            small = sum(len(reply) for reply, _ in answers) <= _KEPT
            begun = marshal.dumps(answers) if small else FieldOrder.of_creation(answers)
        if context.trail.inventory.created(container_id, self._pod, resources, begun, uncommitted=kept.runtime_commits):
            kept.add(container_id)
        return reply


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
        self,
        merge: UpdateMerge,
        trail: AuditTrail,
        container_id: str,
        requested: m.LinuxResources,
        created: list[m.ContainerUpdate],
        numbers: dict[str, int],
    ) -> None:
        reply = merge.reply()
        *others, mine = reply.update
        self.changed = bool(mine.container_id)
        self.resources: m.LinuxResources = mine.linux.resources if self.changed else requested
        if created:
            del reply.update[-1]
            reply.update.extend([*created, mine])
        super().__init__(merge, trail, container_id, [*others, *created], merge.side.ignored, numbers)
        trail.inventory.updated(container_id, self.resources, self.numbers)
        self.evictions: list[m.ContainerEviction] = list(reply.evict)
        self.message = reply


class UpdateEvent(AnsweredEvent):
    """One container whose resources are about to change."""

    __slots__ = ("_container_id", "_requested")

    reply_type: ClassVar[Any] = m.UpdateContainerResponse

    def __init__(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        resources: m.LinuxResources,
        context: EventContext,
    ) -> None:
        merge = UpdateMerge(Parts(pod, container, resources), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(UpdateRequest(_UPDATE, pod, container, merge), merge, context)
        self._container_id = container.id
        self._requested = resources

    def result(self) -> UpdateReply:
        """The resources that the container is to have, updates of other containers, and evictions."""
        created = self.side_updates()
        trail = self._context.trail
        return UpdateReply(self.merge, trail, self._container_id, self._requested, created, self.numbers)


class StopReply(EventReply):
    """The outcome of StopContainer.

    Attributes:
        updates: updates of other containers, for the runtime to apply.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ()

    _event = "StopContainer"

    def __init__(
        self,
        merge: StopMerge,
        trail: AuditTrail,
        container_id: str,
        created: list[m.ContainerUpdate],
        numbers: dict[str, int],
    ) -> None:
        super().__init__(merge, trail, container_id, [*merge.reply().update, *created], merge.side.ignored, numbers)


class StopEvent(AnsweredEvent):
    """One container that has stopped, or is about to."""

    __slots__ = ("_container_id",)

    reply_type: ClassVar[Any] = m.StopContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, context: EventContext) -> None:
        merge = StopMerge(Parts(pod, container), context.rules, context.trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(EventRequest(_STOP, pod, container), merge, context)
        self._container_id = container.id

    def record(self, failed: str = "") -> None:
        """Keep a record, unless no plugin was asked: the stop itself changes nothing."""
        if self.asked is not None:
            super().record(failed)

    def result(self) -> StopReply:
        """Updates of other containers."""
        created = self.side_updates()
        return StopReply(self.merge, self._context.trail, self._container_id, created, self.numbers)


def too_much(kind: Any, rpc: str, plugin: str, reply: bytes) -> PluginError | None:
    """The error if an encoded answer is more than a plugin may ask for in an event; None if it is not."""
    reason = limits.too_much(kind, reply, limits.MOST_ENTRIES, limits.MOST_BYTES)
    return PluginError(plugin, f"its reply to {rpc} {reason}", code=Code.RESOURCE_EXHAUSTED) if reason else None


def weighed(
    request: EventRequest, serial: int, kind: Any, reporting: Reporting, peer: Peer, policy: EventPolicy, reply: bytes
) -> bytes | None:
    """Hold an answer of a kind to the limits; returns it, or None for a shadow's. PluginError: it is too much."""
    rpc = request.spec.rpc
    error = too_much(kind, rpc, peer.label, reply)
    if error is None:
        return reply
    peer.last_error = str(error)
    if policy.policy.shadow:
        reporting.shadow_answered(shadow.failure(peer.label, rpc, request.pod, error.reason))
        return None
    if reporting.watched:
        reporting.reply_merged(peer.label, rpc, serial, None, error)
    try:
        raise error
    finally:
        del error  # it has this frame, with the reply: they would keep each other


def leave_room(rpc: str, plugin: str, asked: bytes, request: bytes) -> None:
    """Raise PluginError if the next request, with the answer of this plugin in it, is more than a message takes.

    Args:
        asked: the request as the runtime made it: what that has too much is no plugin's fault.
        request: the next request.
    """
    if len(request) > ROOM and len(request) > len(asked):
        reason = f"its reply to {rpc} makes the next request {len(request)} bytes long, at most {ROOM} are sent"
        raise PluginError(plugin, reason, code=Code.RESOURCE_EXHAUSTED)


def left_out(container_id: str, ignored: Sequence[Ignored]) -> list[tuple[str, str, str, str]]:
    """The updates and fields that were left out, as outcomes: the first ones by name, all others by their number.

    An update of a container that is not there is reported in the record of the event's own container.
    """
    rows = []
    for one in ignored:
        if one.reason in (NO_CONTAINER, UNKNOWN_CONTAINER):
            what = f"update of container {quote(cut(one.container_id, 128))} by {one.plugin}"
            rows.append((container_id, what, "left out", one.reason))
        elif one.reason == NOT_IN_UPDATES:
            rows.append((one.container_id, f"{one.field} of an update by {one.plugin}", "left out", one.reason))
    if len(rows) > _NAMED:
        more = count(len(rows) - _NAMED, "more update")
        rows[_NAMED:] = [(container_id, more, "left out", "as those before them")]
    return rows
