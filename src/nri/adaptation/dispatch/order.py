"""The order in which events reach plugins: hand over hand, so that every plugin sees all events in one order.

An event takes its place in the queue of the next plugin before it leaves the one at hand, also where a plugin does not
get the event at all. So the order of arrival at the first plugin is the order at every plugin, and a slow plugin holds
up what is behind it, not what is ahead. Nothing is held while an event waits, so there is no deadlock. An event that
waits also leaves word what to send: the one before it sends that on its way out, so the plugin is asked again before
any thread has changed places.

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
from typing import TYPE_CHECKING

from nri.adaptation.dispatch import silence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.dispatch.event import Event
    from nri.adaptation.dispatch.invoker import Invoker, Sent
    from nri.adaptation.peers.fifo_lock import FifoLock, Ticket
    from nri.adaptation.peers.peer import Peer

__all__ = ["Place"]


class Place:
    """An event's place among the plugins: in the queue of one of them, or at its turn there.

    Attributes:
        ticket: the place in the queue of the present plugin, for which `wait` waits; None at the event's turn.
    """

    __slots__ = ("_deadline", "_event", "_index", "_invoker", "_lock", "_peers", "ticket")

    def __init__(self, invoker: Invoker, event: Event, peers: Sequence[Peer], deadline: float | None) -> None:
        first = peers[0]
        # What the first plugin is asked is encoded before anything is held: others need not wait for that.
        if first.takes_bytes and first.event_policies[event.number] is not None:
            event.request_bytes()
        self._invoker = invoker
        self._event = event
        self._peers = peers
        self._deadline = deadline
        self._index = 0
        lock = first.lock
        self._lock: FifoLock | None = lock
        self.ticket: Ticket | None = lock.place()

    def wait(self) -> Sent | None:
        """Wait for the event's turn at the present plugin.

        Returns what the event before this one has sent already on its way out, for `Invoker.invoke`; None if nothing.
        DeadlineExceeded: the caller's deadline has passed; nothing is held.
        """
        ticket = self.ticket
        if ticket is None:
            return None
        peer = self._peers[self._index]
        silence.meet(self._event, peer)
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
        try:
            lock.wait(ticket, self._deadline)
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
        assert here is not None
        self._index += 1
        if self._index < len(self._peers):
            following = self._peers[self._index].lock
            self.ticket = following.place()
            self._lock = following
        else:
            self._lock = None
        if not keep:
            here.release()

    def leave(self) -> None:
        """Give up what is held or waited for; nothing if the event is through."""
        if self._lock is not None:
            self._lock.leave(self.ticket)
            self._lock = None
