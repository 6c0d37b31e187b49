"""Ask all validators at once whether a merged adjustment may stand. Fail closed: no answer is a refusal.

The request shows the container as it was before any plugin touched it, the merged result, and who set what. Each
validator is asked under its own lock and with its own timeout, in a thread of its own if there are several. The first
refusal in order of completion counts. The checks of the default validator are `nri.policies.default_validator`.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING

from nri.adaptation.merge.container_view import normalise
from nri.adaptation.peers.event_request import Question
from nri.adaptation.peers.state import State
from nri.api import messages as m
from nri.api.events import BY_METHOD
from nri.errors import NriError, PluginError, ValidationRejected
from nri.policies.default_validator import UNKNOWN_REASON, failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nri.adaptation.dispatch.invoker import Asker
    from nri.adaptation.merge import CreateState
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import Plan

__all__ = ["request", "run"]

_SPEC = BY_METHOD["validate_container_adjustment"]


def request(pod: m.PodSandbox, container: m.Container, state: CreateState, present: Iterable[Peer]) -> bytes:
    """The bytes of the request that all validators get."""
    reply = state.reply()
    message = m.ValidateContainerAdjustmentRequest(
        pod=pod,
        container=container,
        adjust=reply.adjust,
        update=reply.update,
        owners=state.owners(),
        plugins=[m.PluginInstance(name=peer.name, index=peer.index) for peer in present],
    )
    normalise(message.container)
    encoded: bytes = message.SerializeToString()
    return encoded


def run(asker: Asker, validators: Sequence[Peer], payload: bytes, pod: m.PodSandbox, deadline: float | None) -> None:
    """Ask; ValidationRejected or PluginError if the adjustment may not stand."""
    question = Question.prepared(_SPEC, pod, payload)
    asked = [(peer, plan) for peer in validators if (plan := peer.plans[_SPEC.number]) is not None and plan.admits(pod)]
    if len(asked) == 1:
        error = _ask(asker, *asked[0], question, deadline)
        if error is not None:
            raise error
        return
    outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    for peer, plan in asked:
        work = (outcomes, asker, peer, plan, question, deadline)
        threading.Thread(target=_report, args=work, name=f"nri-validator-{peer.label}", daemon=True).start()
    for outcome in [outcomes.get() for _ in asked]:
        if outcome is not None:
            raise outcome


def _report(
    outcomes: queue.SimpleQueue[BaseException | None],
    asker: Asker,
    peer: Peer,
    plan: Plan,
    question: Question,
    deadline: float | None,
) -> None:
    try:
        outcomes.put(_ask(asker, peer, plan, question, deadline))
    except BaseException as error:  # noqa: BLE001 - the waiting thread must hear of everything
        outcomes.put(error)


def _ask(asker: Asker, peer: Peer, plan: Plan, question: Question, deadline: float | None) -> NriError | None:
    """One validator's verdict; None if it agrees."""
    try:
        peer.lock.acquire(deadline)
    except NriError as error:
        return error
    try:
        if peer.state is State.GONE:
            return None  # it left before it was asked: as if it had never been there
        reply = asker.ask(peer, plan, question, deadline, insist=not plan.policy.shadow)
        verdict = m.ValidateContainerAdjustmentResponse.FromString(reply or b"")
    except NriError as error:
        wrapped = PluginError(peer.label, str(error))
        wrapped.args = (failure(peer.label, error.__cause__ or error),)
        wrapped.__cause__ = error
        return wrapped
    except Exception as error:  # noqa: BLE001 - a verdict that cannot be read is none
        return None if plan.policy.shadow else PluginError(peer.label, f"its verdict cannot be read: {error}")
    finally:
        peer.lock.release()
    if verdict.reject and not plan.policy.shadow:
        return ValidationRejected(peer.label, verdict.reason or UNKNOWN_REASON)
    return None
