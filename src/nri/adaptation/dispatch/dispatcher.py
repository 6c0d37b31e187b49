"""One event from the runtime's call to its outcome: past the gate, through the plugins, into one answer.

Each plugin gets one event at a time, in one order for all plugins; how that is kept is `nri.adaptation.dispatch.order`.
`nri.adaptation.registration.sync_gate` keeps joining plugins apart. What a single plugin's failure means is `nri.adaptation.dispatch.invoker`; what
replies mean together is `nri.adaptation.merge`. Next: `nri.adaptation.adaptation`, which offers this to the runtime.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nri.adaptation.dispatch import validation as validating
from nri.adaptation.dispatch.folding import Fold
from nri.adaptation.dispatch.invoker import Asker
from nri.adaptation.dispatch.order import at_once, in_turn
from nri.adaptation.dispatch.replies import CreateReply, StopReply, UpdateReply
from nri.adaptation.merge import CreateState, StopState, UpdateState
from nri.adaptation.peers.event_request import CreateQuestion, Question, UpdateQuestion
from nri.api import messages as m
from nri.api.events import BY_METHOD, EventMask
from nri.errors import NriError, PluginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.audit.inventory import Entry, Known
    from nri.adaptation.audit.trail import Recorder
    from nri.adaptation.dispatch.order import Take
    from nri.adaptation.plugin_policy.policy import PluginPolicy
    from nri.adaptation.registration.chain import Chain
    from nri.rules import Rules

__all__ = ["Pipeline"]

log = logging.getLogger("nri.adaptation")

#: What always gets through: a node must be able to get rid of pods, whoever joins.
URGENT: Final = EventMask.of("StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer")

_CREATE, _UPDATE, _STOP = BY_METHOD["create_container"], BY_METHOD["update_container"], BY_METHOD["stop_container"]


class _Parts(NamedTuple):
    """A request's messages side by side; putting them into one message would copy them."""

    pod: Any
    container: Any
    linux_resources: Any = None


class _Ahead:
    """What a creation takes besides the replies: done while the first plugin is at work, or else at the end."""

    __slots__ = ("_container", "_entry", "_pod", "_recorder")

    def __init__(self, recorder: Recorder, pod: m.PodSandbox, container: m.Container) -> None:
        self._recorder, self._pod, self._container = recorder, pod, container
        self._entry: Entry | None = None

    def work(self) -> None:
        """There is time now."""
        self._entry = self._recorder.inventory.entry(self._pod, self._container)
        self._recorder.tidy()

    def entry(self) -> Entry:
        """What is known of the container without its adjustment."""
        return self._entry or self._recorder.inventory.entry(self._pod, self._container)


class Pipeline:
    """Relays events. Thread-safe: everything of one event is on its thread's stack.

    Args:
        patience_s: how long an event waits for a plugin that joins, in seconds.
        fan_out: the events that all plugins get at once.
    """

    def __init__(
        self,
        chain: Chain,
        asker: Asker,
        rules: Rules,
        recorder: Recorder,
        patience_s: float,
        fan_out: EventMask = EventMask(0),  # noqa: B008 - an int
    ) -> None:
        self._chain = chain
        self._asker = asker
        self._rules = rules
        self._recorder = recorder
        self._patience_s = patience_s
        self._fan_out = fan_out
        #: ``NN-name`` and policy of the plugins that are required and not in the chain.
        self.absent: tuple[tuple[str, PluginPolicy], ...] = ()

    # -- the walk -----------------------------------------------------------------------------------------------------

    def relay(
        self,
        question: Question,
        deadline: float | None,
        take: Take | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Put a question to all plugins; `take` gets each reply, `after` runs at the end, before any join."""
        chain = self._chain
        urgent = bool(URGENT >> question.spec.number - 1 & 1)
        if not chain.gate.enter(urgent=urgent, deadline=deadline, patience_s=self._patience_s):
            log.warning(
                "%s goes on while a plugin joins: `synchronize` has not returned for %g s. Does it wait for a lock that"
                " callers of events hold? Hold block_sync() around such calls",
                question.spec.rpc, self._patience_s,
            )  # fmt: skip
        try:
            if self.absent:
                self._refuse_if_required(question)
            if not chain.peers:
                pass
            elif take is None and self._fan_out >> question.spec.number - 1 & 1:
                at_once(self._asker, chain.peers, question, deadline)
            else:
                in_turn(self._asker, chain.peers, question, deadline, take)
            if after is not None:
                after()
        finally:
            chain.gate.leave()

    def _refuse_if_required(self, question: Question) -> None:
        for label, policy in self.absent:
            if policy.requires(question.spec.number, question.pod.namespace):
                raise PluginUnavailable(label, f"required for {question.spec.rpc}, but not connected")

    # -- the events with an answer ------------------------------------------------------------------------------------

    def create(self, pod: m.PodSandbox, container: m.Container, deadline: float | None) -> CreateReply:
        """CreateContainer: merged adjustment, side updates, evictions; validated."""
        known = self._recorder.inventory.known()
        state = CreateState(_Parts(pod, container), self._rules, known)  # type: ignore[arg-type]
        question = CreateQuestion(_CREATE, pod, container, state)
        fold = self._fold(question, state, m.CreateContainerResponse, known)
        ahead = _Ahead(self._recorder, pod, container)
        question.meanwhile = ahead.work
        validators = self._chain.validators

        def validate() -> None:
            present = fold.answered if self._rules.validators_see_answerers else self._chain.peers
            validating.run(self._asker, validators, validating.request(pod, container, state, present), pod, deadline)

        self._run(fold, deadline, validate if validators else None)
        return CreateReply(state, self._recorder, container.id, ahead.entry())

    def update(
        self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, deadline: float | None
    ) -> UpdateReply:
        """UpdateContainer: what the container is to have, and updates of others."""
        known = self._recorder.inventory.known()
        state = UpdateState(_Parts(pod, container, resources), self._rules, known)  # type: ignore[arg-type]
        question = UpdateQuestion(_UPDATE, pod, container, state)
        self._run(self._fold(question, state, m.UpdateContainerResponse, known), deadline)
        return UpdateReply(state.reply(), state, self._recorder, container.id, resources)

    def stop(self, pod: m.PodSandbox, container: m.Container, deadline: float | None) -> StopReply:
        """StopContainer: updates of others."""
        known = self._recorder.inventory.known()
        state = StopState(_Parts(pod, container), self._rules, known)  # type: ignore[arg-type]
        self._run(self._fold(Question(_STOP, pod, container), state, m.StopContainerResponse, known), deadline)
        return StopReply(state.reply(), state, self._recorder)

    def _fold(self, question: Question, state: Any, kind: Any, known: Known) -> Fold:
        return Fold(question, state, kind, self._recorder.inventory, known, self._asker.observer)

    def _run(self, fold: Fold, deadline: float | None, after: Callable[[], None] | None = None) -> None:
        """Relay, and have the event recorded, whether it went well or not."""
        try:
            self.relay(fold.question, deadline, fold.take, after)
        except NriError as error:
            self._recorder.event(fold, str(error))
            raise
        self._recorder.event(fold)
