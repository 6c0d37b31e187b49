"""Ask one plugin one question, and decide what a failure means: for the request, for the plugin, for both, for neither.

The table of outcomes (nri-protocol 5.5, and the operator's policy on top of it):

| outcome | the plugin | the request |
|---|---|---|
| an error status | stays; it has answered | fails with that error; goes on if the plugin is a shadow |
| late | stays, or is closed if its policy says so; a miss for its breaker | goes on, or fails if its policy says so |
| connection lost | is gone; a miss | goes on, or fails if its policy says so |
| the caller's own deadline passed | as if it had not been asked | fails with DeadlineExceeded |
| this side failed (an interceptor) | as if it had not been asked | fails with that error |
| left out (breaker open) or gone | not called | goes on, or fails if its policy says so |

Errors raised here are what the runtime's request fails with. Next: `nri.adaptation.dispatch.dispatcher`.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from nri.adaptation.audit import shadow
from nri.adaptation.peers.state import JOINED, Signal, State
from nri.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriError,
    PluginClosed,
    PluginError,
    PluginTimeout,
    PluginUnavailable,
    ProtocolError,
    RpcError,
)

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.peers.event_request import Question
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import Plan
    from nri.metrics import Observer
    from nri.rules import Rules
    from nri.ttrpc.collecting import Sent

    #: A question on its way: why, since when, until when (monotonic seconds), and what the connection says of it.
    Begun = tuple[Plan, float, float, Sent]

__all__ = ["Asker"]

log = logging.getLogger("nri.adaptation")

# Looking up a member of an enum costs more than a global, and this is asked for every plugin of every event.
_ACTIVE: Final = State.ACTIVE

# Kinds of failures that say that there is no answer, not that the answer was an error.
_SILENT = (DeadlineExceeded, ConnectionClosed, ProtocolError)


class Asker:
    """Asks plugins on behalf of the pipeline. Holds nothing of an event, so all threads share one."""

    __slots__ = ("_name_plugins", "observer")

    def __init__(self, rules: Rules, observer: Observer | None) -> None:
        self._name_plugins = rules.errors_name_plugin
        self.observer: Any = observer  # people write these: what theirs return is not looked at, not even compiled

    def begin(self, peer: Peer, plan: Plan, question: Question, caller_deadline: float | None) -> Begun | None:
        """Send the question, for `ask` to wait for the answer; None if `ask` has to send it. Never waits or raises."""
        if peer.state is not _ACTIVE or peer.plans[question.spec.number] is not plan:  # the policy has changed
            return None
        began = monotonic()
        deadline = began + plan.timeout_s
        if caller_deadline is not None and caller_deadline < deadline:
            deadline = caller_deadline
        try:
            sent = peer.begin(question, deadline)
        except Exception:  # noqa: BLE001 - whoever asks runs into it again, and is told
            return None
        return None if sent is None else (plan, began, deadline, sent)

    def ask(
        self,
        peer: Peer,
        plan: Plan,
        question: Question,
        caller_deadline: float | None,
        *,
        insist: bool = False,
        begun: Begun | None = None,
    ) -> bytes | None:
        """The reply's bytes; None if there is none and the request goes on without. Call with the peer's lock held.

        Args:
            caller_deadline: absolute, in monotonic seconds; None for none.
            insist: no answer fails the request whatever the policy says (validation).
            begun: what `begin` returned for the same question.
        """
        if begun is not None:
            _, began, deadline, sent = begun
        else:
            began, sent = monotonic(), None
            if peer.state is not _ACTIVE and not self._may_call(peer, plan, question, began, insist):
                return None
            deadline = began + plan.timeout_s
            if caller_deadline is not None and caller_deadline < deadline:
                deadline = caller_deadline
        try:
            reply = peer.invoke(question, deadline) if sent is None else peer.collect(question, sent, deadline)
        except NriError as error:
            self._observe(peer, question, began, error)
            self._failed(peer, plan, question, error, caller_deadline, insist)
            return None
        except Exception as error:
            self._observe(peer, question, began, error)
            peer.breaker.abandoned()
            raise self._plugin_error(peer, RpcError(2, str(error) or type(error).__name__), error) from error
        except BaseException:
            peer.breaker.abandoned()
            raise
        peer.latency_s = monotonic() - began
        if peer.state is not _ACTIVE or peer.breaker.missed:
            self.answered(peer)
        observer = self.observer
        if observer is not None:
            observer.record_plugin_invocation(peer.label, question.spec.rpc, None)
            observer.record_plugin_latency(peer.label, question.spec.rpc, peer.latency_s)
        return reply

    def _may_call(self, peer: Peer, plan: Plan, question: Question, now: float, insist: bool) -> bool:
        """Whether a plugin that is not simply active is called. PluginUnavailable if the request needs it."""
        if peer.state in JOINED and peer.breaker.admit(now):
            return True
        gone = peer.state not in JOINED
        # A plugin that left of its own will does not fail later requests by what it declared; only the operator's word
        # counts.
        if insist or plan.policy.requires(plan.number, question.pod.namespace) or (plan.fail_request and not gone):
            raise PluginUnavailable(peer.label, f"required for {question.spec.rpc}, but {self._standing(peer)}")
        return False

    @staticmethod
    def _standing(peer: Peer) -> str:
        state = "not connected" if peer.state is State.GONE else peer.state.value
        if peer.state is State.OPEN:
            state = f"left out after {peer.breaker.missed} requests without an answer"
        return f"{state} ({peer.last_error})" if peer.last_error else state

    @staticmethod
    def answered(peer: Peer) -> None:
        """The plugin answered: whatever was held against it is forgotten."""
        peer.breaker.answered()
        peer.signal(Signal.ANSWERED)

    def _observe(self, peer: Peer, question: Question, began: float, error: BaseException) -> None:
        if self.observer is not None:
            self.observer.record_plugin_invocation(peer.label, question.spec.rpc, error)
            self.observer.record_plugin_latency(peer.label, question.spec.rpc, monotonic() - began)

    def _failed(
        self, peer: Peer, plan: Plan, question: Question, error: NriError, caller_deadline: float | None, insist: bool
    ) -> None:
        now = monotonic()
        if not isinstance(error, _SILENT):
            peer.last_error = str(error)
            self.answered(peer)
            if plan.policy.shadow:
                report = shadow.failure(peer.label, question.spec.rpc, question.pod, str(error))
                log.info("%s", report)
                if self.observer is not None:
                    self.observer.record_shadow(report)
                return
            raise self._plugin_error(peer, error, error)
        if isinstance(error, DeadlineExceeded):
            if caller_deadline is not None and now >= caller_deadline:
                peer.breaker.abandoned()
                raise error
            self._miss(peer, plan, now, f"no answer to {question.spec.rpc} within {plan.timeout_s:g} s")
        else:
            peer.breaker.miss(now)
            peer.signal(Signal.LOST, str(error))
        if insist or plan.must_answer(question.pod):
            self._refuse(peer, question, error)

    @staticmethod
    def _miss(peer: Peer, plan: Plan, now: float, what: str) -> None:
        peer.last_error = what
        peer.breaker.miss(now)
        if not plan.keep_connected:
            peer.signal(Signal.FATAL, what)
        elif peer.breaker.missed >= peer.breaker.misses > 0:
            peer.signal(Signal.TRIPPED, what)
        else:
            peer.signal(Signal.MISSED, what)

    def _refuse(self, peer: Peer, question: Question, cause: NriError) -> NoReturn:
        """The request fails because of a plugin that gave no answer; the text is the reference's."""
        kind = PluginTimeout if isinstance(cause, DeadlineExceeded) else PluginClosed
        error = kind(peer.label, f"failed to handle {question.spec.rpc} request: {cause}")
        error.args = (f"plugin {peer.label} failed to handle {question.spec.rpc} request: {cause}",)
        error.__cause__ = cause  # by hand: compiled, a `raise` has no `from`
        raise error

    def _plugin_error(self, peer: Peer, error: NriError, cause: Exception) -> NriError:
        made = PluginError(peer.label, str(error)) if self._name_plugins else error
        if made is not cause:
            made.__cause__ = cause
        return made
