"""One event as the plugins see it: the requests to plugins, and the merge of their answers.

Answers to an `Event` are ignored. Answers to an `AnsweredEvent` are merged; its kinds are `CreateEvent`, `UpdateEvent`
and `StopEvent`. The dispatcher calls `request_bytes` for the next plugin, then `read` and `merge_answer` for the
plugin's answer, in one thread at a time. An event changes only itself; `nri.adaptation.dispatch.reply` applies its
effects.
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
from nri.adaptation.time_budget import SilenceBudget
from nri.api import messages as m
from nri.api.events import BY_METHOD, EMPTY_CREATION
from nri.errors import PluginError
from nri.plugin_policy import allow
from nri.text import count, cut, quote
from nri.wire import sole_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from nri.adaptation.audit.provenance import Provenance
    from nri.adaptation.audit.shadow import ShadowReport
    from nri.adaptation.audit.trail import AuditTrail
    from nri.adaptation.merge.side_updates import IgnoredRequest
    from nri.adaptation.peers.peer import Peer
    from nri.plugin_policy.event_policy import EventPolicy
    from nri.rules import Rules

    #: An answer as a message, or its adjustment if the answer has nothing else, with the adjustment's bytes.
    Decoded = tuple[Any, bytes | None]

#: The record of an event names at most this many ignored updates.
_MAX_NAMED_IN_RECORD: Final = 20

_CREATE: Final = BY_METHOD["create_container"]
_UPDATE: Final = BY_METHOD["update_container"]
_STOP: Final = BY_METHOD["stop_container"]


class Event:
    """An event that is only passed on to plugins.

    Attributes:
        request: the question to the plugins.
        rpc, number: the event's name, for example `StartContainer`, and its number.
        serial: counts the events of this process, for reports.
        answer_number: the number of the last answer (`Peer.answer`), read under the plugin's lock.
        reported: the start of the event has been reported.
        silence: the event's budget for unresponsive plugins; None until it has waited for a plugin.
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
        """Record that the event starts waiting for a plugin, in its queue or for its answer."""
        silence = self.silence
        if silence is None:
            silence = self.silence = SilenceBudget()
        silence.start_waiting(peer, peer.breaker.silence_s)

    def work_meanwhile(self) -> None:
        """Do bookkeeping while the first plugin works, so that it takes no extra time."""

    def oversized(self, plugin: str, reply: bytes) -> PluginError | None:  # noqa: ARG002 - answers are ignored
        """The error if a big answer exceeds the limits of a plugin's answer, else None."""
        return None

    def note_missing_answer(self, plugin: str, reason: str) -> None:
        """Record that the event continues without the answer of a plugin."""

    def record(self, provenance: Provenance, failed: str = "") -> None:
        """Write the record of the finished event. If the event failed, `failed` is the error text."""

    def result_bytes(self) -> bytes:
        """The result as the encoded reply message of the event, for reports; empty for an event without a reply."""
        return b""


class Parts(NamedTuple):
    """A request's messages side by side, for the merge: a common message would copy them."""

    pod: Any
    container: Any
    linux_resources: Any = None


class AnsweredEvent(Event):
    """An event whose answers are merged into one result. Abstract: see its three kinds.

    Args:
        request: the question to the plugins.
        merge: merges the answers.
        rules: the deviations from the Go library.
        trail: the existing containers and the records; only read by the event.

    Attributes:
        merge: the merged answers; its class depends on the event.
        answering_peers: the plugins that answered.
        original_request: the bytes of the runtime's request; None until a plugin has answered.
        replies: name and bytes of every answer that is not empty.
        updated_ids: ids of the containers that the answers update.
        missing_answers: the plugins that did not answer, with the reason, as outcomes for provenance.
        numbers: the sequence numbers of the answers that are not empty, by the plugin's label. The key RUNTIME_REQUEST
            has the number of the first answer.
        container_id: the id of the event's container.
        reply_type: the reply message of the event.
        empty_reply: the bytes of a reply that is not empty and requests nothing.
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
        """The error if a big answer exceeds the limits of a plugin's answer, else None."""
        return oversized_reply(self.reply_type, self.rpc, plugin, reply) if self._rules.event_replies_limited else None

    def _note_first_answer(self) -> None:
        self.numbers[RUNTIME_REQUEST] = self.answer_number
        request = self.original_request = self.request.encoded()
        self._room_bytes = MAX_REQUEST_BYTES - len(request)

    def read(self, peer: Peer, policy: EventPolicy, reply: bytes) -> Decoded | None:
        """Record a plugin's answer and decode it. Returns None if the answer is empty.

        Raises PluginError if the answer is invalid, which fails the event.
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
            self.updated_ids.update([update.container_id for update in self._of_known_containers(message.update)])
        return message, adjustment

    def merge_answer(self, plugin: str, policy: EventPolicy, reply: bytes, decoded: Decoded) -> None:
        """Check an answer against the operator's policy, merge it, and show it to the next plugin.

        Raises PluginError, ConflictError or UpdateError if the answer fails the event; then nothing of it was merged.
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
        # A request grows at most by the length of the reply, so it is checked only if it may be too long.
        self._room_bytes -= len(reply) + REPLY_HEADER_BYTES
        if self._room_bytes < 0 and self._rules.event_replies_limited:
            assert self.original_request is not None
            check_next_request(self.rpc, plugin, self.original_request, request.encoded())

    def _sole_adjustment(self, reply: bytes) -> bytes | None:  # noqa: ARG002 - only CreateContainer has one
        """The encoded adjustment of an answer that has nothing else (the usual case), else None."""
        return None

    def _decode(self, peer: Peer, reply: bytes, adjustment: bytes | None) -> Any:
        """Decode the adjustment if the answer has nothing else, or the whole answer."""
        try:
            if adjustment is None:
                return self.reply_type.FromString(reply)
            return m.ContainerAdjustment.FromString(adjustment)
        except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
            raise PluginError(peer.label, f"its reply is invalid: {error}") from None

    def _check(self, plugin: str, allowed: allow.Allow, message: Any) -> None:
        """Raise PluginError if an answer changes something that the operator does not allow."""
        breach = allow.breach(
            allowed,
            plugin,
            self.request.pod.namespace,
            self.number,
            reply=message,
            adjust=adjustment_of(message),
            update=self._of_known_containers(message.update),
            evict=self._of_known_containers(evictions_of(message)),
            namespace_of=self._trail.inventory.known.namespace_of,
        )
        try:
            if breach is not None:
                raise breach
        finally:
            del breach  # the error refers to this frame: break the reference cycle

    def _of_known_containers(self, requests: Iterable[Any]) -> list[Any]:
        """The updates or evictions of known containers. The others are ignored anyway."""
        if not self._rules.absent_containers_left_out:
            return list(requests)
        containers = self._trail.inventory.known
        return [
            request
            for request in requests
            if containers.is_creating(request.container_id) or request.container_id in containers
        ]

    def compare(self, peer: Peer, reply: bytes) -> ShadowReport | None:
        """Record the answer of a shadow plugin. Returns its changes; None for an empty answer."""
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
        """Record, for its container's history, that the event continues without the answer of a plugin."""
        self.missing_answers += ((self.container_id, plugin, SILENT, reason),)

    def record(self, provenance: Provenance, failed: str = "") -> None:
        """Write the record of the request and the answers, even if no plugin was asked."""
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
        """The plugins whose answers are not empty."""
        labels = {label for label, _ in self.replies}
        return [peer for peer in self.answering_peers if peer.label in labels]

    def result_bytes(self) -> bytes:
        """The merged reply, encoded."""
        encoded: bytes = self.merge.reply().SerializeToString()
        return encoded


class CreateEvent(AnsweredEvent):
    """The creation of a container."""

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
        """Encode the requested resources, and sort earlier records, while a plugin works."""
        if self._resources is None:
            self._resources = self._container.linux.resources.SerializeToString()
            provenance = self._trail.provenance
            if provenance is not None:
                provenance.tidy()

    @property
    def requested_resources(self) -> bytes:
        """The resources of the runtime's request, encoded."""
        resources = self._resources
        return self._container.linux.resources.SerializeToString() if resources is None else resources

    def validation_request(self, present: Iterable[Peer], *, sent: bool) -> bytes:
        """The request to all validators: the original container, the merged result, and the owner of each field.

        Raises PluginError with the name of the plugin with the largest answer if the request is to be sent and is too
        long.
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
    """The update of a container's resources.

    Attributes:
        requested: the resources in the runtime's request.
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
    """The stop of a container."""

    __slots__ = ()

    reply_type: ClassVar[Any] = m.StopContainerResponse

    def __init__(self, pod: m.PodSandbox, container: m.Container, rules: Rules, trail: AuditTrail) -> None:
        merge = StopMerge(Parts(pod, container), rules, trail.inventory.known)  # type: ignore[arg-type]
        super().__init__(EventRequest(_STOP, pod, container), merge, rules, trail)

    def record(self, provenance: Provenance, failed: str = "") -> None:
        """Write a record unless no plugin was asked, because the stop itself changes nothing."""
        if self.original_request is not None:
            super().record(provenance, failed)


def left_out_outcomes(container_id: str, ignored: Sequence[IgnoredRequest]) -> list[tuple[str, str, str, str]]:
    """The ignored updates and fields as outcomes: the first by name, then the number of the others.

    An update of an unknown container is reported in the record of the event's own container.
    """
    rows = []
    for entry in ignored:
        if entry.reason in (NO_CONTAINER, UNKNOWN_CONTAINER):
            what = f"update of container {quote(cut(entry.container_id, 128))} by {entry.plugin}"
            rows.append((container_id, what, "left out", entry.reason))
        elif entry.reason == NOT_IN_UPDATES:
            rows.append((entry.container_id, f"{entry.field} of an update by {entry.plugin}", "left out", entry.reason))
    if len(rows) > _MAX_NAMED_IN_RECORD:
        more = count(len(rows) - _MAX_NAMED_IN_RECORD, "more update")
        rows[_MAX_NAMED_IN_RECORD:] = [(container_id, more, "left out", "for reasons as above")]
    return rows
