"""The limits of waiting: for a plugin's answer, for a turn at a busy plugin, and for a whole event.

| wait | limit | afterwards |
|---|---|---|
| for a plugin's answer | the plugin's timeout, or the rest of the event's `SilenceBudget` | the answer is missing |
| for a turn at a plugin that has earlier events | the plugin's timeout x `TURN_TIMEOUTS` | the answer is missing |
| for an unresponsive plugin, turn and answer together | the plugin's timeout x `SILENCE_TIMEOUTS` | it is not asked |
| for all plugins | the caller's deadline, which also shortens the waits above | the event fails with DeadlineExceeded |

`nri.adaptation.dispatch.invoker` decides what follows from a missing answer. `nri.adaptation.registration.sync_gate`
limits how long an event waits for a joining plugin, and `nri.adaptation.peers.breaker` how often a plugin may fail.

**Silence.** Events that reach a plugin while another event waits for its answer queue behind that event. If the answer
does not come, each queued event has lost as much time as the event that the plugin did not answer. If each queued event
then had a full timeout, the fourth of four events would wait for four timeouts. So an event counts the time that it has
lost to a plugin's silence, regardless of which event the plugin did not answer. When its turn comes, the event may wait
for the rest of its budget; with an empty budget, it continues without an answer. After the plugin has missed one full
timeout, half a timeout is left for each queued event: a plugin that was held up for a moment misses one request, not
all queued requests. Time in which the plugin answered other events is not charged. If the plugin also validates the
event, the validation uses the same budget.

Times are absolute, in seconds of `time.monotonic()`. Callers pass the time in; no function of this module waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.errors import DeadlineExceeded

if TYPE_CHECKING:
    from typing import Final

#: An event waits for its turn at a busy plugin for at most this many timeouts of that plugin.
TURN_TIMEOUTS: Final = 2.0
#: An event waits for an unresponsive plugin for at most this many timeouts of that plugin.
SILENCE_TIMEOUTS: Final = 1.5
#: A wait of this share of a timeout counts as a full timeout, because neither clocks nor sums are exact.
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

    Each plugin's breaker adds up how long requests waited for the plugin without an answer (`Breaker.silence_s`). An
    event records this sum when it starts waiting for the plugin. A later sum minus the recorded sum is the time that
    the event has lost.
    """

    __slots__ = ("_silence_before",)

    def __init__(self) -> None:
        self._silence_before: dict[object, float] = {}

    def copy(self) -> SilenceBudget:
        """Copy the budget, for a second event that continues the budget's event."""
        budget = SilenceBudget()
        budget._silence_before.update(self._silence_before)
        return budget

    def start_waiting(self, plugin: object, silence_s: float) -> None:
        """Record the plugin's sum of silence when the event starts waiting. Later calls for the plugin have no effect.

        Args:
            plugin: identifies the plugin; only stored and compared.
            silence_s: the plugin's present `Breaker.silence_s`.
        """
        self._silence_before.setdefault(plugin, silence_s)

    def has_lost_time(self, plugin: object, silence_s: float) -> bool:
        """Whether the event has lost time to the plugin's silence."""
        return silence_s > self._silence_before.get(plugin, silence_s)

    def remaining_s(self, plugin: object, silence_s: float, timeout_s: float) -> float:
        """Seconds for which the event may still wait for the plugin's answer. With 0.0 the plugin is not asked."""
        before_s = self._silence_before.get(plugin)
        if before_s is None:
            return timeout_s
        remaining_s = SILENCE_TIMEOUTS * timeout_s - (silence_s - before_s)
        return min(timeout_s, remaining_s) if remaining_s >= MIN_ANSWER_S else 0.0
