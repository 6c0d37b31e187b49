"""One event as the plugins see it: the request for each of them, and the merge of their answers.

`Event` is only passed on: answers to it say nothing. The answers to an `AnsweredEvent` are merged; its three kinds are
`CreateEvent`, `UpdateEvent` and `StopEvent`. `nri.adaptation.dispatch.dispatcher` takes an event through the plugins,
in one thread at a time: `request_bytes` for the next plugin, then `read` and `merge` for its answer. An event changes
nothing but itself; what follows from it is done by `nri.adaptation.dispatch.reply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nri.adaptation.audit import shadow
from nri.adaptation.audit.record import SILENT
from nri.adaptation.audit.reporting import SERIALS, adjustment_of, evictions_of
from nri.adaptation.containers.answer_order import RUNTIME_REQUEST
from nri.adaptation.dispatch.reply_limits import (
    MAX_REQUEST_BYTES,
    REPLY_HEADER_BYTES,
    check_next_request,
    oversized_reply,
    validation_too_long,
)
from nri.adaptation.merge import CreateMerge, StopMerge, UpdateMerge
from nri.adaptation.merge.container_view import normalise
from nri.adaptation.merge.side_updates import NO_CONTAINER, NOT_IN_UPDATES, UNKNOWN_CONTAINER
from nri.adaptation.peers.event_request import CreateRequest, EventRequest, UpdateRequest
from nri.adaptation.plugin_policy import allow
from nri.adaptation.time_budget import SilenceBudget
from nri.api import messages as m
from nri.api.events import BY_METHOD, EMPTY_CREATION
from nri.errors import PluginError
from nri.text import count, cut, quote
from nri.wire import sole_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from nri.adaptation.audit.provenance import Provenance
    from nri.adaptation.audit.shadow import ShadowReport
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.merge.side_updates import Ignored
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import EventPolicy
    from nri.rules import Rules

    #: An answer as a message, or its adjustment if that is all that it has, and the adjustment's bytes in that case.
    Decoded = tuple[Any, bytes | None]

__all__ = ["AnsweredEvent", "CreateEvent", "Event", "StopEvent", "UpdateEvent"]

#: The most updates left out that the record of an event names.
_MAX_NAMED_IN_RECORD: Final = 20

_CREATE: Final = BY_METHOD["create_container"]
_UPDATE: Final = BY_METHOD["update_container"]
_STOP: Final = BY_METHOD["stop_container"]


class Event:
    """An event that is only passed on to plugins.

    Attributes:
        request: what the plugins are asked.
        rpc, number: the event's name, `StartContainer`, and number.
        serial: counts the events of this process, for reports.
        answer_number: number of the last answer (`Peer.answer`), taken while its plugin was held.
        reported: reporters know that it has begun.
        silence: how much longer it may wait for plugins that do not answer; None: it has waited for none.
    """

    __slots__ = ("answer_number", "number", "reported", "request", "rpc", "serial", "silence")

    def __init__(self, request: EventRequest) -> None:
        spec = request.spec
        self.request = request
        self.rpc = spec.rpc
        self.number = spec.number
        self.serial = next(SERIALS)
        self.answer_number = 0
        self.reported = False
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

    def work_meanwhile(self) -> None:
        """Do the bookkeeping that overlaps the first plugin's work, so that it costs the event no time."""

    def oversized(self, plugin: str, reply: bytes) -> PluginError | None:  # noqa: ARG002 - answers say nothing
        """The error if a big answer is more than a plugin may ask for; None if it is not."""
        return None

    def read(self, peer: Peer, policy: EventPolicy, reply: bytes) -> Decoded | None:  # noqa: ARG002 - as above
        """Note that a plugin has answered, and decode its answer; None if there is nothing to merge."""
        return None

    def merge_answer(self, plugin: str, policy: EventPolicy, reply: bytes, decoded: Decoded) -> None:
        """Merge an answer. PluginError, ConflictError or UpdateError: nothing of it is merged."""

    def compare(self, peer: Peer, reply: bytes) -> ShadowReport | None:  # noqa: ARG002 - as above
        """Note that a shadow plugin has answered; returns what its answer would have done, None for nothing."""
        return None

    def note_missing_answer(self, plugin: str, reason: str) -> None:
        """Note that the event continues without a plugin, which gave no answer."""

    def record(self, provenance: Provenance, failed: str = "") -> None:
        """Have a record of the event kept, which is over; `failed` says why, if it failed."""

    def result_bytes(self) -> bytes:
        """The result as the reply message of the event, encoded, for reports; empty for an event without one."""
        return b""


class Parts(NamedTuple):
    """A request's messages side by side, as the merge reads them: one message would copy them."""

    pod: Any
    container: Any
    linux_resources: Any = None


class AnsweredEvent(Event):
    """An event whose answers are merged into one result. Abstract: see its three kinds.

    Args:
        request: what the plugins are asked.
        merge: takes the answers.
        rules: where to differ from the reference.
        trail: the existing containers and the records, which are read here.

    Attributes:
        merge: what the answers mean together; its kind is that of the event.
        answering_peers: the plugins that answered.
        original_request: the request's bytes as the runtime made it; None as long as no plugin has answered.
        replies: name and bytes of every answer that says something.
        updated_ids: of the containers that the answers update.
        missing_answers: the event's container, and each plugin that gave no answer, with the reason, as provenance has
            outcomes.
        numbers: of the answers that say something, by the plugin's label, and of the first one by RUNTIME_REQUEST.
        container_id: of the event's container.
        reply_type: the reply message of the event.
        empty_reply: a reply that is not empty and asks for nothing.
    """

    __slots__ = (
        "_room_bytes",
        "_rules",
        "_trail",
        "answering_peers",
        "container_id",
        "merge",
        "missing_answers",
        "numbers",
        "original_request",
        "replies",
        "updated_ids",
    )

    reply_type: ClassVar[Any] = None
    empty_reply: ClassVar[bytes] = b""

    def __init__(self, request: EventRequest, merge: Any, rules: Rules, trail: AuditTrail) -> None:
        super().__init__(request)
        self.merge = merge
        self._rules = rules
        self._trail = trail
        self._room_bytes = 0
        container = request.container
        self.container_id = "" if container is None else container.id
        self.answering_peers: list[Peer] = []
        self.original_request: bytes | None = None
        self.replies: list[tuple[str, bytes]] = []
        self.updated_ids: set[str] = set()
        self.missing_answers: tuple[tuple[str, str, str, str], ...] = ()
        self.numbers: dict[str, int] = {}

    def oversized(self, plugin: str, reply: bytes) -> PluginError | None:
        """The error if a big answer is more than a plugin may ask for; None if it is not."""
        return oversized_reply(self.reply_type, self.rpc, plugin, reply) if self._rules.event_replies_limited else None

    def _note_first_answer(self) -> None:
        self.numbers[RUNTIME_REQUEST] = self.answer_number
        request = self.original_request = self.request.encoded()
        self._room_bytes = MAX_REQUEST_BYTES - len(request)

    def read(self, peer: Peer, policy: EventPolicy, reply: bytes) -> Decoded | None:
        """Note that a plugin has answered, and decode its answer; None if it says nothing.

        PluginError: it cannot be read, and the event fails because of it.
        """
        if self.original_request is None:
            self._note_first_answer()
        self.answering_peers.append(peer)
        if not reply or reply == self.empty_reply:
            return None
        adjustment = self._sole_adjustment(reply) if policy.policy.allow is None else None
        message = self._decode(peer, reply, adjustment)
        label = peer.label
        self.replies.append((label, reply))
        self.numbers[label] = self.answer_number
        if adjustment is None and message.update:
            self.updated_ids.update([update.container_id for update in self._existing(message.update)])
        return message, adjustment

    def merge_answer(self, plugin: str, policy: EventPolicy, reply: bytes, decoded: Decoded) -> None:
        """Hold an answer to the operator's policy, merge it, show it to the next plugin.

        PluginError, ConflictError or UpdateError: the event fails because of it, and nothing of it was merged.
        """
        message, adjustment = decoded
        request = self.request
        if adjustment is not None:
            self.merge.adjusted(plugin, message, adjustment)
        else:
            allowed = policy.policy.allow
            if allowed is not None:
                self._check(plugin, allowed, message)
            self.merge.apply(plugin, message)
        request.refresh()
        # A request grows by no more than the reply has: so it is looked at only where it may be too long.
        self._room_bytes -= len(reply) + REPLY_HEADER_BYTES
        if self._room_bytes < 0 and self._rules.event_replies_limited:
            assert self.original_request is not None
            check_next_request(self.rpc, plugin, self.original_request, request.encoded())

    def _sole_adjustment(self, reply: bytes) -> bytes | None:  # noqa: ARG002 - CreateContainer alone has any
        """The adjustment, encoded, of an answer that has nothing else, as nearly all; else None."""
        return None

    def _decode(self, peer: Peer, reply: bytes, adjustment: bytes | None) -> Any:
        """The adjustment as a message if it is all that there is, else the whole answer."""
        try:
            if adjustment is None:
                return self.reply_type.FromString(reply)
            return m.ContainerAdjustment.FromString(adjustment)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise PluginError(peer.label, f"its reply cannot be read: {error}") from None

    def _check(self, plugin: str, allowed: allow.Allow, message: Any) -> None:
        """Raise PluginError if an answer touches what the operator does not allow."""
        breach = allow.breach(
            allowed,
            plugin,
            self.request.pod.namespace,
            self.number,
            reply=message,
            adjust=adjustment_of(message),
            update=self._existing(message.update),
            evict=self._existing(evictions_of(message)),
            namespace_of=self._trail.inventory.known.namespace_of,
        )
        try:
            if breach is not None:
                raise breach
        finally:
            del breach  # it has this frame, with the reply: they would keep each other

    def _existing(self, requests: Iterable[Any]) -> list[Any]:
        """Those updates or evictions that are not left out anyway, because their container does not exist."""
        if not self._rules.absent_containers_left_out:
            return list(requests)
        known = self._trail.inventory.known
        return [one for one in requests if known.is_creating(one.container_id) or one.container_id in known]

    def compare(self, peer: Peer, reply: bytes) -> ShadowReport | None:
        """Note that a shadow plugin has answered; returns what its answer would have done, None if it says nothing."""
        if self.original_request is None:
            self._note_first_answer()
        self.answering_peers.append(peer)
        if not reply or reply == self.empty_reply:
            return None
        return shadow.of_reply(
            peer.label, self.rpc, self.request.pod, self.request.container_seen(), reply, self.reply_type,
            self.merge.ledger, self._trail.inventory.resources_of,
        )  # fmt: skip

    def note_missing_answer(self, plugin: str, reason: str) -> None:
        """Note that the event continues without a plugin, for its container's history."""
        self.missing_answers += ((self.container_id, plugin, SILENT, reason),)

    def record(self, provenance: Provenance, failed: str = "") -> None:
        """Have a record of request and answers kept, also where no plugin was asked."""
        container_id, side = self.container_id, self.merge.side
        outcomes: Any = () if side is None or not side.ignored else left_out_outcomes(container_id, side.ignored)
        if self.missing_answers:
            outcomes = (*outcomes, *self.missing_answers)
        request = self.original_request
        if request is None:
            request = self.request.encoded()
        provenance.record(
            self.rpc, container_id, request, self.replies, self.updated_ids, failed, outcomes, self.numbers
        )

    def peers_with_replies(self) -> list[Peer]:
        """The plugins whose answers say something."""
        labels = {label for label, _ in self.replies}
        return [peer for peer in self.answering_peers if peer.label in labels]

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.reply().SerializeToString()
        return encoded


class CreateEvent(AnsweredEvent):
    """One container that is about to be created."""

    __slots__ = ("_container", "_pod", "_resources")

    reply_type: ClassVar[Any] = m.CreateContainerResponse
    empty_reply = EMPTY_CREATION

    def __init__(self, pod: m.PodSandbox, container: m.Container, rules: Rules, trail: AuditTrail) -> None:
        merge = CreateMerge(Parts(pod, container), rules, trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(CreateRequest(_CREATE, pod, container, merge), merge, rules, trail)
        self._pod, self._container = pod, container
        self._resources: bytes | None = None

    def _sole_adjustment(self, reply: bytes) -> bytes | None:
        return sole_field(reply, 1)

    def work_meanwhile(self) -> None:
        """Encode what the container had before, and sort earlier records: in the time that a plugin needs anyway."""
        if self._resources is None:
            self._resources = self._container.linux.resources.SerializeToString()
            provenance = self._trail.provenance
            if provenance is not None:
                provenance.tidy()

    @property
    def requested_resources(self) -> bytes:
        """The resources with which the runtime wants to create the container, encoded."""
        resources = self._resources
        return self._container.linux.resources.SerializeToString() if resources is None else resources

    def validation_request(self, present: Iterable[Peer], *, sent: bool) -> bytes:
        """The request that all validators get: the container as it was, the merged result, and who set what.

        PluginError, with the name of the plugin that asked for most, if it is to be sent and too long for a message.
        """
        reply = self.merge.reply()
        if self._rules.hooks_only_when_set and not reply.adjust.hooks.ListFields():
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
        if sent and len(encoded) > MAX_REQUEST_BYTES and self._rules.event_replies_limited and self.replies:
            largest = max(self.replies, key=lambda reply: len(reply[1]))[0]
            raise validation_too_long(self.rpc, largest, len(encoded))
        return encoded

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.encoded_reply(self.replies)
        return encoded


class UpdateEvent(AnsweredEvent):
    """One container whose resources are about to change.

    Attributes:
        requested: the resources that the runtime wants the container to have.
    """

    __slots__ = ("requested",)

    reply_type: ClassVar[Any] = m.UpdateContainerResponse

    def __init__(
        self,
        pod: m.PodSandbox,
        container: m.Container,
        resources: m.LinuxResources,
        rules: Rules,
        trail: AuditTrail,
    ) -> None:
        merge = UpdateMerge(Parts(pod, container, resources), rules, trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(UpdateRequest(_UPDATE, pod, container, merge), merge, rules, trail)
        self.requested = resources


class StopEvent(AnsweredEvent):
    """One container that has stopped, or is about to."""

    __slots__ = ()

    reply_type: ClassVar[Any] = m.StopContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, rules: Rules, trail: AuditTrail) -> None:
        merge = StopMerge(Parts(pod, container), rules, trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(EventRequest(_STOP, pod, container), merge, rules, trail)

    def record(self, provenance: Provenance, failed: str = "") -> None:
        """Have a record kept, unless no plugin was asked: the stop itself changes nothing."""
        if self.original_request is not None:
            super().record(provenance, failed)


def left_out_outcomes(container_id: str, ignored: Sequence[Ignored]) -> list[tuple[str, str, str, str]]:
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
    if len(rows) > _MAX_NAMED_IN_RECORD:
        more = count(len(rows) - _MAX_NAMED_IN_RECORD, "more update")
        rows[_MAX_NAMED_IN_RECORD:] = [(container_id, more, "left out", "as those before them")]
    return rows
