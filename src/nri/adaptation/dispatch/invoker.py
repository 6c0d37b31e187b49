"""Ask one plugin about one event, and decide what a failure means: for the request, for the plugin, or for neither.

The table of outcomes (nri-protocol 5.5, and the operator's policy on top of it):

| outcome | the plugin | the request |
|---|---|---|
| an error status | stays; it has answered | fails with that error; goes on if the plugin is a shadow |
| late | stays, or is closed if its policy says so; a miss for its breaker | goes on, or fails if its policy says so |
| busy with earlier events for two timeouts | stays; a miss | goes on, or fails if its policy says so |
| silent for too long (`nri.adaptation.time_budget`) | is not asked | goes on, or fails if its policy says so |
| connection lost | is gone; a miss | goes on, or fails if its policy says so |
| the caller's own deadline passed | as if it had not been asked | fails with DeadlineExceeded |
| this side failed (interceptor, request too long) | as if it had not been asked | fails with that error |
| left out (breaker open) or gone | not called | goes on, or fails if the operator requires the plugin |
| no answer to the one request that is to show whether it is back | left out again | as if it had been left out |

Errors raised here are what the runtime's request fails with.
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
)
from nri.text import count
from nri.ttrpc.codes import Code

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.dispatch.event import AnsweredEvent, Event
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.peers.turns import Place
    from nri.adaptation.plugin_policy.event_policy import EventPolicy
    from nri.rules import Rules

__all__ = ["Invoker"]

# Looking up a member of an enum costs more than a global, and this is asked for every plugin of every event.
_ACTIVE: Final = State.ACTIVE

# Kinds of failures that say that there is no answer, not that the answer was an error.
_SILENT = (DeadlineExceeded, ConnectionClosed, ProtocolError)


class Invoker:
    """Asks plugins on behalf of the dispatcher, and takes their answers. Holds nothing of an event: threads share one.

    `nri.adaptation.dispatch.observation` has the invokers that also report what happens.

    Attributes:
        validators_missed: a validator that leaves while an event is on its way fails it.
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
        """An event begins now, unless it has begun before."""

    def event_ends(self, event: Event, began: float, error: NriError | None = None) -> None:
        """An event is over; `began` is when it began, in monotonic seconds."""

    def plugin_asked(self, peer: Peer, event: Event) -> None:
        """A plugin is asked now."""

    def plugin_answered(self, peer: Peer, event: Event, reply: bytes) -> None:
        """A plugin has answered; `peer.latency_s` is how long that took."""

    def plugin_failed(self, peer: Peer, event: Event, error: Exception, waited_s: float) -> None:
        """A plugin has given no answer, or an error."""

    def reply_merged(self, peer: Peer, event: Event, message: Any, error: Exception | None = None) -> None:
        """An answer is part of the result, or cannot be because of an error."""

    # -- one plugin ---------------------------------------------------------------------------------------------------

    def wait_for_turn(self, place: Place, peer: Peer, event: Event, caller_deadline: float | None) -> Sent | None:
        """Wait for the event's turn at a plugin; returns the request if it has been sent meanwhile, as `Place.wait`."""
        event.start_waiting(peer)
        return place.wait(partial(self.begin, event=event, caller_deadline=caller_deadline))

    def begin(self, peer: Peer, policy: EventPolicy, event: Event, caller_deadline: float | None) -> Sent | None:
        """Send the request, for `ask` to wait for the answer; None: `ask` has to send it. Never waits or raises.

        For the thread that is about to leave the plugin, and for events that all plugins get at once.
        """
        if peer.state is not _ACTIVE or peer.event_policies[event.number] is not policy:  # the policy has changed
            return None
        silence = event.silence
        if silence is not None and silence.has_borne_silence(peer, peer.breaker.silence_s):
            return None
        began = monotonic()
        deadline = answer_deadline(began, policy.timeout_s, caller_deadline)
        try:
            exchange = peer.begin(event.request, deadline)
        except Exception:  # noqa: BLE001 - `ask` runs into it again, and raises it
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
        """Get the answer's bytes; None if there is none and the request goes on without. Needs the peer's lock.

        Args:
            caller_deadline: absolute, in monotonic seconds; None for none.
            sent: what `begin` returned for the same event.
            insist: no answer fails the request whatever the policy says (validation).
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
                    self._not_asked(peer, policy, event, insist)
                    return None
        try:
            if sent is not None:
                reply = peer.collect(event.request, sent.exchange, sent.deadline)
            else:
                reply = self._exchange(peer, event, answer_deadline(began, budget_s, caller_deadline))
        except Exception as error:  # noqa: BLE001 - what it means is decided there
            self.plugin_failed(peer, event, error, monotonic() - began)
            self._failed(peer, policy, event, error, budget_s, caller_deadline, insist)
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
        """Send and wait; reports and bookkeeping are done while the plugin is at work."""
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
        """Hold a big answer to the limits. Returns the answer to take; None for none. Needs the peer's lock.

        PluginError: it is more than a plugin may ask for, and the event fails because of it.
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
            del error  # it has this frame, with the reply: they would keep each other

    def take_answer(self, peer: Peer, policy: EventPolicy, event: Event, reply: bytes) -> None:
        """Have an answer merged; that of a shadow is only compared. The peer's lock is not needed.

        PluginError, ConflictError or UpdateError: the event fails because of it, and nothing of it was merged.
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
        """Log and count that a plugin's answer comes to nothing, because another plugin has failed the event."""
        self._reporting.withdrawn(peer.label, event.rpc, event.container_id, error)

    def _may_call(self, peer: Peer, policy: EventPolicy, event: Event, now: float, insist: bool) -> bool:
        """Whether a plugin that is not simply active is called. PluginUnavailable if the request needs it."""
        if peer.state in JOINED and peer.breaker.admit(now):
            return True
        is_gone = peer.state not in JOINED
        # A plugin that left of its own will, or that has not answered for long, does not fail later requests by what it
        # declared; only what the operator requires counts.
        namespace = event.request.pod.namespace
        is_declared = policy.fail_request and not is_gone and not self._breaker_lets_go
        if insist or is_declared or policy.policy.requires(policy.number, namespace):
            raise PluginUnavailable(peer.label, f"required for {event.rpc}, but {_standing(peer)}")
        return False

    def _failed(
        self,
        peer: Peer,
        policy: EventPolicy,
        event: Event,
        error: Exception,
        budget_s: float,
        caller_deadline: float | None,
        insist: bool,
    ) -> None:
        """Draw the consequences of a failure, as the table of this module says; raises if the request fails."""
        now = monotonic()
        try:
            if self._name_plugins and isinstance(error, RpcError):
                error = without_plugin_name(peer.label, error)
            if not isinstance(error, NriError):
                peer.breaker.abandoned()
                raise self._plugin_error(peer, RpcError(2, str(error) or type(error).__name__), error)
            if isinstance(error, OversizedMessage):  # it was not even asked
                peer.breaker.abandoned()
                raise error
            if not isinstance(error, _SILENT):
                peer.last_error = str(error)
                _reset(peer)
                if policy.policy.shadow:
                    self._reporting.shadow_answered(
                        shadow.failure(peer.label, event.rpc, event.request.pod, str(error))
                    )
                    return
                raise self._plugin_error(peer, error, error)
            fails_request = insist or self._refuses(peer, policy, event)
            if isinstance(error, DeadlineExceeded):
                if caller_deadline is not None and now >= caller_deadline:
                    peer.breaker.abandoned()
                    raise error
                _miss(event, peer, policy, budget_s, now)
            else:
                peer.breaker.miss(now)
                peer.signal(Signal.LOST, str(error))
            if fails_request:
                _refuse(peer, event, error)
            event.note_missing_answer(peer.label, str(error))
        finally:
            del error  # raised, it has this frame: they would keep each other, and the event

    def _not_asked(self, peer: Peer, policy: EventPolicy, event: Event, insist: bool) -> None:
        """Draw the consequences of a silence that has left an event no time: for the request, as of a late answer."""
        fails_request = insist or self._refuses(peer, policy, event)
        peer.breaker.abandoned()
        if fails_request:
            _refuse(peer, event, DeadlineExceeded(event.rpc))
        event.note_missing_answer(peer.label, "the event had no time left for it")

    def missed_turn(self, peer: Peer, policy: EventPolicy, event: Event, *, insist: bool = False) -> None:
        """Draw the consequences for an event that has waited too long for its turn: as of a late answer.

        The plugin stays connected, whatever its policy: it is slow, and answers others. `insist` is that of `ask`.
        """
        fails_request = insist or self._refuses(peer, policy, event)
        waited_s = turn_limit_s(policy.timeout_s)
        error = DeadlineExceeded(f"a plugin that was busy with earlier events for {waited_s:g} s")
        self.plugin_failed(peer, event, error, waited_s)
        peer.last_error = f"busy with earlier events for {waited_s:g} s when {event.rpc} wanted its turn"
        tripped = peer.breaker.miss(monotonic())
        peer.signal(Signal.TRIPPED if tripped else Signal.MISSED, peer.last_error)
        if fails_request:
            _refuse(peer, event, error)
        event.note_missing_answer(peer.label, str(error))

    def _refuses(self, peer: Peer, policy: EventPolicy, event: Event) -> bool:
        """Whether no answer fails the request; asked before the breaker hears of it."""
        if self._breaker_lets_go and peer.breaker.state is BreakerState.HALF_OPEN:
            return policy.policy.requires(policy.number, event.request.pod.namespace)
        return policy.must_answer(event.request.pod)

    def _plugin_error(self, peer: Peer, error: NriError, cause: Exception) -> NriError:
        raised = with_plugin_name(peer.label, error) if self._name_plugins else error
        if raised is not cause:
            raised.__cause__ = cause
        return raised


def _reset(peer: Peer) -> None:
    """Forget the missing answers of a plugin: it has answered more than it was asked before it was left out."""
    if peer.breaker.answered():
        peer.signal(Signal.ANSWERED)


def _miss(event: Event, peer: Peer, policy: EventPolicy, budget_s: float, now: float) -> None:
    """Count an answer that did not come, and cut the plugin off or leave it out if its policy says so.

    Args:
        budget_s: how long the plugin had, in seconds: that we look at it later than that is not its silence.
    """
    event.start_waiting(peer)
    share = budget_s / policy.timeout_s
    rest = "" if share >= WHOLE_MISS_SHARE else ", which others' waiting had left it"
    peer.last_error = what = f"no answer to {event.rpc} within {budget_s:.3g} s{rest}"
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
    """The error for the runtime, made from a plugin's own: it carries the plugin's name."""
    if not isinstance(error, RpcError):
        return PluginError(label, error.whole_text)
    if error.code == Code.PERMISSION_DENIED:
        return PluginRejected(label, error.message)
    return PluginError(label, error.whole_text, code=error.code, message=error.message)


def without_plugin_name(label: str, error: RpcError) -> RpcError:
    """Take the plugin's name out of a status text: it is there for runtimes that name no plugin, and we do."""
    for beginning in (f"plugin {label}: ", f"plugin {label} refused: "):
        if error.message.startswith(beginning):
            return RpcError(error.code, error.message.removeprefix(beginning))
    return error


def _standing(peer: Peer) -> str:
    """The standing of a plugin that cannot be asked, for an error's text."""
    state = "not connected" if peer.state is State.GONE else peer.state.value
    if peer.state is State.OPEN:
        state = f"left out after {count(peer.breaker.missed, 'request')} without an answer"
    return f"{state} ({peer.last_error})" if peer.last_error else state


def _refuse(peer: Peer, event: Event, cause: NriError) -> NoReturn:
    """Raise what the request fails with because of a plugin that gave no answer; the text is the reference's."""
    kind = PluginTimeout if isinstance(cause, DeadlineExceeded) else PluginClosed
    error = kind(peer.label, f"failed to handle {event.rpc} request: {cause}")
    error.args = (f"plugin {peer.label} failed to handle {event.rpc} request: {cause}",)
    error.__cause__ = cause  # by hand: compiled, a `raise` has no `from`
    try:
        raise error
    finally:
        del error, cause  # they have this frame, which must not keep them and the event
