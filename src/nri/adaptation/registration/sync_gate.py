"""The gate between events and joining plugins: events pass together, a joiner passes alone.

While a plugin joins, no event may be processed: so each container is in the state that the plugin gets or in an event,
and no container is missed. There are three parties with three rules:

- A **block** (`Adaptation.block_sync`) is held by the runtime for a whole request. It queues behind a waiting joiner,
so that joiners are not starved. An urgent block (Stop, Remove) does not queue.
- An **event** passes a waiting joiner if the event is urgent or if any block is held (perhaps by its own request:
waiting would be a deadlock). It waits for a joiner that is inside, but for a limited time: otherwise a runtime would
hang whose `synchronize` needs a lock that the event's caller holds.
- A **joiner** waits for all blocks and events to end. It has priority for `preference_s`, then no priority for as long,
so that a slow stop request delays the joiner and not every other request.

Neither side starves the other, as in a phase-fair lock: every event and block that waits when a joiner leaves is let in
at that moment, before any other joiner. And joiners pause for as long as they have delayed others, whether they got in
or gave up: plugins that reconnect all the time have at most half of the time, and a new connection does not renew the
priority. The time in which a plugin processes the state counts as well, because its events wait then.
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


class Block:
    """Keeps plugins from joining until `release`. A context manager; a second release has no effect."""

    __slots__ = ("_gate",)

    def __init__(self, gate: SyncGate) -> None:
        self._gate: SyncGate | None = gate

    def release(self) -> None:
        """End the block."""
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
        preference_s: how long joiners have priority, in seconds.

    Attributes:
        events, blocks: the number of events and blocks inside.
        held_events, held_blocks: the number of events and blocks that wait for a joiner.
        inside: whether a joiner is inside.
        waiting: the number of waiting joiners.
        paused_until: when the next joiner may pass, in monotonic seconds.
    """

    __slots__ = (
        "_guard",
        "_inside_since",
        "_pending",
        "_preference_s",
        "_priority_from",
        "_round",
        "_turn",
        "blocks",
        "events",
        "held_blocks",
        "held_events",
        "inside",
        "paused_until",
        "waiting",
    )

    def __init__(self, preference_s: float = 2.0) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Condition(self._guard)
        self.events = 0
        self.blocks = 0
        self.inside = False
        self._inside_since = 0.0
        self.waiting = 0
        # The number of the joiner's turn for which held events and blocks wait.
        self.held_events = self.held_blocks = 0
        self._round = 0
        self._priority_from = 0.0  # when the priority of the waiting joiners begins
        self.paused_until = 0.0
        self._preference_s = preference_s
        self._pending: Callable[[], None] | None = None

    # -- events -------------------------------------------------------------------------------------------------------

    def enter(self, urgent: bool, deadline: float | None, patience_s: float) -> bool:
        """Let an event in. Raises DeadlineExceeded if the caller's own deadline has passed.

        Returns False if a joiner has been inside for `patience_s`; the event then continues alongside the joiner.
        """
        with self._guard:
            if not self.inside and not self.waiting:
                self.events += 1
                return True
            limit = monotonic() + patience_s
            self.held_events += 1
            first_round = self._round
            try:
                while self._round == first_round and (
                    self.inside or (not urgent and not self.blocks and self._joiner_has_priority(monotonic()))
                ):
                    now = monotonic()
                    if deadline is not None and now >= deadline:
                        raise DeadlineExceeded("a plugin that is joining")
                    if now >= limit:
                        break
                    self._turn.wait(self._wait_s(min(limit, deadline or limit) - now, now))
            except BaseException:
                if self._round == first_round:
                    self.held_events -= 1
                else:
                    self.events -= 1
                    if not self.events:
                        self._when_no_event()
                raise
            if self._round == first_round:
                self.held_events -= 1
                self.events += 1
                return not self.inside
            return True

    def leave(self) -> None:
        """Record the end of an event."""
        with self._guard:
            self.events -= 1
            if not self.events and (self.waiting or self._pending is not None):
                self._when_no_event()

    def _when_no_event(self) -> None:
        """Do the pending work, and wake joiners: no event is inside."""
        if self._pending is not None:
            work, self._pending = self._pending, None
            work()
        if self.waiting:
            self._turn.notify_all()

    def when_idle(self, work: Callable[[], None]) -> None:
        """Call `work` under the gate's lock as soon as no event is inside. `work` is the same function in all calls."""
        with self._guard:
            if self.events:
                self._pending = work
            else:
                work()

    # -- blocks -------------------------------------------------------------------------------------------------------

    def block(self, *, urgent: bool = False, deadline: float | None = None) -> Block:
        """Keep joiners out. Raises DeadlineExceeded if a joiner does not leave before the deadline."""
        with self._guard:
            self.held_blocks += 1
            first_round = self._round
            try:
                while self._round == first_round and (
                    self.inside or (not urgent and self.waiting and self._joiner_has_priority(monotonic()))
                ):
                    now = monotonic()
                    if deadline is not None and now >= deadline:
                        raise DeadlineExceeded("a plugin that is joining")
                    self._turn.wait(self._wait_s(self._preference_s if deadline is None else deadline - now, now))
            except BaseException:
                if self._round == first_round:
                    self.held_blocks -= 1
                else:
                    self._release_block()
                raise
            if self._round == first_round:
                self.held_blocks -= 1
                self.blocks += 1
            return Block(self)

    def unblock(self) -> None:
        """Record the end of a block."""
        with self._guard:
            self._release_block()

    def _release_block(self) -> None:
        self.blocks -= 1
        if not self.blocks:
            self._turn.notify_all()

    # -- joiners ------------------------------------------------------------------------------------------------------

    def _joiner_has_priority(self, now: float) -> bool:
        """Whether a waiting joiner has priority over new requests."""
        return self.waiting > 0 and self._is_priority_time(now)

    def _is_priority_time(self, now: float) -> bool:
        """Whether joiners have priority at the time `now`."""
        return now >= self._priority_from and int((now - self._priority_from) / self._preference_s) % 2 == 0

    def _wait_s(self, most_s: float, now: float) -> float:
        """Seconds to wait for a notification, at most until joiners lose their priority."""
        if self.inside or now < self._priority_from:
            return most_s
        used_s = (now - self._priority_from) % self._preference_s
        return min(most_s, self._preference_s - used_s + 0.001)

    def join(self, stopping: Callable[[], bool]) -> bool:
        """Wait until no event, block or joiner is inside, and enter. Returns False if `stopping` returned true."""
        with self._guard:
            if not self.waiting:
                self._priority_from = max(monotonic(), self.paused_until)
            self.waiting += 1
            try:
                while True:
                    remaining_s = (
                        self.paused_until - monotonic()
                    )  # computed once, because the pause may end between two readings of the clock
                    if not (self.inside or self.events or self.blocks or remaining_s > 0):
                        break
                    if stopping():
                        return False
                    most_s = min(1.0, self._preference_s)
                    self._turn.wait(min(most_s, remaining_s) if remaining_s > 0 else most_s)
                self.inside = True
                self._inside_since = monotonic()
                return True
            finally:
                self.waiting -= 1
                if not self.inside and not self.waiting:
                    self._pause_after_turn(monotonic(), 0.0)
                    self._turn.notify_all()

    def joined(self) -> None:
        """Record that the joiner is finished or has failed, and let waiting events and blocks in."""
        with self._guard:
            now = monotonic()
            self.inside = False
            self.events += self.held_events
            self.blocks += self.held_blocks
            self.held_events = self.held_blocks = 0
            self._round += 1
            self._pause_after_turn(self._inside_since, now - self._inside_since)
            self._turn.notify_all()

    def pause_joiners(self, held_s: float) -> None:
        """Let no plugin join for `held_s` seconds: events may have waited as long for a plugin that has joined."""
        with self._guard:
            self.paused_until = max(self.paused_until, monotonic() + min(held_s, self._preference_s))
            self._priority_from = max(self._priority_from, self.paused_until)
            self._turn.notify_all()

    def _pause_after_turn(self, priority_until: float, inside_s: float) -> None:
        """Let no plugin join for as long as joiners have just delayed others, at most `preference_s`."""
        held_s = inside_s
        if self._is_priority_time(priority_until):
            held_s += (priority_until - self._priority_from) % self._preference_s
        self.paused_until = max(self.paused_until, priority_until + inside_s + min(held_s, self._preference_s))
        self._priority_from = self.paused_until
