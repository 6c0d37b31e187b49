"""Walk an event through the plugins: in order, one event at a time per plugin, different events in different plugins.

Hand over hand: an event takes its place in the queue of the next plugin before it leaves the one at hand, also where a
plugin is not subscribed. So the order of arrival at the first plugin is the order at every plugin, and a slow plugin
holds up what is behind it, not what is ahead. Nothing is held while an event waits, so there is no deadlock.
`nri.adaptation.gate` keeps joining plugins apart. What a single plugin's failure means is `nri.adaptation.asking`; what
replies mean together is `nri.adaptation.merge`. Next: `nri.adaptation.adaptation`, which offers this to the runtime.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.adaptation import validating
from nri.adaptation.asking import Asker
from nri.adaptation.folding import Fold
from nri.adaptation.merge import CreateState, StopState, UpdateState
from nri.adaptation.question import CreateQuestion, Question, UpdateQuestion
from nri.adaptation.replies import CreateReply, StopReply, UpdateReply
from nri.api import messages as m
from nri.api.events import BY_METHOD, EventMask
from nri.errors import NriError, PluginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adaptation.asking import Begun
    from nri.adaptation.chain import Chain
    from nri.adaptation.fifo import FifoLock, Ticket
    from nri.adaptation.inventory import Known
    from nri.adaptation.peer import Peer
    from nri.adaptation.plans import Plan
    from nri.adaptation.policy import PluginPolicy
    from nri.adaptation.recording import Recorder
    from nri.adaptation.rules import Rules

    Take = Callable[[Peer, Plan, bytes], None]

__all__ = ["Pipeline"]

log = logging.getLogger("nri.adaptation")

#: What always gets through: a node must be able to get rid of pods, whoever joins.
URGENT = EventMask.of("StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer")

_CREATE, _UPDATE, _STOP = BY_METHOD["create_container"], BY_METHOD["update_container"], BY_METHOD["stop_container"]


class _Parts(NamedTuple):
    """A request's messages side by side; putting them into one message would copy them."""

    pod: Any
    container: Any
    linux_resources: Any = None


class Pipeline:
    """Relays events. Thread-safe: everything of one event is on its thread's stack."""

    def __init__(self, chain: Chain, asker: Asker, rules: Rules, recorder: Recorder, patience_s: float) -> None:
        self._chain = chain
        self._asker = asker
        self._rules = rules
        self._recorder = recorder
        self._patience_s = patience_s
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
        """Put a question to all plugins in turn; `take` gets each reply, `after` runs at the end, before any join."""
        chain = self._chain
        urgent = bool(URGENT >> question.spec.number - 1 & 1)
        if not chain.gate.enter(urgent=urgent, deadline=deadline, patience_s=self._patience_s):
            log.warning(
                "%s goes on while a plugin joins: `synchronize` has not returned for %g s. Does it wait for a lock that"
                " callers of events hold? Hold block_sync() around such calls",
                question.spec.pretty, self._patience_s,
            )  # fmt: skip
        try:
            if self.absent:
                self._refuse_if_required(question)
            self._walk(chain.peers, question, deadline, take)
            if after is not None:
                after()
        finally:
            chain.gate.leave()

    def _walk(self, peers: Sequence[Peer], question: Question, deadline: float | None, take: Take | None) -> None:
        """From plugin to plugin. Under a plugin's lock it is only asked: encoding comes before, merging after."""
        if not peers:
            return
        number = question.spec.number
        ask = self._asker.ask
        if peers[0].takes_bytes and peers[0].plans[number] is not None:
            question.payload  # noqa: B018 - encodes it, once for all
        lock: FifoLock | None = peers[0].lock
        turn = peers[0].lock.place()
        try:
            for peer, following in zip(peers, (*peers[1:], None), strict=True):
                here, begun = peer.lock, None
                if turn is not None:
                    self._leave_word(peer, question, turn, deadline)
                    ticket, turn, lock = turn, None, None  # a wait that fails has given up its place by itself
                    begun = self._await_turn(peer, ticket, deadline)
                lock = here
                plan = peer.plans[number] if begun is None else begun[0]
                if plan is not None and plan.guarded and begun is None and not plan.admits(question.pod):
                    plan = None
                reply = None if plan is None else ask(peer, plan, question, deadline, begun=begun)
                if following is not None:
                    turn = following.lock.place()
                    lock = following.lock
                else:
                    lock = None
                here.release()
                if reply is not None and plan is not None and take is not None:
                    take(peer, plan, reply)
        finally:
            if lock is not None:
                lock.leave(turn)

    def _leave_word(self, peer: Peer, question: Question, ticket: Ticket, deadline: float | None) -> None:
        """Have the event before this one send the question, if it can."""
        plan = peer.plans[question.spec.number]
        if plan is not None and peer.takes_bytes and not (plan.guarded and not plan.admits(question.pod)):
            question.payload  # noqa: B018 - encodes it, in this thread
            ticket.begin = partial(self._asker.begin, peer, plan, question, deadline)

    @staticmethod
    def _await_turn(peer: Peer, ticket: Ticket, deadline: float | None) -> Begun | None:
        """Wait for an event's turn at a plugin; returns what the event before it has begun."""
        try:
            peer.lock.wait(ticket, deadline)
        except BaseException:
            if ticket.begun is not None:
                peer.abandon(ticket.begun[3])
            raise
        begun: Begun | None = ticket.begun
        return begun

    def _refuse_if_required(self, question: Question) -> None:
        for label, policy in self.absent:
            if policy.requires(question.spec.number, question.pod.namespace):
                raise PluginUnavailable(label, f"required for {question.spec.pretty}, but not connected")

    # -- the events with an answer ------------------------------------------------------------------------------------

    def create(self, pod: m.PodSandbox, container: m.Container, deadline: float | None) -> CreateReply:
        """CreateContainer: merged adjustment, side updates, evictions; validated."""
        known = self._recorder.inventory.known()
        state = CreateState(_Parts(pod, container), self._rules, known)  # type: ignore[arg-type]
        question = CreateQuestion(_CREATE, pod, container, state)
        fold = self._fold(question, state, m.CreateContainerResponse, known)
        validators = self._chain.validators

        def validate() -> None:
            present = fold.answered if self._rules.validators_see_answerers else self._chain.peers
            validating.run(self._asker, validators, validating.request(pod, container, state, present), pod, deadline)

        self._run(fold, deadline, validate if validators else None)
        return CreateReply(state, self._recorder, pod, container)

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
