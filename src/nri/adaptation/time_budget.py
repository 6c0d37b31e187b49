"""The limits of waiting: for a plugin's answer, for a turn at a busy plugin, and for a whole event.

| wait | limit | afterwards |
|---|---|---|
| for a plugin's answer | its timeout for the event, or the rest of its `SilenceBudget` | the answer is missing |
| for a turn at a plugin that is busy with earlier events | `TURN_TIMEOUTS` of its timeouts | the answer is missing |
| for an unresponsive plugin, queue and answer together | `SILENCE_TIMEOUTS` of its timeouts | it is not asked |
| for all plugins | the caller's deadline, which also shortens the waits above | the event fails with DeadlineExceeded |

`nri.adaptation.dispatch.invoker` decides what follows from a missing answer. `nri.adaptation.registration.sync_gate`
limits how long an event waits for a joining plugin, and `nri.adaptation.peers.breaker` how often a plugin may fail.

**Silence.** Events that reach a plugin while another event waits for its answer queue behind that event. If the answer
does not come, each queued event has lost as much time as the event that was asked. If each had a full timeout, the
fourth of four events would wait for four timeouts. So an event counts the time that it has lost to a plugin's silence,
whichever event was asked. When its turn comes, it may wait for the rest of its budget; with nothing left, it continues
without an answer. After one silence, half a timeout is left: a plugin that was held up for a moment loses one request,
not all waiting requests. Time in which other events were answered does not count. The same budget continues when the
plugin validates.

Times are absolute, in seconds of `time.monotonic()`. Callers pass the time in; no function of this module waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.errors import DeadlineExceeded

if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "SILENCE_TIMEOUTS",
    "TURN_TIMEOUTS",
    "WHOLE_MISS_SHARE",
    "SilenceBudget",
    "answer_deadline",
    "check_deadline",
    "turn_deadline",
    "turn_limit_s",
]

#: An event waits for its turn at a busy plugin for at most this many timeouts of that plugin.
TURN_TIMEOUTS: Final = 2.0
#: An event waits for an unresponsive plugin for at most this many timeouts of that plugin.
SILENCE_TIMEOUTS: Final = 1.5
#: This share of a timeout counts as a whole miss. It is less than one, because neither clocks nor sums are exact.
WHOLE_MISS_SHARE: Final = 0.95
#: A request is not sent if less time is left: plugins get their deadline in whole milliseconds.
MIN_ANSWER_S: Final = 0.001


def answer_deadline(now: float, timeout_s: float, deadline: float | None) -> float:
    """The deadline of a plugin that is asked now. `deadline` is the caller's deadline, None without a deadline."""
    limit = now + timeout_s
    return limit if deadline is None or limit <= deadline else deadline


def turn_limit_s(timeout_s: float) -> float:
    """The most seconds that an event waits for its turn at a busy plugin with this timeout."""
    return TURN_TIMEOUTS * timeout_s


def turn_deadline(now: float, limit_s: float, deadline: float | None) -> float | None:
    """The time at which an event stops waiting for its turn. Returns None for no limit.

    Args:
        now: the time when the event starts waiting.
        limit_s: the limit for this plugin (`turn_limit_s`), 0 for no limit.
        deadline: the caller's deadline or None. If it is returned, the caller runs out of time first.
    """
    if not limit_s:
        return deadline
    limit = now + limit_s
    return limit if deadline is None or limit <= deadline else deadline


def check_deadline(event: str, now: float, deadline: float) -> None:
    """Raise DeadlineExceeded, with the event's name, if the caller's deadline has passed."""
    if now >= deadline:
        raise DeadlineExceeded(event)


class SilenceBudget:
    """How much longer an event may wait for each unresponsive plugin.

    Each plugin's breaker adds up how long requests waited in vain for the plugin (`Breaker.silence_s`). The event
    records
    that sum when it starts waiting for the plugin; the difference since then is the time that the event lost.
    """

    __slots__ = ("_silence_before",)

    def __init__(self) -> None:
        self._silence_before: dict[object, float] = {}

    def copy(self) -> SilenceBudget:
        """Copy the budget for an event that continues this one."""
        budget = SilenceBudget()
        budget._silence_before.update(self._silence_before)
        return budget

    def start_waiting(self, plugin: object, silence_s: float) -> None:
        """Record when the event started waiting for a plugin; later calls keep the first value.

        Args:
            plugin: identifies the plugin; only stored and compared.
            silence_s: the plugin's present `Breaker.silence_s`.
        """
        self._silence_before.setdefault(plugin, silence_s)

    def has_borne_silence(self, plugin: object, silence_s: float) -> bool:
        """Whether the event has lost time to the plugin's silence."""
        return silence_s > self._silence_before.get(plugin, silence_s)

    def remaining_s(self, plugin: object, silence_s: float, timeout_s: float) -> float:
        """Seconds for which the event may still wait for the plugin's answer. With 0.0 the plugin is not asked."""
        before_s = self._silence_before.get(plugin)
        if before_s is None:
            return timeout_s
        remaining_s = SILENCE_TIMEOUTS * timeout_s - (silence_s - before_s)
        return min(timeout_s, remaining_s) if remaining_s >= MIN_ANSWER_S else 0.0
