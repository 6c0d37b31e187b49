"""Ask all validators at once whether a merged adjustment is acceptable. A missing answer is a refusal.

The request shows the container before any plugin changed it, the merged result, and the owner of each field. Each
validator is asked under its own lock and with its own timeout, in a separate thread if there are several. The first
refusal to arrive is the one that is raised. A validator that was connected when the event passed the sync gate is
asked, or the event is refused, because a validator that has left in the meantime has not agreed. The default validator
is a built-in plugin; its decision is `nri.api.default_validator`.
"""

from __future__ import annotations

import queue
import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.dispatch.event import Event
from nri.adaptation.peers.builtin import BuiltinPlugin
from nri.adaptation.peers.event_request import EventRequest
from nri.adaptation.peers.state import State
from nri.adaptation.time_budget import SilenceBudget, turn_deadline, turn_limit_s
from nri.api import messages as m
from nri.api.default_validator import INDEX, NAME, UNKNOWN_REASON, DefaultValidator, failure
from nri.api.events import BY_METHOD
from nri.errors import DeadlineExceeded, NriError, PluginClosed, PluginError, ValidationRejected
from nri.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from nri.adaptation.dispatch.invoker import Invoker
    from nri.adaptation.peers.peer import Peer
    from nri.api.default_validator import ValidatorConfig
    from nri.api.validation import ValidationRequest
    from nri.plugin_policy.event_policy import EventPolicy
    from nri.rules import Rules

_SPEC: Final = BY_METHOD["validate_container_adjustment"]
_CREATE: Final = BY_METHOD["create_container"]


class _Validation:
    """The default validator as an object with handlers."""

    def __init__(self, config: ValidatorConfig, rules: Rules) -> None:
        self._validator = DefaultValidator(config, rules)

    def validate_container_adjustment(self, request: ValidationRequest) -> str | None:
        """The reason for a refusal, or None if the adjustment is accepted."""
        return self._validator.validate(request.message)


def default_validators(config: ValidatorConfig | None, rules: Rules) -> list[BuiltinPlugin]:
    """The default validator as a built-in plugin, in a list; the list is empty if the validator is off."""
    if config is None or not config.enable:
        return []
    return [BuiltinPlugin(INDEX, NAME, _Validation(config, rules))]


def present(validators: Sequence[Peer], pod: m.PodSandbox) -> list[Peer]:
    """The validators that are connected, or are required for this pod."""
    return [peer for peer in validators if peer.state is not State.GONE or _is_required(peer, pod)]


def _is_required(peer: Peer, pod: m.PodSandbox) -> bool:
    policy = peer.event_policies[_SPEC.number]
    return policy is not None and policy.policy.requires(_CREATE.number, pod.namespace)


def validate(
    invoker: Invoker,
    validators: Iterable[Peer],
    encoded: bytes,
    pod: m.PodSandbox,
    deadline: float | None,
    creation: Event | None = None,
) -> None:
    """Ask the validators. Raises ValidationRejected or PluginError if the adjustment is refused.

    Args:
        encoded: the request's bytes.
        pod: the container's pod, for filters of policies.
        deadline: the caller's deadline, absolute in monotonic seconds; None for no deadline.
        creation: the validated event, whose silence budget continues during the validation and whose serial number
            reporters get.
    """
    event = Event(EventRequest.of_bytes(_SPEC, pod, encoded))
    if creation is not None:
        event.serial, event.reported = (
            creation.serial,
            True,
        )  # the validation belongs to that event and is not a separate event
    silence = None if creation is None else creation.silence
    event.silence = SilenceBudget() if silence is None else silence.copy()
    recipients = [
        (peer, policy)
        for peer in validators
        if (policy := peer.event_policies[_SPEC.number]) is not None and policy.admits(pod)
    ]
    if len(recipients) == 1:
        error = _verdict(invoker, *recipients[0], event, deadline)
        try:
            if error is not None:
                raise error
        finally:
            del error  # the error refers to this frame: break the reference cycle
        return
    outcomes: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
    for peer, policy in recipients:
        work = (outcomes, invoker, peer, policy, event, deadline)
        thread = threading.Thread(target=_put_verdict, args=work, name=f"nri-validator-{peer.label}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no further thread can be started at present
            outcomes.put(None if policy.policy.shadow else _not_asked(peer, error))
    for outcome in [outcomes.get() for _ in recipients]:
        try:
            if outcome is not None:
                raise outcome
        finally:
            del outcome


def _put_verdict(
    outcomes: queue.SimpleQueue[BaseException | None],
    invoker: Invoker,
    peer: Peer,
    policy: EventPolicy,
    event: Event,
    deadline: float | None,
) -> None:
    try:
        outcomes.put(_verdict(invoker, peer, policy, event, deadline))
    except BaseException as error:  # noqa: BLE001 - the waiting thread must get every outcome
        outcomes.put(error)


def _verdict(
    invoker: Invoker, peer: Peer, policy: EventPolicy, event: Event, deadline: float | None
) -> NriError | None:
    """Ask one validator. Returns the error to raise, or None if the validator agrees."""
    event.start_waiting(peer)
    limit = turn_deadline(monotonic(), turn_limit_s(policy.timeout_s) if peer.turn_s else 0.0, deadline)
    try:
        peer.lock.acquire(limit)
    except DeadlineExceeded as error:
        if limit == deadline:  # the caller's own deadline
            return error
        try:
            invoker.missed_turn(peer, policy, event, insist=not policy.policy.shadow)
        except NriError as refusal:
            return _no_verdict(invoker, peer, refusal)
        return None
    except NriError as error:
        return error
    try:
        if peer.state is State.GONE:
            missed = invoker.validators_missed or _is_required(peer, event.request.pod)
            if policy.policy.shadow or not missed:
                return None
            return PluginClosed(peer.label, f"validator plugin {peer.label} disconnected before it was called")
        reply = invoker.ask(peer, policy, event, deadline, insist=not policy.policy.shadow)
        verdict = m.ValidateContainerAdjustmentResponse.FromString(reply or b"")
    except NriError as error:
        return _no_verdict(invoker, peer, error)
    except Exception as error:  # noqa: BLE001 - an invalid verdict is not an agreement
        return None if policy.policy.shadow else PluginError(peer.label, f"its verdict is invalid: {error}")
    finally:
        peer.lock.release()
    if verdict.reject and not policy.policy.shadow:
        return ValidationRejected(peer.label, plain(verdict.reason) or UNKNOWN_REASON)
    return None


def _not_asked(peer: Peer, cause: RuntimeError) -> PluginError:
    """The error for a validator that was not asked, because no thread could be started."""
    step = "the plugin was not called; allow the runtime more threads: TasksMax of its unit, or pids.max of its cgroup"
    error = PluginError(peer.label, f"{failure(peer.label, cause)} ({step})")
    error.args = (error.reason,)
    return error


def _no_verdict(invoker: Invoker, peer: Peer, error: NriError) -> PluginError:
    """The error for a validator without a verdict."""
    kind = type(error) if isinstance(error, PluginError) else PluginError  # PluginTimeout for a late verdict
    wrapped = kind(peer.label, str(error), code=getattr(error, "code", None), message=getattr(error, "message", None))
    wrapped.args = (failure(peer.label, invoker.failure_text(peer, error.__cause__ or error)),)
    wrapped.__cause__ = error
    return wrapped
