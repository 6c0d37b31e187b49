"""The gate between events and joining plugins: events pass together, a joiner passes alone.

While a plugin joins, no event may be under way: so each container is in the state that the plugin is given or in an
event that it gets, and none is missed. Three parties, three rules:

- A **block** (`Adaptation.block_sync`) is held by the runtime for a whole request. It queues behind a waiting joiner,
  so that joiners are not starved; an urgent one (Stop, Remove) does not.
- An **event** passes a waiting joiner if it is urgent or if any block is held (perhaps by its own request: waiting
  would be a deadlock). It waits for a joiner that is inside, for a bounded time: a runtime whose `synchronize` needs
  a lock that the event's caller holds would hang otherwise.
- A **joiner** waits for all blocks and events to end. Its right of way lasts `preference_s`, then it waits for as
  long, so that one slow stop request delays the joiner and not every other request.

Neither side starves the other, as in a phase-fair lock: every event and block that waits when a joiner is through is
let in at that very moment, before any other joiner. And joiners rest for as long as they have held up others, whether
they got in or gave up: plugins that come back all the time have half of the time at most, and coming back renews no
right of way. The time for which a plugin takes the state in counts as well, because events for it wait then.
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

    Attributes:
        events, blocks: how many are under way.
        held_events, held_blocks: how many wait for a joiner.
        inside: whether a joiner has passed; `waiting`: how many wait.
        rest_until: when the next joiner may pass, in seconds of the monotonic clock.
    """

    __slots__ = (
        "_guard",
        "_inside_since",
        "_pending",
        "_preference_s",
        "_round",
        "_turn",
        "_way_from",
        "blocks",
        "events",
        "held_blocks",
        "held_events",
        "inside",
        "rest_until",
        "waiting",
    )

    def __init__(self, preference_s: float = 2.0) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Condition(self._guard)
        self.events = 0
        self.blocks = 0
        self.inside = False  # a joiner has passed
        self._inside_since = 0.0
        self.waiting = 0  # joiners that wait
        # Events and blocks that wait, and the number of the joiner's turn that they wait for: its end lets them in.
        self.held_events = self.held_blocks = 0
        self._round = 0
        self._way_from = 0.0  # when the right of way of the joiners that wait began, or will
        self.rest_until = 0.0
        self._preference_s = preference_s
        self._pending: Callable[[], None] | None = None

    # -- events -------------------------------------------------------------------------------------------------------

    def enter(self, urgent: bool, deadline: float | None, patience_s: float) -> bool:
        """Let an event in. False: a joiner has been inside for `patience_s`, and the event goes on beside it.

        DeadlineExceeded: the caller's own deadline passed.
        """
        with self._guard:
            if not self.inside and not self.waiting:
                self.events += 1
                return True
            limit = monotonic() + patience_s
            self.held_events += 1
            held_for = self._round
            try:
                while self._round == held_for and (
                    self.inside or (not urgent and not self.blocks and self._has_way(monotonic()))
                ):
                    now = monotonic()
                    if deadline is not None and now >= deadline:
                        raise DeadlineExceeded("a plugin that is joining")
                    if now >= limit:
                        break
                    self._turn.wait(self._pause(min(limit, deadline or limit) - now, now))
            except BaseException:
                if self._round == held_for:
                    self.held_events -= 1
                else:
                    self.events -= 1
                    if not self.events:
                        self._idle()
                raise
            if self._round == held_for:
                self.held_events -= 1
                self.events += 1
                return not self.inside
            return True

    def leave(self) -> None:
        """Note that an event is over."""
        with self._guard:
            self.events -= 1
            if not self.events and (self.waiting or self._pending is not None):
                self._idle()

    def _idle(self) -> None:
        """Do what waits until no event is under way."""
        if self._pending is not None:
            work, self._pending = self._pending, None
            work()
        if self.waiting:
            self._turn.notify_all()

    def when_idle(self, work: Callable[[], None]) -> None:
        """Do something as soon as no event is under way, under the gate's own lock. Always the same thing."""
        with self._guard:
            if self.events:
                self._pending = work
            else:
                work()

    # -- blocks -------------------------------------------------------------------------------------------------------

    def block(self, *, urgent: bool = False, deadline: float | None = None) -> Block:
        """Keep joiners out for a request. DeadlineExceeded if a joiner does not end before the deadline."""
        with self._guard:
            self.held_blocks += 1
            held_for = self._round
            try:
                while self._round == held_for and (
                    self.inside or (not urgent and self.waiting and self._has_way(monotonic()))
                ):
                    now = monotonic()
                    if deadline is not None and now >= deadline:
                        raise DeadlineExceeded("a plugin that is joining")
                    self._turn.wait(self._pause(self._preference_s if deadline is None else deadline - now, now))
            except BaseException:
                if self._round == held_for:
                    self.held_blocks -= 1
                else:
                    self._unblock()
                raise
            if self._round == held_for:
                self.held_blocks -= 1
                self.blocks += 1
            return Block(self)

    def unblock(self) -> None:
        """Note that a request is over: one block less."""
        with self._guard:
            self._unblock()

    def _unblock(self) -> None:
        self.blocks -= 1
        if not self.blocks:
            self._turn.notify_all()

    # -- joiners ------------------------------------------------------------------------------------------------------

    def _has_way(self, now: float) -> bool:
        """Whether a waiting joiner goes before new requests at this moment."""
        return self.waiting > 0 and self._is_way(now)

    def _is_way(self, now: float) -> bool:
        """Whether joiners, if there are any, have the right of way at this moment."""
        return now >= self._way_from and int((now - self._way_from) / self._preference_s) % 2 == 0

    def _pause(self, most_s: float, now: float) -> float:
        """Seconds to wait for a notice before looking again: not beyond the end of a right of way."""
        if self.inside or now < self._way_from:
            return most_s
        used_s = (now - self._way_from) % self._preference_s
        return min(most_s, self._preference_s - used_s + 0.001)

    def join(self, stopping: Callable[[], bool]) -> bool:
        """Wait until no event, block or joiner is inside, then be alone until `joined`. False: `stopping` came true."""
        with self._guard:
            if not self.waiting:
                self._way_from = max(monotonic(), self.rest_until)
            self.waiting += 1
            try:
                while True:
                    left_s = self.rest_until - monotonic()  # read once: a rest that ends meanwhile is no wait
                    if not (self.inside or self.events or self.blocks or left_s > 0):
                        break
                    if stopping():
                        return False
                    most_s = min(1.0, self._preference_s)
                    self._turn.wait(min(most_s, left_s) if left_s > 0 else most_s)
                self.inside = True
                self._inside_since = monotonic()
                return True
            finally:
                self.waiting -= 1
                if not self.inside and not self.waiting:
                    self._rest(monotonic(), 0.0)
                    self._turn.notify_all()

    def joined(self) -> None:
        """Note that the joiner is through, or has failed: events and blocks that wait are let in."""
        with self._guard:
            now = monotonic()
            self.inside = False
            self.events += self.held_events
            self.blocks += self.held_blocks
            self.held_events = self.held_blocks = 0
            self._round += 1
            self._rest(self._inside_since, now - self._inside_since)
            self._turn.notify_all()

    def rest(self, held_s: float) -> None:
        """Let no plugin join for so many seconds: events may have waited as long for one that has joined."""
        with self._guard:
            self.rest_until = max(self.rest_until, monotonic() + min(held_s, self._preference_s))
            self._way_from = max(self._way_from, self.rest_until)
            self._turn.notify_all()

    def _rest(self, way_until: float, inside_s: float) -> None:
        """Let no joiner hold up others for as long as joiners just have, but for no more than `preference_s`."""
        held_s = inside_s
        if self._is_way(way_until):
            held_s += (way_until - self._way_from) % self._preference_s
        self.rest_until = max(self.rest_until, way_until + inside_s + min(held_s, self._preference_s))
        self._way_from = self.rest_until
