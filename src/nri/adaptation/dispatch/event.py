"""One event on its way through the plugins: what each is asked, and what becomes of the answers.

`Event` is only passed on: answers to it say nothing. The answers to an `AnsweredEvent` are merged; its three kinds,
CreateContainer, UpdateContainer and StopContainer, have a module each. `nri.adaptation.dispatch.dispatcher` takes an
event around, in one thread at a time: `request_bytes` for the next plugin, `add` of each answer, and in the end its
`result`, which is an `EventReply` (`event_reply`) to the runtime. Next: `nri.adaptation.dispatch.create_event`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nri.adaptation.audit import shadow
from nri.adaptation.audit.answer_order import EventOrder
from nri.adaptation.audit.reporting import SERIALS, adjustment_of, evictions_of
from nri.adaptation.dispatch.bounds import HEADERS, ROOM, leave_room, left_out, weighed
from nri.adaptation.plugin_policy import allow
from nri.errors import NriError, PluginError
from nri.ttrpc.waiters import ARRIVALS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.peers.event_request import EventRequest
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import EventPolicy
    from nri.adaptation.registration.kept_updates import KeptUpdates
    from nri.api import messages as m
    from nri.rules import Rules

__all__ = ["AnsweredEvent", "Event", "EventContext", "Parts"]


class Event:
    """An event that plugins are told of, and whose answers say nothing.

    Attributes:
        request: what the plugins are asked.
        rpc, number: the event's name, `StartContainer`, and number.
        serial: counts the events of this process, for reports.
        answer: number of the last answer (`Peer.answer`), taken while its plugin was held.
        told: reporters know that it has begun.
        silence: by plugin that it waited for, what that had cost before: `nri.adaptation.dispatch.silence`.
    """

    __slots__ = ("_copy", "answer", "number", "request", "rpc", "serial", "silence", "told")

    def __init__(self, request: EventRequest) -> None:
        spec = request.spec
        self.request = request
        self.rpc = spec.rpc
        self.number = spec.number
        self.serial = next(SERIALS)
        self.answer = 0
        self.told = False
        self.silence: dict[Peer, float] | None = None
        self._copy: bytes | None = None

    def request_bytes(self) -> bytes:
        """The request as the next plugin gets it, encoded."""
        return self.request.encoded()

    def tell_begin(self, reporting: Reporting) -> None:
        """Tell reporters, once, that the event has begun, before it is told of anything else."""
        if not self.told:
            self.told = True
            reporting.event_begins(self.rpc, self.serial, self.told_bytes())

    def tell_asked(self, peer: Peer, reporting: Reporting) -> None:
        """Tell reporters that a plugin is asked now."""
        self.tell_begin(reporting)
        reporting.plugin_asked(peer.label, self.rpc, self.serial, self.told_bytes())

    def told_bytes(self) -> bytes:
        """The request as the next plugin gets it, for reporters: a copy, made while the first plugin is at work.

        Where a reporter keeps the request itself, the next event's is written to memory that no cache has: 6 KiB cost
        1.5 us before it is sent.
        """
        if self._copy is None:
            self._copy = bytes(memoryview(self.request.encoded()))
        return self._copy

    def overlap(self) -> None:
        """Do the bookkeeping that overlaps the first plugin's work, so that it costs the event no time."""

    def weigh(self, peer: Peer, policy: EventPolicy, reply: bytes) -> bytes | None:  # noqa: ARG002 - see below
        """Hold a big answer to the limits, while the plugin is held. Returns the answer to add; None for none."""
        return reply

    def add(self, peer: Peer, policy: EventPolicy, reply: bytes) -> None:
        """Take one plugin's answer. PluginError, ConflictError or UpdateError: the event fails because of it."""

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
        reporting: who is told of its steps.
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
        numbers: of the answers that say something, by the plugin's label, and of the first one by "".
        reply_type: the reply message of the event.
    """

    __slots__ = ("_context", "_room", "answered", "asked", "merge", "numbers", "replies", "touched")

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
        message = self._read(peer, reply)
        label = peer.label
        self.replies.append((label, reply))
        self.numbers[label] = self.answer
        if message.update:
            self.touched.update([update.container_id for update in self._there(message.update)])
        reporting = self._context.reporting
        try:
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

    def _read(self, peer: Peer, reply: bytes) -> Any:
        try:
            return self.reply_type.FromString(reply)
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

    def told_bytes(self) -> bytes:
        """The request as the next plugin gets it; provenance keeps it as well, so a copy would gain nothing."""
        return self.request.encoded()

    def record(self, failed: str = "") -> None:
        """Keep a record of request and answers for provenance, also where no plugin was asked."""
        provenance = self._context.trail.provenance
        if provenance is None:
            return
        request = self.request
        container = request.container
        container_id = "" if container is None else container.id
        book = self.merge.book
        outcomes: Any = () if book is None or not book.ignored else left_out(container_id, book.ignored)
        asked = self.asked
        if asked is None:
            asked = request.encoded()
            self.numbers[""] = next(ARRIVALS)  # nobody has answered: what the runtime asks for has its place as well
        provenance.record(self.rpc, container_id, asked, self.replies, self.touched, failed, outcomes, self.numbers)

    def granted(self) -> list[Peer]:
        """The plugins whose answers say something."""
        labels = {label for label, _ in self.replies}
        return [peer for peer in self.answered if peer.label in labels]

    def order(self) -> EventOrder:
        """The order of the fields that the answers have set."""
        return EventOrder(self.merge.ledger, self.numbers, self.numbers.get("") or next(ARRIVALS))

    def side_updates(self) -> list[m.ContainerUpdate]:
        """Keep what answers want of containers that are only being created; returns updates of those created since."""
        context = self._context
        return context.kept.of_event(self.merge.book, self.rpc, self.numbers, context.reporting)

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.reply().SerializeToString()
        return encoded
