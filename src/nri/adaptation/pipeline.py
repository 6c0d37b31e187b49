"""Walk an event through the plugins: in order, one event at a time per plugin, different events in different plugins.

Hand over hand: an event takes its place in the queue of the next plugin before it leaves the one at hand, also where a
plugin is not subscribed. So the order of arrival at the first plugin is the order at every plugin, and a slow plugin holds
up what is behind it, not what is ahead. Nothing is held while an event waits, so there is no deadlock. `nri.adaptation.gate`
keeps joining plugins apart. What a single plugin's failure means is `nri.adaptation.asking`; what replies mean together is
`nri.adaptation.merge`. Next: `nri.adaptation.adaptation`, which offers this to the runtime.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from nri.adaptation import allow, validating
from nri.adaptation.asking import Asker
from nri.adaptation.inventory import Known
from nri.adaptation.merge import CreateState, StopState, UpdateState
from nri.adaptation.question import CreateQuestion, Question
from nri.adaptation.replies import CreateReply, StopReply, UpdateReply
from nri.api import messages as m
from nri.api.events import BY_METHOD, EventMask
from nri.errors import NriError, PluginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.chain import Chain
    from nri.adaptation.peer import Peer
    from nri.adaptation.plans import Plan
    from nri.adaptation.policy import PluginPolicy
    from nri.adaptation.recording import Recorder
    from nri.adaptation.rules import Rules

    Fold = Callable[[Peer, Plan, bytes], None]

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
        fold: Fold | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Put a question to all plugins in turn; `fold` gets each reply, `after` runs at the end, before plugins may join."""
        number = question.spec.number
        chain, ask = self._chain, self._asker.ask
        urgent = bool(URGENT >> number - 1 & 1)
        if not chain.gate.enter(urgent=urgent, deadline=deadline, patience_s=self._patience_s):
            log.warning(
                "%s goes on while a plugin joins: `synchronize` has not returned for %g s. Does it wait for a lock that callers"
                " of events hold? Hold block_sync() around such calls",
                question.spec.pretty, self._patience_s,
            )  # fmt: skip
        try:
            if self.absent:
                self._refuse_if_required(question)
            held = None
            try:
                for peer in chain.peers:
                    lock = peer.lock
                    ticket = lock.place()
                    if held is not None:
                        held.release()
                        held = None
                    if ticket is not None:
                        lock.wait(ticket, deadline)
                    held = lock
                    plan = peer.plans[number]
                    if plan is None or (plan.guarded and not plan.admits(question.pod)):
                        continue
                    reply = ask(peer, plan, question, deadline)
                    if reply is not None and fold is not None:
                        fold(peer, plan, reply)
            finally:
                if held is not None:
                    held.release()
            if after is not None:
                after()
        finally:
            chain.gate.leave()

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
        validators = self._chain.validators
        answered: list[Peer] = []

        def fold(peer: Peer, plan: Plan, reply: bytes) -> None:
            answered.append(peer)
            if reply and self._take(peer, plan, question, state, m.CreateContainerResponse.FromString(reply), known):
                question.adjusted()

        def validate() -> None:
            present = answered if self._rules.validators_see_answerers else list(self._chain.peers)
            validating.run(self._asker, validators, validating.request(pod, container, state, present), pod, deadline)

        self.relay(question, deadline, fold, validate if validators else None)
        return CreateReply(state.reply(), state, self._recorder, pod, container)

    def update(
        self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, deadline: float | None
    ) -> UpdateReply:
        """UpdateContainer: what the container is to have, and updates of others."""
        known = self._recorder.inventory.known()
        state = UpdateState(_Parts(pod, container, resources), self._rules, known)  # type: ignore[arg-type]
        question = Question(_UPDATE, pod, container, state.resources)
        revision = state.revision

        def fold(peer: Peer, plan: Plan, reply: bytes) -> None:
            nonlocal revision
            if reply:
                self._take(peer, plan, question, state, m.UpdateContainerResponse.FromString(reply), known)
                if state.revision != revision:
                    revision = state.revision
                    question.show_resources(state.resources)

        self.relay(question, deadline, fold)
        return UpdateReply(state.reply(), state, self._recorder, container.id, resources)

    def stop(self, pod: m.PodSandbox, container: m.Container, deadline: float | None) -> StopReply:
        """StopContainer: updates of others."""
        known = self._recorder.inventory.known()
        state = StopState(_Parts(pod, container), self._rules, known)  # type: ignore[arg-type]
        question = Question(_STOP, pod, container)

        def fold(peer: Peer, plan: Plan, reply: bytes) -> None:
            if reply:
                self._take(peer, plan, question, state, m.StopContainerResponse.FromString(reply), known)

        self.relay(question, deadline, fold)
        return StopReply(state.reply(), state)

    def _take(self, peer: Peer, plan: Plan, question: Question, state: Any, reply: Any, known: Known) -> bool:
        """Merge one reply. False if it changed nothing: the plugin is a shadow."""
        adjust = reply.adjust if question.spec is _CREATE and reply.HasField("adjust") else None
        evict = () if question.spec is _STOP else reply.evict
        if plan.policy.allow is not None and not plan.policy.shadow:
            breach = allow.breach(
                plan.policy.allow, peer.label, question.pod.namespace, plan.number,
                adjust=adjust, update=reply.update, evict=evict, namespace_of=known.namespace_of,
            )  # fmt: skip
            if breach is not None:
                peer.last_error = str(breach)
                raise breach
        if plan.policy.shadow:
            self._recorder.shadow(peer, question, state, reply)
            return False
        before = self._recorder.before(state)
        try:
            state.apply(peer.label, reply)
        except NriError as error:
            peer.last_error = str(error)
            raise
        self._recorder.took(peer, question, state, reply, before)
        observer = self._asker.observer
        if observer is not None:
            observer.record_plugin_adjustments(peer.label, question.spec.pretty, adjust, len(reply.update), len(evict))
        return True
