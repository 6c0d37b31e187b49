"""The moment in which plugins join: the runtime's state is read and they enter the chain, with no event under way.

Reading the state is the runtime's work and may take long, and events wait meanwhile. So it is done once for all that
wait: the first one leads, passes the gate for all, and hands each the same state. A plugin that comes after that waits
for the next turn. A leader whose own plugin has left goes on as long as others wait behind it; a plugin that leaves
while it waits costs the others nothing.
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

__all__ = ["Admission", "SharedState", "Snapshot"]

Snapshot = tuple[Sequence[m.PodSandbox], Sequence[m.Container]]

#: How often a plugin that waits looks whether it is still wanted, in seconds.
LOOK_S = 1.0


class SharedState:
    """The one state that all plugins that joined together were given.

    Attributes:
        state: the runtime's pods and containers at that moment.
    """

    __slots__ = ("_inventory", "_lock", "_news", "state")

    def __init__(self, state: Snapshot, inventory: Inventory, news: News) -> None:
        self.state = state
        self._inventory = inventory
        self._news: News | None = news
        self._lock = threading.Lock()

    def seed(self) -> None:
        """Have the inventory take over the state, once; with the return it has.

        To be called before a plugin gets the state: requests for a container that is not known are left out.
        """
        with self._lock:
            news, self._news = self._news, None
            if news is not None:
                self._inventory.seed(news, *self.state)


class _Ticket:
    """One plugin that waits."""

    __slots__ = ("done", "entry", "error", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.done = threading.Event()
        self.entry: SharedState | None = None
        self.error: Exception | None = None


class Admission:
    """Lets plugins join, all together that wait for it.

    Args:
        snapshot: the runtime's callback: all pods and containers, now.
        joined: called for each plugin that is in the chain now, before any event can be.

    Attributes:
        waiting: those that want in, in the order in which they came.
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
        self._joined = joined
        self._lock = threading.Lock()
        self.waiting: list[_Ticket] = []
        self._led = False
        self._stopping = False

    def stop(self) -> None:
        """Let no plugin in any more."""
        self._stopping = True

    def rest(self, held_s: float) -> None:
        """Events may have waited so many seconds for a plugin to take the state in: let no other in for as long."""
        self._chain.gate.rest(held_s)

    def enter(self, peer: Peer) -> SharedState | None:
        """Put a plugin into the chain, with its lock held. None: the runtime stops, or the plugin left while it waited.

        Raises what the runtime's callback raises.
        """
        ticket = _Ticket(peer)
        with self._lock:
            self.waiting.append(ticket)
            leads, self._led = not self._led, True
        if leads:
            self._lead()
        while not ticket.done.wait(LOOK_S):
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

    def _lead(self) -> None:
        """Pass the gate for all that wait; who comes after that finds no leader and becomes one."""
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
        """Take all that wait. None: the leader did not get in, but there is one again who wants to."""
        with self._lock:
            if not inside and not all(self._has_left(ticket) for ticket in self.waiting):
                return None
            batch, self.waiting = self.waiting, []
            self._led = False
            return batch

    def _let_in(self, batch: list[_Ticket]) -> None:
        """Give all plugins of a batch one state. Called while no event and no other joiner is inside."""
        batch = [ticket for ticket in batch if not self._has_left(ticket)]
        if not batch:
            return
        news = self._inventory.begin()
        try:
            entry = SharedState(_state_of(self.snapshot()), self._inventory, news)
        except BaseException as error:
            self._inventory.cancel(news)
            for ticket in batch:
                ticket.error = error if isinstance(error, Exception) else RuntimeError("interrupted")
            if isinstance(error, Exception):
                return
            raise
        for ticket in batch:
            peer = ticket.peer
            peer.lock.acquire()  # no event knows it yet, so this does not wait
            try:
                peer.signal(Signal.JOINING)
                self._chain.add(peer)
                # Whatever changed since it was configured went to the plugins in the chain, and it was not there yet.
                self._joined(peer)
            except Exception as error:  # noqa: BLE001 - raised for the one whom it concerns
                ticket.error = error
                peer.lock.release()
            else:
                ticket.entry = entry
        if all(ticket.entry is None for ticket in batch):
            entry.seed()  # no plugin of the batch will
        self._chain.refresh()


def _state_of(told: Any) -> Snapshot:
    """The state that the runtime's `synchronize` callback has returned; raises LocalProtocolError."""
    wanted = "(pods, containers) is expected, PodSandbox and Container messages"
    if not isinstance(told, (tuple, list)) or len(told) != 2:
        got = f"{len(told)} things" if isinstance(told, (tuple, list)) else type(told).__name__
        raise LocalProtocolError(f"the runtime's synchronize callback returned {got}: {wanted}")
    state = []
    for each, kind in zip(told, (m.PodSandbox, m.Container), strict=True):
        if not isinstance(each, Iterable):
            raise LocalProtocolError(
                f"the runtime's synchronize callback returned {type(each).__name__} among them: {wanted}"
            )
        messages = list(each)
        wrong = next((one for one in messages if not isinstance(one, kind)), None)
        if wrong is not None:
            got = f"{type(wrong).__name__} for a {kind.__name__}"
            raise LocalProtocolError(f"the runtime's synchronize callback returned {got}: {wanted}")
        state.append(messages)
    pods, containers = state
    return pods, containers
