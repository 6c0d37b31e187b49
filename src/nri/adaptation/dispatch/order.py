"""The order in which events reach plugins: hand over hand, so that every plugin sees all events in one order.

An event takes its place in the queue of the next plugin before it leaves the one at hand, also where a plugin does not
get the event at all. So the order of arrival at the first plugin is the order at every plugin, and a slow plugin holds
up what is behind it, not what is ahead. Nothing is held while an event waits, so there is no deadlock. An event that
waits also leaves word what to send: the one before it sends that on its way out, so the plugin is asked again before
any thread has changed places.

Two bounds, where the rules have them. An event waits for its turn at one plugin for two of that plugin's timeouts at
most; then it goes on without it, as if the plugin had not answered, and may reach later plugins before the events that
it stood behind. And what disposes of pods and containers passes waiting events of other pods, never an earlier one of
its own.

    place = Place(invoker, event, peers, deadline)   # in the queue of the first plugin
    for peer in peers:
        sent = place.wait()                          # the event's turn: nothing else is asked of this plugin
        ...                                          # ask it
        place.advance()                              # in the queue of the next plugin, then out of this one
    place.leave()                                    # in a `finally`: whatever is held is given up

Next: `nri.adaptation.dispatch.dispatcher`, whose loop this is.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nri.adaptation.plugin_policy.event_policy import TURN
from nri.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.dispatch.event import Event
    from nri.adaptation.dispatch.invoker import Invoker, Sent
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.peers.turns import FifoLock, Ticket

__all__ = ["Place"]


class Place:
    """An event's place among the plugins: in the queue of one of them, or at its turn there.

    Attributes:
        ticket: the place in the queue of the present plugin, for which `wait` waits; None at the event's turn.
        missed: the turn at the present plugin did not come in time: nothing is held, and the event goes on without it.
    """

    __slots__ = ("_deadline", "_event", "_index", "_invoker", "_lock", "_peers", "_urgent", "missed", "ticket")

    def __init__(
        self, invoker: Invoker, event: Event, peers: Sequence[Peer], deadline: float | None, urgent: bool = False
    ) -> None:
        first = peers[0]
        # The first plugin's request is encoded before anything is held: others need not wait for that.
        if first.takes_bytes and first.event_policies[event.number] is not None:
            event.request_bytes()
        self._invoker = invoker
        self._event = event
        self._peers = peers
        self._deadline = deadline
        self._index = 0
        self._urgent = urgent
        self.missed = False
        lock = first.lock
        self._lock: FifoLock | None = lock
        self.ticket: Ticket | None = lock.place(event.request.pod, urgent)

    def wait(self) -> Sent | None:
        """Wait for the event's turn at the present plugin.

        Returns what the event before this one has sent already on its way out, for `Invoker.invoke`; None if nothing.
        It waits no longer than `TURN` of the plugin's timeouts; then the turn is `missed`. DeadlineExceeded: the
        caller's deadline has passed; nothing is held.
        """
        ticket = self.ticket
        if ticket is None:
            return None
        peer = self._peers[self._index]
        self._event.meet(peer)
        policy = peer.event_policies[self._event.number]
        if (
            policy is not None
            and peer.takes_bytes
            and not (policy.guarded and not policy.admits(self._event.request.pod))
        ):
            # Have the event before this one send our request when it leaves; it is encoded in our own time.
            self._event.request_bytes()
            ticket.begin = partial(self._invoker.begin, peer, policy, self._event, self._deadline)
        lock, self._lock, self.ticket = self._lock, None, None  # a wait that fails has given up its place by itself
        assert lock is not None
        deadline = limit = self._deadline
        if peer.turn_s:
            limit = monotonic() + (peer.turn_s if policy is None else TURN * policy.timeout_s)
            if deadline is not None and deadline < limit:
                limit = deadline
        try:
            lock.wait(ticket, limit)
        except DeadlineExceeded:
            if limit == deadline:  # the earlier of both was the caller's
                raise
            self.missed = True
            return None
        except BaseException:
            if ticket.begun is not None:
                peer.abandon(ticket.begun.exchange)
            raise
        self._lock = lock
        sent: Sent | None = ticket.begun
        return sent

    def advance(self, *, keep: bool = False) -> None:
        """Take a place at the next plugin, then leave this one; `keep` leaves it held, for the caller to release."""
        here = self._lock
        self.missed = False
        self._index += 1
        if self._index < len(self._peers):
            following = self._peers[self._index].lock
            self.ticket = following.place(self._event.request.pod, self._urgent)
            self._lock = following
        else:
            self._lock = None
        if here is not None and not keep:
            here.release()

    def leave(self) -> None:
        """Give up what is held or waited for; nothing if the event is through."""
        if self._lock is not None:
            self._lock.leave(self.ticket)
            self._lock = None
