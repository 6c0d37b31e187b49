"""Dispatch an event to all plugins, in the order of their indices.

        past the sync gate                      no plugin joins in the middle of an event
        for each plugin, by index               `nri.adaptation.peers.turns`: one event at a time, in the same order
        everywhere
            ask it, wait for its answer         `invoker`: the deadline, and what a failure means
            check the size of a big answer      `reply_limits`: an oversized answer is refused before any work is done
            release the plugin                  it is free for the next event before the answer is merged
            merge the answer                    `event`: policy, then merge
        validate                                `validation`: a single refusal fails the creation
        record                                  the audit trail
        reply                                   `reply`: what the runtime gets, and what it changes

Thread-safe: the state of an event is on its caller's stack.
"""

from __future__ import annotations

import logging
from os import getpid
from time import monotonic
from typing import TYPE_CHECKING, Final

from nri.adaptation.dispatch.event import AnsweredEvent, CreateEvent, Event, StopEvent, UpdateEvent
from nri.adaptation.dispatch.validation import present, validate
from nri.adaptation.merge.limits import MAX_ENTRIES
from nri.adaptation.peers.event_request import EventRequest
from nri.adaptation.peers.turns import Place
from nri.adaptation.time_budget import check_deadline
from nri.api.events import BY_METHOD, EventMask
from nri.errors import LocalProtocolError, NriError, PluginUnavailable
from nri.plugin_policy.policy import DISPOSAL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.dispatch.invoker import Invoker
    from nri.adaptation.dispatch.reply import CreateReply, Replies, StopReply, UpdateReply
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.peers.turns import Sent
    from nri.adaptation.registration.chain import Chain
    from nri.api import messages as m
    from nri.plugin_policy.event_policy import EventPolicy
    from nri.rules import Rules

log = logging.getLogger("nri.adaptation")

#: Events that do not wait for joining plugins: a node must always be able to get rid of pods.
URGENT: Final = frozenset(spec.number for spec in DISPOSAL_EVENTS)

#: The event that a plugin gets if its answer was not empty and the event was refused.
_EVENT_AFTER_REFUSAL: Final = {
    BY_METHOD["create_container"].number: BY_METHOD["remove_container"],
    BY_METHOD["update_container"].number: BY_METHOD["post_update_container"],
}


class Dispatcher:
    """The dispatcher, which passes events through the plugins.

    Args:
        chain: the plugins.
        invokers: the invokers for events without observers, for an observer, and for reporters.
        reporting: the observer and the reporters.
        replies: creates the replies to the runtime, and has the live state.
        rules: the deviations from the Go library.
        patience_s: how long an event waits for a joining plugin, in seconds.
        fan_out: the events that all plugins get at once.
        tell_refused: notify plugins whose answer was dropped.
    """

    def __init__(
        self,
        chain: Chain,
        invokers: tuple[Invoker, Invoker, Invoker],
        reporting: Reporting,
        replies: Replies,
        rules: Rules,
        patience_s: float,
        fan_out: EventMask,
        *,
        tell_refused: bool = False,
    ) -> None:
        self._tell_refused = tell_refused
        self._chain = chain
        self._invokers = invokers
        self._reporting = reporting
        self._rules = rules
        self._passes_others = rules.disposal_passes_others
        self._replies = replies
        self._trail = replies.trail
        self._deferred_updates = replies.deferred_updates
        self._closed = ""
        self.close("the adaptation has not been started: call start() first")
        self._patience_s = patience_s
        self._fan_out = frozenset(spec.number for spec in fan_out)

    def open(self) -> None:
        """Accept events."""
        self._closed = ""

    def close(self, why: str) -> None:
        """Refuse further events with LocalProtocolError, if the rules say so. `why` is the text of the error."""
        if self._rules.events_need_start:
            self._closed = why

    # -- one method per kind of event ---------------------------------------------------------------------------------

    def create_container(self, pod: m.PodSandbox, container: m.Container, deadline: float | None) -> CreateReply:
        """Process CreateContainer: validated adjustment, updates of other containers, evictions."""
        with self._trail.inventory.creating(container.id, pod.namespace):
            event = CreateEvent(pod, container, self._rules, self._trail)
            self._run(event, deadline)
            return self._replies.to_creation(event)

    def update_container(
        self, pod: m.PodSandbox, container: m.Container, resources: m.LinuxResources, deadline: float | None
    ) -> UpdateReply:
        """Process UpdateContainer: the container's resources, and updates of other containers."""
        event = UpdateEvent(pod, container, resources, self._rules, self._trail)
        self._run(event, deadline)
        return self._replies.to_update(event)

    def stop_container(self, pod: m.PodSandbox, container: m.Container, deadline: float | None) -> StopReply:
        """Process StopContainer: updates of other containers."""
        event = StopEvent(pod, container, self._rules, self._trail)
        self._run(event, deadline)
        return self._replies.to_stop(event)

    def relay(self, request: EventRequest, deadline: float | None) -> None:
        """Pass on an event without an answer."""
        self._run(Event(request), deadline)

    # -- through all plugins ------------------------------------------------------------------------------------------

    def _run(self, event: Event, deadline: float | None) -> None:
        """Pass an event through the gate and the plugins, and record it, even if it fails."""
        if self._closed:
            raise LocalProtocolError(f"{event.rpc}: {self._closed}")
        if self._deferred_updates.waiting and event.request.container is not None:
            self._deferred_updates.hand_over_soon(event.request.container.id)
        reporting = self._reporting
        invoker = self._invokers[reporting.watched + reporting.recorded]  # reporters are watchers, too
        provenance = self._trail.provenance
        began = monotonic()
        try:
            gate = self._chain.gate
            if not gate.enter(event.number in URGENT, deadline, self._patience_s):
                self._warn_of_joiner(event)
            try:
                self._pass_plugins(event, invoker, deadline)
            except NriError as error:
                if isinstance(event, AnsweredEvent) and event.replies:
                    self._withdraw(event, invoker, error)
                raise
            finally:
                gate.leave()
        except NriError as error:
            if provenance is not None:
                event.record(provenance, str(error))
            invoker.event_ends(event, began, error)
            raise
        if provenance is not None:
            event.record(provenance)
        invoker.event_ends(event, began)

    def _withdraw(self, event: AnsweredEvent, invoker: Invoker, error: NriError) -> None:
        """Report the answers that are dropped because the event fails, and notify their plugins with `tell_refused`.

        The protocol has no event for this case. The closest event makes a plugin look at the container again.
        """
        request = event.request
        container = request.container
        assert container is not None
        failing = getattr(error, "plugin", "")
        peers = [peer for peer in event.peers_with_replies() if peer.label != failing]
        for peer in peers:
            invoker.answer_withdrawn(peer, event, error)
        spec = _EVENT_AFTER_REFUSAL.get(event.number)
        if not (self._tell_refused and peers and spec is not None):
            return
        notice = Event(EventRequest(spec, request.pod, container))
        for peer in peers:
            try:
                self._ask_in_turn(notice, invoker, [peer], None)
            except NriError as fault:
                log.warning("plugin %s failed %s after %s was refused: %s", peer.label, spec.rpc, event.rpc, fault)

    def _pass_plugins(self, event: Event, invoker: Invoker, deadline: float | None) -> None:
        """Ask the plugins in ascending order of their indices, then the validators."""
        chain = self._chain
        peers = chain.peers
        expected: Sequence[Peer] = ()
        if chain.validators and invoker.validators_missed and isinstance(event, CreateEvent):
            expected = present(chain.validators, event.request.pod)
        if chain.absent:
            self._refuse_if_required(event)
        if peers:
            first = peers[0]
            if first.takes_bytes and first.event_policies[event.number] is not None:
                event.request.encoded()  # encoded before any lock is held, so that other events need not wait for it
            if event.number in self._fan_out and len(peers) > 1:
                self._ask_all_at_once(event, invoker, peers, deadline)
            else:
                self._ask_in_turn(event, invoker, peers, deadline)
        # Look validators up again: an event that did not wait for a joining plugin may have reached a new validator.
        if (expected or chain.validators) and isinstance(event, CreateEvent):
            pod = event.request.pod
            validators = dict.fromkeys([*expected, *present(chain.validators, pod)])
            if validators:
                peers_shown = event.answering_peers if self._rules.validators_see_answerers else peers
                encoded = event.validation_request(peers_shown, sent=any(peer.takes_bytes for peer in validators))
                if deadline is not None:
                    check_deadline(event.rpc, monotonic(), deadline)
                invoker.event_starts(event)
                validate(invoker, validators, encoded, pod, deadline, event)

    def _ask_in_turn(self, event: Event, invoker: Invoker, peers: Sequence[Peer], deadline: float | None) -> None:
        """Ask one plugin after the other; each sees the changes of the earlier ones."""
        place = Place(event.request, peers, deadline, self._passes_others and event.number in URGENT)
        answered = event if isinstance(event, AnsweredEvent) else None  # answers to other events are ignored
        try:
            for peer in peers:
                sent = invoker.wait_for_turn(place, peer, event, deadline) if place.ticket is not None else None
                # A request that was sent keeps its policy.
                policy = peer.event_policies[event.number] if sent is None else sent.policy
                if policy is not None and policy.guarded and sent is None and not policy.admits(event.request.pod):
                    policy = None
                reply = None
                if place.missed:
                    if policy is not None:
                        invoker.missed_turn(peer, policy, event)
                elif policy is not None:
                    reply = invoker.ask(peer, policy, event, deadline, sent=sent)
                    event.answer_number = peer.answer
                    if reply is not None and len(reply) > MAX_ENTRIES:
                        reply = invoker.check_size(peer, policy, event, reply)
                # Release the plugin before its answer is merged: other events need not wait for the merge.
                place.advance()
                if reply is not None and policy is not None:
                    if answered is not None:
                        invoker.take_answer(peer, policy, answered, reply)
                    if deadline is not None:
                        check_deadline(event.rpc, monotonic(), deadline)
        finally:
            place.leave()

    def _ask_all_at_once(self, event: Event, invoker: Invoker, peers: Sequence[Peer], deadline: float | None) -> None:
        """Send the event to all plugins, then collect the answers. Raises the first error by index, after all answers.

        While the event waits for a busy plugin, it holds no lock. A process with several plugins is asked in turn: it
        may compare the order of arrival at each of them.
        """
        pending: list[tuple[Peer, EventPolicy, Sent | None]] = []
        own_pids = (0, getpid())
        processes: set[int] = set()
        failures: list[NriError] = []
        place = Place(event.request, peers, deadline, self._passes_others and event.number in URGENT)
        try:
            for peer in peers:
                sent = None
                if place.ticket is not None:
                    _collect_answers(event, invoker, pending, failures, deadline)
                    sent = invoker.wait_for_turn(place, peer, event, deadline)
                elif peer.pid in processes:
                    _collect_answers(event, invoker, pending, failures, deadline)
                # A request that was sent keeps its policy.
                policy = peer.event_policies[event.number] if sent is None else sent.policy
                if policy is not None and policy.guarded and sent is None and not policy.admits(event.request.pod):
                    policy = None
                if place.missed and policy is not None:
                    failures += _turn_failures(peer, policy, event, invoker)
                    policy = None
                if policy is not None:
                    if peer.pid not in own_pids:
                        processes.add(peer.pid)
                    if sent is None:
                        sent = invoker.begin(peer, policy, event, deadline)
                    pending.append((peer, policy, sent))
                # The lock is held until the plugin has answered: no later event may overtake this event.
                place.advance(keep=policy is not None)
            _collect_answers(event, invoker, pending, failures, deadline)
        finally:
            for peer, _, sent in pending:  # only after an exception of the runtime
                if sent is not None:
                    peer.abandon(sent.exchange)
                peer.lock.release()
            place.leave()
        if failures:
            raise failures.pop(0)  # a local variable with the error would keep this frame alive

    def _warn_of_joiner(self, event: Event) -> None:
        log.warning(
            "%s continues while a plugin joins: `synchronize` has not returned for %g s. If it waits for a lock that"
            " callers of events hold, hold block_sync() around such calls",
            event.rpc, self._patience_s,
        )  # fmt: skip

    def _refuse_if_required(self, event: Event) -> None:
        """Raise PluginUnavailable if a missing plugin is required for this event."""
        for label, policy in self._chain.absent:
            if policy.requires(event.number, event.request.pod.namespace):
                raise PluginUnavailable(label, f"required for {event.rpc}, but not connected")


def _turn_failures(peer: Peer, policy: EventPolicy, event: Event, invoker: Invoker) -> list[NriError]:
    """The event's error after a missed turn, in a list; the list is empty if the event continues."""
    try:
        invoker.missed_turn(peer, policy, event)
    except NriError as error:
        return [error]
    return []


def _collect_answers(
    event: Event,
    invoker: Invoker,
    pending: list[tuple[Peer, EventPolicy, Sent | None]],
    failures: list[NriError],
    deadline: float | None,
) -> None:
    """Collect the answers of all pending plugins, and release each plugin."""
    while pending:
        peer, policy, sent = pending.pop(0)
        try:
            invoker.ask(peer, policy, event, deadline, sent=sent)
        except NriError as error:
            failures.append(error)
        finally:
            peer.lock.release()
