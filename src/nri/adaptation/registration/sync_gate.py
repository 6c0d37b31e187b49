"""The gate between events and joining plugins: events pass together, a joiner passes alone.

While a plugin joins, no event may be under way: then a container is either in the state that the plugin is given or in
an event that it gets, never in neither. Three parties, three rules:

- A **block** (`Adaptation.block_sync`) is held by the runtime for a whole request. It queues behind a waiting joiner,
  so that joiners are not starved; an urgent one (Stop, Remove) does not.
- An **event** passes a waiting joiner if it is urgent or if any block is held (perhaps by its own request: waiting
  would be a deadlock). It waits for a joiner that is inside, for a bounded time: a runtime whose `synchronize` needs
  a lock that the event's caller holds would hang otherwise.
- A **joiner** waits for all blocks and events to end. Its right of way lasts `preference_s`, then it stands back for as
  long, so that one slow stop request delays the joiner and not every other request.

Next: `nri.adaptation.registration.chain`, the list of plugins that the gate guards.
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
    """Keeps plugins from joining until `release`. A context manager; releasing twice does nothing."""

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
    """Counts the events, blocks and joiners inside."""

    __slots__ = (
        "_blocks",
        "_events",
        "_guard",
        "_inside",
        "_pending",
        "_preference_s",
        "_stood_since",
        "_turn",
        "_waiting",
    )

    def __init__(self, preference_s: float = 2.0) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Condition(self._guard)
        self._events = 0
        self._blocks = 0
        self._inside = False  # a joiner has passed
        self._waiting = 0  # joiners that wait
        self._stood_since = 0.0
        self._preference_s = preference_s
        self._pending: Callable[[], None] | None = None

    # -- events -------------------------------------------------------------------------------------------------------

    def enter(self, *, urgent: bool, deadline: float | None, patience_s: float) -> bool:
        """An event begins. False: a joiner has been inside for `patience_s`, and the event goes on beside it.

        DeadlineExceeded: the caller's own deadline passed.
        """
        with self._guard:
            if not self._inside and not self._waiting:
                self._events += 1
                return True
            limit = monotonic() + patience_s
            passed = True
            while self._inside or (self._has_way() and not urgent and not self._blocks):
                now = monotonic()
                if deadline is not None and now >= deadline:
                    raise DeadlineExceeded("a plugin that is joining")
                if now >= limit:
                    passed = not self._inside
                    break
                self._turn.wait(min(limit, deadline or limit) - now)
            self._events += 1
            return passed

    def leave(self) -> None:
        """An event is over."""
        with self._guard:
            self._events -= 1
            if not self._events:
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
        """A request begins. DeadlineExceeded if a joiner does not end before the deadline."""
        with self._guard:
            while self._inside or (self._waiting and not urgent and self._has_way()):
                now = monotonic()
                if deadline is not None and now >= deadline:
                    raise DeadlineExceeded("a plugin that is joining")
                self._turn.wait(self._preference_s if deadline is None else min(self._preference_s, deadline - now))
            self._blocks += 1
            return Block(self)

    def unblock(self) -> None:
        """A request is over."""
        with self._guard:
            self._blocks -= 1
            if not self._blocks:
                self._turn.notify_all()

    # -- joiners ------------------------------------------------------------------------------------------------------

    def _has_way(self) -> bool:
        """Whether a waiting joiner goes before new requests at this moment."""
        if not self._waiting:
            return False
        return int((monotonic() - self._stood_since) / self._preference_s) % 2 == 0

    def join(self, stopping: Callable[[], bool]) -> bool:
        """Wait until nobody else is inside, then be alone until `joined`. False: `stopping` came true."""
        with self._guard:
            if not self._waiting:
                self._stood_since = monotonic()
            self._waiting += 1
            try:
                while self._inside or self._events or self._blocks:
                    if stopping():
                        return False
                    self._turn.wait(min(1.0, self._preference_s))
                self._inside = True
                return True
            finally:
                self._waiting -= 1
                if not self._inside:
                    self._turn.notify_all()

    def joined(self) -> None:
        """The joiner is through, or has failed."""
        with self._guard:
            self._inside = False
            self._stood_since = monotonic()
            self._turn.notify_all()
