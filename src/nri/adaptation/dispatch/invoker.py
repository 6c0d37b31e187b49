"""Ask a plugin about an event, and decide what a failure means for the request and for the plugin.

The outcomes (nri-protocol 5.5, with the operator's policy on top):

| outcome | the plugin | the request |
|---|---|---|
| an error status | stays; it has answered | fails with that error; continues if the plugin is a shadow |
| late answer | stays, or is closed by its policy; counts as a miss | continues, or fails if its policy requires it |
| busy with earlier events for two timeouts | stays; counts as a miss | continues, or fails if its policy requires it |
| silent for too long (`nri.adaptation.time_budget`) | is not asked | continues, or fails if its policy requires it |
| connection lost | is gone; counts as a miss | continues, or fails if its policy requires it |
| the caller's deadline passed | as if it had not been asked | fails with DeadlineExceeded |
| the runtime's side failed (interceptor, request too long) | as if it had not been asked | fails with that error |
| left out (breaker open) or gone | not called | continues, or fails if the operator requires the plugin |
| no answer to the trial request of a half-open breaker | left out again | as if it had been left out |

The errors that are raised here are the errors of the runtime's request.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from nri.adaptation.audit import shadow
from nri.adaptation.peers.breaker import BreakerState
from nri.adaptation.peers.state import JOINED, Signal, State
from nri.adaptation.peers.turns import Sent
from nri.adaptation.time_budget import WHOLE_MISS_SHARE, answer_deadline, turn_limit_s
from nri.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriError,
    OversizedMessage,
    PluginClosed,
    PluginError,
    PluginRejected,
    PluginTimeout,
    PluginUnavailable,
    ProtocolError,
    RpcError,
    failure_text,
)
from nri.text import count
from nri.ttrpc.codes import Code

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.dispatch.event import AnsweredEvent, Event
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.peers.turns import Place
    from nri.plugin_policy.event_policy import EventPolicy
    from nri.rules import Rules

# A global is faster than a member of an enum, and this is compared for every plugin of every event.
_ACTIVE: Final = State.ACTIVE

# Failures without an answer. An RpcError, in contrast, is an answer.
_SILENT = (DeadlineExceeded, ConnectionClosed, ProtocolError)


class Invoker:
    """Asks plugins on behalf of the dispatcher, and processes their answers. It has no state: threads share one object.

    `nri.adaptation.dispatch.observation` has the invokers that also report each step.

    Attributes:
        validators_missed: an event fails if a validator leaves while the event is processed.
    """

    __slots__ = ("_breaker_lets_go", "_name_plugins", "_reporting", "_silence_counts", "validators_missed")

    def __init__(self, rules: Rules, reporting: Reporting) -> None:
        self._name_plugins = rules.errors_name_plugin
        self._breaker_lets_go = rules.open_breaker_lets_go
        self._silence_counts = rules.silence_counts_for_all
        self.validators_missed = rules.lost_validators_refuse
        self._reporting = reporting

    # -- steps that observed invokers report --------------------------------------------------------------------------

    def event_starts(self, event: Event) -> None:
        """Report that an event begins, once."""

    def event_ends(self, event: Event, began: float, error: NriError | None = None) -> None:
        """Report that an event is over. `began` is its start in monotonic seconds."""

    def plugin_asked(self, peer: Peer, event: Event) -> None:
        """Report that a plugin is asked."""

    def plugin_answered(self, peer: Peer, event: Event, reply: bytes) -> None:
        """Report that a plugin has answered after `peer.latency_s` seconds."""

    def plugin_failed(self, peer: Peer, event: Event, error: Exception, waited_s: float) -> None:
        """Report that a plugin did not answer, or answered with an error."""

    def reply_merged(self, peer: Peer, event: Event, message: Any, error: Exception | None = None) -> None:
        """Report that an answer was merged, or why it could not be merged."""

    # -- one plugin ---------------------------------------------------------------------------------------------------

    def wait_for_turn(self, place: Place, peer: Peer, event: Event, caller_deadline: float | None) -> Sent | None:
        """Wait for the event's turn at a plugin. Returns the request if it was sent meanwhile, like `Place.wait`."""
        event.start_waiting(peer)
        return place.wait(partial(self.begin, event=event, caller_deadline=caller_deadline))

    def begin(self, peer: Peer, policy: EventPolicy, event: Event, caller_deadline: float | None) -> Sent | None:
        """Send the request; `ask` waits for the answer. Never waits or raises.

        Returns None if nothing was sent; `ask` then sends the request.

        Called by the thread that releases the plugin, and for events that all plugins get at once.
        """
        if peer.state is not _ACTIVE or peer.event_policies[event.number] is not policy:  # the policy has changed
            return None
        silence = event.silence
        if silence is not None and silence.has_lost_time(peer, peer.breaker.silence_s):
            return None
        began = monotonic()
        deadline = answer_deadline(began, policy.timeout_s, caller_deadline)
        try:
            exchange = peer.begin(event.request, deadline)
        except Exception:  # noqa: BLE001 - `ask` gets it again, and raises it
            return None
        if exchange is None:
            return None
        self.plugin_asked(peer, event)
        return Sent(policy, began, deadline, exchange)

    def ask(
        self,
        peer: Peer,
        policy: EventPolicy,
        event: Event,
        caller_deadline: float | None,
        *,
        sent: Sent | None = None,
        insist: bool = False,
    ) -> bytes | None:
        """Return the answer's bytes, or None if the request continues without an answer. Needs the peer's lock.

        Args:
            caller_deadline: absolute, in monotonic seconds; None for no deadline.
            sent: the return value of `begin` for the same event.
            insist: a missing answer fails the request, regardless of the policy (validation).
        """
        budget_s = policy.timeout_s
        if sent is not None:
            began = sent.began
        else:
            began = monotonic()
            if peer.state is not _ACTIVE and not self._may_call(peer, policy, event, began, insist):
                return None
            silence = event.silence
            if silence is not None and self._silence_counts:
                budget_s = silence.remaining_s(peer, peer.breaker.silence_s, budget_s)
                if not budget_s:
                    self._skip_plugin(peer, policy, event, insist)
                    return None
        try:
            if sent is not None:
                reply = peer.collect(event.request, sent.exchange, sent.deadline)
            else:
                reply = self._exchange(peer, event, answer_deadline(began, budget_s, caller_deadline))
        except Exception as error:  # noqa: BLE001 - `_handle_failure` decides what it means
            self.plugin_failed(peer, event, error, monotonic() - began)
            self._handle_failure(peer, policy, event, error, budget_s, caller_deadline, insist)
            return None
        except BaseException:
            peer.breaker.abandoned()
            raise
        peer.latency_s = monotonic() - began
        if peer.state is not _ACTIVE or peer.breaker.missed:
            _reset(peer)
        self.plugin_answered(peer, event, reply)
        return reply

    def _exchange(self, peer: Peer, event: Event, deadline: float) -> bytes:
        """Send and wait; report and do bookkeeping while the plugin works."""
        try:
            exchange = peer.begin(event.request, deadline)
        except Exception:
            self.plugin_asked(peer, event)
            raise
        if exchange is None:
            self.plugin_asked(peer, event)
            return peer.invoke(event.request, deadline)
        try:
            self.plugin_asked(peer, event)
            event.work_meanwhile()
        except BaseException:
            peer.abandon(exchange)
            raise
        return peer.collect(event.request, exchange, deadline)

    def check_size(self, peer: Peer, policy: EventPolicy, event: Event, reply: bytes) -> bytes | None:
        """Check the size of a big answer. Returns the answer, or None for an oversized answer of a shadow.

        Needs the peer's lock. Raises PluginError if the answer exceeds the limits, which fails the event.
        """
        error = event.oversized(peer.label, reply)
        if error is None:
            return reply
        peer.last_error = str(error)
        if policy.policy.shadow:
            self._reporting.shadow_answered(shadow.failure(peer.label, event.rpc, event.request.pod, error.reason))
            return None
        self.reply_merged(peer, event, None, error)
        try:
            raise error
        finally:
            del error  # the error refers to this frame: break the reference cycle

    def take_answer(self, peer: Peer, policy: EventPolicy, event: AnsweredEvent, reply: bytes) -> None:
        """Merge an answer. The answer of a shadow is only compared. The peer's lock is not needed.

        Raises PluginError, ConflictError or UpdateError if the answer fails the event; then nothing of it was merged.
        """
        if policy.guarded and policy.policy.shadow:
            report = event.compare(peer, reply)
            if report is not None:
                self._reporting.shadow_answered(report)
            return
        decoded = event.read(peer, policy, reply)
        if decoded is None:
            return
        try:
            event.merge_answer(peer.label, policy, reply, decoded)
        except NriError as error:
            peer.last_error = str(error)
            self.reply_merged(peer, event, decoded[0], error)
            raise
        self.reply_merged(peer, event, decoded[0])

    def answer_withdrawn(self, peer: Peer, event: AnsweredEvent, error: NriError) -> None:
        """Log and count that a plugin's answer is dropped, because another plugin failed the event."""
        self._reporting.withdrawn(peer.label, event.rpc, event.container_id, error)

    def _may_call(self, peer: Peer, policy: EventPolicy, event: Event, now: float, insist: bool) -> bool:
        """Whether a plugin that is not active is called. Raises PluginUnavailable if the request requires it."""
        if peer.state in JOINED and peer.breaker.admit(now):
            return True
        is_gone = peer.state not in JOINED
        # What a plugin declared does not fail requests after it has left or stopped answering. Only the operator's
        # `required` does.
        namespace = event.request.pod.namespace
        is_declared = policy.fail_request and not is_gone and not self._breaker_lets_go
        if insist or is_declared or policy.policy.requires(policy.number, namespace):
            raise PluginUnavailable(peer.label, f"required for {event.rpc}, but {_unavailable_text(peer)}")
        return False

    def _handle_failure(
        self,
        peer: Peer,
        policy: EventPolicy,
        event: Event,
        error: Exception,
        budget_s: float,
        caller_deadline: float | None,
        insist: bool,
    ) -> None:
        """Apply the table of this module to a failure. Raises if the request fails."""
        now = monotonic()
        try:
            if self._name_plugins and isinstance(error, RpcError):
                error = without_plugin_name(peer.label, error)
            if not isinstance(error, NriError):
                peer.breaker.abandoned()
                raise self._plugin_error(peer, RpcError(2, str(error) or type(error).__name__), error)
            if isinstance(error, OversizedMessage):  # the plugin was not asked
                peer.breaker.abandoned()
                raise error
            if not isinstance(error, _SILENT):
                peer.last_error = text = failure_text(error, peer.label)
                _reset(peer)
                if policy.policy.shadow:
                    self._reporting.shadow_answered(shadow.failure(peer.label, event.rpc, event.request.pod, text))
                    return
                raise self._plugin_error(peer, error, error)
            fails_request = insist or self._missing_answer_fails(peer, policy, event)
            if isinstance(error, DeadlineExceeded):
                if caller_deadline is not None and now >= caller_deadline:
                    peer.breaker.abandoned()
                    raise error
                _count_miss(event, peer, policy, budget_s, now)
            else:
                peer.breaker.miss(now)
                peer.signal(Signal.LOST, str(error))
            if fails_request:
                _refuse(peer, event, error)
            event.note_missing_answer(peer.label, str(error))
        finally:
            del error  # the error refers to this frame: break the reference cycle

    def _skip_plugin(self, peer: Peer, policy: EventPolicy, event: Event, insist: bool) -> None:
        """Handle a plugin for which the event has no time left: the request continues or fails as for a late answer."""
        fails_request = insist or self._missing_answer_fails(peer, policy, event)
        peer.breaker.abandoned()
        if fails_request:
            _refuse(peer, event, DeadlineExceeded(event.rpc))
        event.note_missing_answer(peer.label, "the event had no time left for the plugin")

    def missed_turn(self, peer: Peer, policy: EventPolicy, event: Event, *, insist: bool = False) -> None:
        """Handle an event that has waited too long for its turn, as for a late answer.

        The plugin stays connected, regardless of its policy: it is slow, but answers other events. For `insist` see
        `ask`.
        """
        fails_request = insist or self._missing_answer_fails(peer, policy, event)
        waited_s = turn_limit_s(policy.timeout_s)
        error = DeadlineExceeded(f"a plugin that was busy with earlier events for {waited_s:g} s")
        self.plugin_failed(peer, event, error, waited_s)
        peer.last_error = f"busy with earlier events for {waited_s:g} s when {event.rpc} was due"
        tripped = peer.breaker.miss(monotonic())
        peer.signal(Signal.TRIPPED if tripped else Signal.MISSED, peer.last_error)
        if fails_request:
            _refuse(peer, event, error)
        event.note_missing_answer(peer.label, str(error))

    def _missing_answer_fails(self, peer: Peer, policy: EventPolicy, event: Event) -> bool:
        """Whether a missing answer fails the request; call it before the breaker records the miss."""
        if self._breaker_lets_go and peer.breaker.state is BreakerState.HALF_OPEN:
            return policy.policy.requires(policy.number, event.request.pod.namespace)
        return policy.must_answer(event.request.pod)

    def failure_text(self, peer: Peer, error: BaseException) -> str:
        """The text of a failure for the request's error: without the status, unless errors are those of Go."""
        return failure_text(error, peer.label) if self._name_plugins else str(error)

    def _plugin_error(self, peer: Peer, error: NriError, cause: Exception) -> NriError:
        plugin_error = with_plugin_name(peer.label, error) if self._name_plugins else error
        if plugin_error is not cause:
            plugin_error.__cause__ = cause
        return plugin_error


def _reset(peer: Peer) -> None:
    """Reset the misses of a plugin that has answered, unless its breaker stays open."""
    if peer.breaker.answered():
        peer.signal(Signal.ANSWERED)


def _count_miss(event: Event, peer: Peer, policy: EventPolicy, budget_s: float, now: float) -> None:
    """Count a missing answer, and disconnect the plugin or leave it out if its policy requires it.

    Args:
        budget_s: how long the plugin had, in seconds; without the runtime's own delay.
    """
    event.start_waiting(peer)
    share = budget_s / policy.timeout_s
    explanation = "" if share >= WHOLE_MISS_SHARE else "; earlier events used the rest of its timeout"
    peer.last_error = what = f"no answer to {event.rpc} within {budget_s:.3g} s{explanation}"
    breaker = peer.breaker
    breaker.silence_s += budget_s
    breaker.miss(now, share)
    if not policy.keep_connected:
        peer.signal(Signal.FATAL, what)
    elif breaker.missed >= breaker.misses > 0:
        peer.signal(Signal.TRIPPED, what)
    else:
        peer.signal(Signal.MISSED, what)


def with_plugin_name(label: str, error: NriError) -> PluginError:
    """Convert a plugin's error to the runtime's error, which has the plugin's name."""
    if not isinstance(error, RpcError):
        return PluginError(label, error.whole_text)
    if error.code == Code.PERMISSION_DENIED:
        return PluginRejected(label, error.message)
    return PluginError(label, failure_text(error), code=error.code, message=error.message)


def without_plugin_name(label: str, error: RpcError) -> RpcError:
    """Remove the plugin's name from a status text, for runtimes that add the name themselves."""
    for beginning in (f"plugin {label}: ", f"plugin {label} refused: "):
        if error.message.startswith(beginning):
            return RpcError(error.code, error.message.removeprefix(beginning))
    return error


def _unavailable_text(peer: Peer) -> str:
    """The state of a plugin that cannot be asked, for the text of an error."""
    state = "not connected" if peer.state is State.GONE else peer.state.value
    if peer.state is State.OPEN:
        state = f"skipped after {count(peer.breaker.missed, 'request')} without an answer"
    return f"{state} ({peer.last_error})" if peer.last_error else state


def _refuse(peer: Peer, event: Event, cause: NriError) -> NoReturn:
    """Raise the request's error for a missing answer. The text is the Go library's."""
    kind = PluginTimeout if isinstance(cause, DeadlineExceeded) else PluginClosed
    error = kind(peer.label, f"failed to handle {event.rpc} request: {cause}")
    error.args = (f"plugin {peer.label} failed to handle {event.rpc} request: {cause}",)
    error.__cause__ = cause  # set by hand, because a compiled `raise` has no `from`
    try:
        raise error
    finally:
        del error, cause  # they refer to this frame: break the reference cycle
