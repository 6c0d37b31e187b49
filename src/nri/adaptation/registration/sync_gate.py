"""The gate between events and joining plugins: events pass together, a joiner passes alone.

While a plugin joins, no event may be under way: so each container is in the state that the plugin is given or in an
event that it gets, and none is missed. Three parties, three rules:

- A **block** (`Adaptation.block_sync`) is held by the runtime for a whole request. It queues behind a waiting joiner,
  so that joiners are not starved; an urgent one (Stop, Remove) does not.
- An **event** passes a waiting joiner if it is urgent or if any block is held (perhaps by its own request: waiting
  would be a deadlock). It waits for a joiner that is inside, for a bounded time: a runtime whose `synchronize` needs
  a lock that the event's caller holds would hang otherwise.
- A **joiner** waits for all blocks and events to end. Its right of way lasts `preference_s`, then it stands back for as
  long, so that one slow stop request delays the joiner and not every other request.

Neither side starves the other, as in a phase-fair lock: every event and block that waits when a joiner is through is
let in at that very moment, before any other joiner. And joiners rest for as long as they have held up others, whether
they got in or gave up: plugins that come back all the time have half of the time at most, and coming back renews no
right of way. The time for which a plugin takes the state in counts as well, because events for it wait then.

Next: `nri.adaptation.registration.admission`, in which plugins wait together for one turn of a joiner.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING

from nri.errors import DeadlineExceeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

__all__ = ["Block", "SyncGate"]


class Block:
    """A block: it keeps plugins from joining until `release`. A context manager; releasing twice does nothing."""

    __slots__ = ("_gate",)

    def __init__(self, gate: SyncGate) -> None:
        self._gate: SyncGate | None = gate

    def release(self) -> None:
        """Let plugins join again, as far as this block is concerned."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.unblock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class SyncGate:
    """The gate: counts the events, blocks and joiners inside.

    Args:
        preference_s: how long joiners have the right of way, in seconds.
    """

    __slots__ = (
        "_blocks",
        "_events",
        "_guard",
        "_held_blocks",
        "_held_events",
        "_inside",
        "_inside_since",
        "_pending",
        "_preference_s",
        "_rest_until",
        "_round",
        "_turn",
        "_waiting",
        "_way_from",
    )

    def __init__(self, preference_s: float = 2.0) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Condition(self._guard)
        self._events = 0
        self._blocks = 0
        self._inside = False  # a joiner has passed
        self._inside_since = 0.0
        self._waiting = 0  # joiners that wait
        # Events and blocks that wait, and the number of the joiner's turn that they wait for: its end lets them in.
        self._held_events = self._held_blocks = 0
        self._round = 0
        self._way_from = 0.0  # when the right of way of the joiners that wait began, or will
        self._rest_until = 0.0
        self._preference_s = preference_s
        self._pending: Callable[[], None] | None = None

    # -- events -------------------------------------------------------------------------------------------------------

    def enter(self, urgent: bool, deadline: float | None, patience_s: float) -> bool:
        """Let an event in. False: a joiner has been inside for `patience_s`, and the event goes on beside it.

        DeadlineExceeded: the caller's own deadline passed.
        """
        with self._guard:
            if not self._inside and not self._waiting:
                self._events += 1
                return True
            limit = monotonic() + patience_s
            self._held_events += 1
            held_for = self._round
            try:
                while self._round == held_for and (
                    self._inside or (not urgent and not self._blocks and self._has_way(monotonic()))
                ):
                    now = monotonic()
                    if deadline is not None and now >= deadline:
                        raise DeadlineExceeded("a plugin that is joining")
                    if now >= limit:
                        break
                    self._turn.wait(self._pause(min(limit, deadline or limit) - now, now))
            except BaseException:
                if self._round == held_for:
                    self._held_events -= 1
                else:
                    self._events -= 1
                    if not self._events:
                        self._idle()
                raise
            if self._round == held_for:
                self._held_events -= 1
                self._events += 1
                return not self._inside
            return True

    def leave(self) -> None:
        """Note that an event is over."""
        with self._guard:
            self._events -= 1
            if not self._events and (self._waiting or self._pending is not None):
                self._idle()

    def _idle(self) -> None:
        """Do what waits until no event is under way."""
        if self._pending is not None:
            work, self._pending = self._pending, None
            work()
        if self._waiting:
            self._turn.notify_all()

    def when_idle(self, work: Callable[[], None]) -> None:
        """Do something as soon as no event is under way, under the gate's own lock. Always the same thing."""
        with self._guard:
            if self._events:
                self._pending = work
            else:
                work()

    # -- blocks -------------------------------------------------------------------------------------------------------

    def block(self, *, urgent: bool = False, deadline: float | None = None) -> Block:
        """Keep joiners out for a request. DeadlineExceeded if a joiner does not end before the deadline."""
        with self._guard:
            self._held_blocks += 1
            held_for = self._round
            try:
                while self._round == held_for and (
                    self._inside or (not urgent and self._waiting and self._has_way(monotonic()))
                ):
                    now = monotonic()
                    if deadline is not None and now >= deadline:
                        raise DeadlineExceeded("a plugin that is joining")
                    self._turn.wait(self._pause(self._preference_s if deadline is None else deadline - now, now))
            except BaseException:
                if self._round == held_for:
                    self._held_blocks -= 1
                else:
                    self._unblock()
                raise
            if self._round == held_for:
                self._held_blocks -= 1
                self._blocks += 1
            return Block(self)

    def unblock(self) -> None:
        """Note that a request is over: one block less."""
        with self._guard:
            self._unblock()

    def _unblock(self) -> None:
        self._blocks -= 1
        if not self._blocks:
            self._turn.notify_all()

    # -- joiners ------------------------------------------------------------------------------------------------------

    def _has_way(self, now: float) -> bool:
        """Whether a waiting joiner goes before new requests at this moment."""
        return self._waiting > 0 and self._is_way(now)

    def _is_way(self, now: float) -> bool:
        """Whether joiners, if there are any, have the right of way at this moment."""
        return now >= self._way_from and int((now - self._way_from) / self._preference_s) % 2 == 0

    def _pause(self, most_s: float, now: float) -> float:
        """Seconds to wait for a notice before looking again: not beyond the end of a right of way."""
        if self._inside or now < self._way_from:
            return most_s
        used_s = (now - self._way_from) % self._preference_s
        return min(most_s, self._preference_s - used_s + 0.001)

    def join(self, stopping: Callable[[], bool]) -> bool:
        """Wait until no event, block or joiner is inside, then be alone until `joined`. False: `stopping` came true."""
        with self._guard:
            if not self._waiting:
                self._way_from = max(monotonic(), self._rest_until)
            self._waiting += 1
            try:
                while True:
                    left_s = self._rest_until - monotonic()  # read once: a rest that ends meanwhile is no wait
                    if not (self._inside or self._events or self._blocks or left_s > 0):
                        break
                    if stopping():
                        return False
                    most_s = min(1.0, self._preference_s)
                    self._turn.wait(min(most_s, left_s) if left_s > 0 else most_s)
                self._inside = True
                self._inside_since = monotonic()
                return True
            finally:
                self._waiting -= 1
                if not self._inside and not self._waiting:
                    self._rest(monotonic(), 0.0)
                    self._turn.notify_all()

    def joined(self) -> None:
        """Note that the joiner is through, or has failed: events and blocks that wait are let in."""
        with self._guard:
            now = monotonic()
            self._inside = False
            self._events += self._held_events
            self._blocks += self._held_blocks
            self._held_events = self._held_blocks = 0
            self._round += 1
            self._rest(self._inside_since, now - self._inside_since)
            self._turn.notify_all()

    def rest(self, held_s: float) -> None:
        """Let no plugin join for so many seconds: events may have waited as long for one that has joined."""
        with self._guard:
            self._rest_until = max(self._rest_until, monotonic() + min(held_s, self._preference_s))
            self._way_from = max(self._way_from, self._rest_until)
            self._turn.notify_all()

    def _rest(self, way_until: float, inside_s: float) -> None:
        """Let no joiner hold up others for as long as joiners just have, but for no more than `preference_s`."""
        held_s = inside_s
        if self._is_way(way_until):
            held_s += (way_until - self._way_from) % self._preference_s
        self._rest_until = max(self._rest_until, way_until + inside_s + min(held_s, self._preference_s))
        self._way_from = self._rest_until
