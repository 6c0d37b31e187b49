"""The way of one event through the plugins: in turn, or, where the runtime allows it, all plugins at once.

Hand over hand: an event takes its place in the queue of the next plugin before it leaves the one at hand, also where a
plugin is not subscribed. So the order of arrival at the first plugin is the order at every plugin, and a slow plugin
holds up what is behind it, not what is ahead. Nothing is held while an event waits, so there is no deadlock. Next:
`nri.adaptation.dispatch.dispatcher`, which says which event goes which way.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nri.errors import NriError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nri.adaptation.dispatch.invoker import Asker, Begun
    from nri.adaptation.peers.event_request import Question
    from nri.adaptation.peers.fifo_lock import FifoLock, Ticket
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import Plan

    Take = Callable[[Peer, Plan, bytes], None]

__all__ = ["at_once", "in_turn"]


def in_turn(
    asker: Asker, peers: Sequence[Peer], question: Question, deadline: float | None, take: Take | None = None
) -> None:
    """From plugin to plugin. Under a plugin's lock it is only asked: encoding comes before, merging after."""
    number = question.spec.number
    ask = asker.ask
    _encode_early(peers, question)
    lock: FifoLock | None = peers[0].lock
    turn = peers[0].lock.place()
    try:
        for peer, following in zip(peers, (*peers[1:], None), strict=True):
            here, begun = peer.lock, None
            if turn is not None:
                _leave_word(asker, peer, question, turn, deadline)
                ticket, turn, lock = turn, None, None  # a wait that fails has given up its place by itself
                begun = _await_turn(peer, ticket, deadline)
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


def at_once(asker: Asker, peers: Sequence[Peer], question: Question, deadline: float | None) -> None:
    """To all plugins before any has answered. The error of the first one, by index, is raised when all have.

    A plugin that is busy with an earlier event is waited for with nothing held, as in turn.
    """
    asked = _Asked(asker, question, deadline)
    _encode_early(peers, question)
    lock: FifoLock | None = peers[0].lock
    turn = peers[0].lock.place()
    try:
        for peer, following in zip(peers, (*peers[1:], None), strict=True):
            begun = None
            if turn is not None:
                asked.collect()
                _leave_word(asker, peer, question, turn, deadline)
                ticket, turn, lock = turn, None, None
                begun = _await_turn(peer, ticket, deadline)
            here = lock = peer.lock
            held = asked.begin(peer, begun)
            lock = None
            if following is not None:
                turn = following.lock.place()
                lock = following.lock
            if not held:  # only now: an event behind must not slip in between
                here.release()
        asked.collect()
    finally:
        asked.abandon()
        if lock is not None:
            lock.leave(turn)
    if asked.error is not None:
        raise asked.error


class _Asked:
    """The plugins that have been asked and not been heard, each with its lock held.

    Attributes:
        error: the first error, in the order of the plugins.
    """

    def __init__(self, asker: Asker, question: Question, deadline: float | None) -> None:
        self._asker, self._question, self._deadline = asker, question, deadline
        self._open: list[tuple[Peer, Plan, Begun | None]] = []
        self.error: NriError | None = None

    def begin(self, peer: Peer, begun: Begun | None) -> bool:
        """Ask a plugin, unless that is done. Its lock is held until it is heard; False if it does not get the event."""
        plan = peer.plans[self._question.spec.number] if begun is None else begun[0]
        if plan is None or (plan.guarded and begun is None and not plan.admits(self._question.pod)):
            return False
        if begun is None:
            begun = self._asker.begin(peer, plan, self._question, self._deadline)
        self._open.append((peer, plan, begun))
        return True

    def collect(self) -> None:
        """Hear all of them."""
        while self._open:
            peer, plan, begun = self._open.pop(0)
            try:
                self._asker.ask(peer, plan, self._question, self._deadline, begun=begun)
            except NriError as error:
                self.error = self.error or error
            finally:
                peer.lock.release()

    def abandon(self) -> None:
        """Hear none of them any more."""
        for peer, _, begun in self._open:
            if begun is not None:
                peer.abandon(begun[3])
            peer.lock.release()


def _encode_early(peers: Sequence[Peer], question: Question) -> None:
    """Encode what the first plugin is asked, once for all and before anything is held."""
    if peers[0].takes_bytes and peers[0].plans[question.spec.number] is not None:
        question.payload  # noqa: B018 - encodes it


def _leave_word(asker: Asker, peer: Peer, question: Question, ticket: Ticket, deadline: float | None) -> None:
    """Have the event before this one send the question, if it can."""
    plan = peer.plans[question.spec.number]
    if plan is not None and peer.takes_bytes and not (plan.guarded and not plan.admits(question.pod)):
        question.payload  # noqa: B018 - encodes it, in this thread
        ticket.begin = partial(asker.begin, peer, plan, question, deadline)


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
