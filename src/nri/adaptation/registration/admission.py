"""The moment when plugins join: the runtime's state is read and they enter the chain, while no event is processed.

Reading the state may take long, and events wait meanwhile. So the state is read once for all waiting plugins: the first
plugin leads, passes the gate for all, and gives each the same state. A plugin that arrives later waits for the next
turn. A leader whose own plugin has left continues as long as other plugins wait behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from nri.adaptation.peers.state import Signal, State
from nri.api import messages as m
from nri.errors import LocalProtocolError

if TYPE_CHECKING:
    from nri.adaptation.containers.inventory import Inventory, News
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.registration.chain import Chain

Snapshot = tuple[Sequence[m.PodSandbox], Sequence[m.Container]]

#: How often a waiting thread checks whether its plugin has left, in seconds.
CHECK_INTERVAL_S = 1.0


class SharedState:
    """The state that all plugins of a turn get.

    Attributes:
        state: the runtime's pods and containers at that moment.
    """

    __slots__ = ("_inventory", "_lock", "_state_changes", "state")

    def __init__(self, state: Snapshot, inventory: Inventory, news: News) -> None:
        self.state = state
        self._inventory = inventory
        self._state_changes: News | None = news
        self._lock = threading.Lock()

    def seed(self) -> None:
        """Pass the state to the inventory, once.

        Call it before a plugin gets the state: requests for unknown containers are ignored.
        """
        with self._lock:
            news, self._state_changes = self._state_changes, None
            if news is not None:
                self._inventory.seed(news, *self.state)


class _Ticket:
    """A waiting plugin."""

    __slots__ = ("done", "entry", "error", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.done = threading.Event()
        self.entry: SharedState | None = None
        self.error: Exception | None = None


class Admission:
    """Lets plugins join: all waiting plugins together.

    Args:
        snapshot: the runtime's callback, which returns all existing pods and containers.
        joined: called for each plugin that entered the chain, before events pass.

    Attributes:
        waiting: the tickets of waiting plugins, in order of arrival.
    """

    def __init__(
        self,
        chain: Chain,
        inventory: Inventory,
        snapshot: Callable[[], tuple[Iterable[m.PodSandbox], Iterable[m.Container]]],
        joined: Callable[[Peer], None],
    ) -> None:
        self._chain = chain
        self._inventory = inventory
        self.snapshot = snapshot
        self._on_joined = joined
        self._lock = threading.Lock()
        self.waiting: list[_Ticket] = []
        self._has_leader = False
        self._stopping = False

    def stop(self) -> None:
        """Let no further plugin join."""
        self._stopping = True

    def pause_joiners(self, held_s: float) -> None:
        """Let no plugin join for `held_s` seconds: events may have waited as long for a synchronization."""
        self._chain.gate.pause_joiners(held_s)

    def enter(self, peer: Peer) -> SharedState | None:
        """Put a plugin into the chain, with its lock held. Returns None if the runtime stops or the plugin has left.

        Raises the errors of the runtime's callback.
        """
        ticket = _Ticket(peer)
        with self._lock:
            self.waiting.append(ticket)
            leads, self._has_leader = not self._has_leader, True
        if leads:
            self._lead_batch()
        while not ticket.done.wait(CHECK_INTERVAL_S):
            with self._lock:
                if ticket in self.waiting and self._has_left(ticket):
                    self.waiting.remove(ticket)
                    break
        if ticket.error is not None:
            raise ticket.error
        return ticket.entry

    def _has_left(self, ticket: _Ticket) -> bool:
        return self._stopping or ticket.peer.state is State.GONE

    def _nobody_waits(self) -> bool:
        with self._lock:
            return all(self._has_left(ticket) for ticket in self.waiting)

    def _lead_batch(self) -> None:
        """Pass the gate for all waiting plugins. A later plugin finds no leader and becomes the leader."""
        gate = self._chain.gate
        inside, batch = False, None
        while batch is None:
            inside = gate.join(self._nobody_waits)
            batch = self._batch(inside)
        try:
            if inside:
                self._let_in(batch)
        finally:
            if inside:
                gate.joined()
            for ticket in batch:
                ticket.done.set()

    def _batch(self, inside: bool) -> list[_Ticket] | None:
        """Take all waiting tickets. Returns None if the leader did not get in, but other plugins wait."""
        with self._lock:
            if not inside and not all(self._has_left(ticket) for ticket in self.waiting):
                return None
            batch, self.waiting = self.waiting, []
            self._has_leader = False
            return batch

    def _let_in(self, batch: list[_Ticket]) -> None:
        """Give all plugins of a batch the same state. Called while no event and no other joiner is inside."""
        batch = [ticket for ticket in batch if not self._has_left(ticket)]
        if not batch:
            return
        news = self._inventory.begin()
        try:
            entry = SharedState(_checked_state(self.snapshot()), self._inventory, news)
        except BaseException as error:
            self._inventory.cancel(news)
            for ticket in batch:
                ticket.error = error if isinstance(error, Exception) else RuntimeError("interrupted")
            if isinstance(error, Exception):
                return
            raise
        for ticket in batch:
            peer = ticket.peer
            peer.lock.acquire()  # no event uses the lock yet, so this does not wait
            try:
                peer.signal(Signal.JOINING)
                self._chain.add(peer)
                # The policy may have changed after the plugin was configured and before it was in the chain.
                self._on_joined(peer)
            except Exception as error:  # noqa: BLE001 - raised in the thread of this plugin
                ticket.error = error
                peer.lock.release()
            else:
                ticket.entry = entry
        if all(ticket.entry is None for ticket in batch):
            entry.seed()  # no plugin of the batch is left to pass the state to the inventory
        self._chain.refresh()


def _checked_state(returned: Any) -> Snapshot:
    """Check the state that the runtime's `synchronize` callback returned.

    Raises LocalProtocolError if it is invalid.
    """
    expected = "it must return (pods, containers), lists of PodSandbox and Container messages"
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        got = f"{len(returned)} values" if isinstance(returned, (tuple, list)) else type(returned).__name__
        raise LocalProtocolError(f"the runtime's synchronize callback returned {got}: {expected}")
    state = []
    for group, kind in zip(returned, (m.PodSandbox, m.Container), strict=True):
        if not isinstance(group, Iterable):
            raise LocalProtocolError(
                f"the runtime's synchronize callback returned {type(group).__name__} for a list: {expected}"
            )
        messages = list(group)
        wrong = next((message for message in messages if not isinstance(message, kind)), None)
        if wrong is not None:
            got = f"{type(wrong).__name__} for a {kind.__name__}"
            raise LocalProtocolError(f"the runtime's synchronize callback returned {got}: {expected}")
        state.append(messages)
    pods, containers = state
    return pods, containers
