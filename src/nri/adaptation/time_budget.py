"""All rules about waiting: for a plugin's answer, for a turn at a busy plugin, and for the event as a whole.

| wait | limit | afterwards |
|---|---|---|
| for one plugin's answer | its timeout for the event, or what its silence has left of it | the answer is missing |
| for a turn at a plugin that is busy with earlier events | `TURN_TIMEOUTS` of its timeouts | the answer is missing |
| for an unresponsive plugin, queue and answer together | `SILENCE_TIMEOUTS` of its timeouts | it is not asked |
| for all plugins | the caller's deadline, which also shortens the waits above | the event fails with DeadlineExceeded |

`nri.adaptation.dispatch.invoker` has the consequences of a missing answer. How long an event waits for a plugin that is
joining is the rule of `nri.adaptation.registration.sync_gate`; how often a plugin may fail to answer, and for how long
it is left out then, that of `nri.adaptation.peers.breaker`.

**Silence.** Events that come to a plugin while another one waits for its answer queue behind that one. If the answer
does not come, each of them has lost as much time as the event that was asked. With a whole timeout for each, the fourth
of four would wait for four timeouts. So an event counts the time that a plugin's silence has cost it, whichever event
was asked (`SilenceBudget`). When its turn comes, it has what is left, and with nothing left it continues as if the
plugin had not answered it. Half a timeout is left after one silence: a plugin that was held up for a moment loses the
request that it did not answer, and not all that were waiting. Time in which other events were answered does not count:
a plugin that is slow and answers loses nothing. The same budget continues when the plugin is asked to validate.

Times are absolute, in seconds of `time.monotonic()`; they are passed in, and nothing here waits.
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

#: How long an event waits for its turn at a plugin that is busy with others, in timeouts of that plugin.
TURN_TIMEOUTS: Final = 2.0
#: How much of a plugin's silence an event bears, in timeouts of that plugin.
SILENCE_TIMEOUTS: Final = 1.5
#: The share of a timeout that counts as a whole miss; less than one, because neither clocks nor sums are exact.
WHOLE_MISS_SHARE: Final = 0.95
#: Less is no time to answer in: a plugin gets its deadline in whole milliseconds.
MIN_ANSWER_S: Final = 0.001


def answer_deadline(now: float, timeout_s: float, deadline: float | None) -> float:
    """When a plugin that is asked now must have answered; `deadline` is the caller's, None for none."""
    limit = now + timeout_s
    return limit if deadline is None or limit <= deadline else deadline


def turn_limit_s(timeout_s: float) -> float:
    """How long an event waits for its turn at a busy plugin, in seconds; `timeout_s` is that plugin's timeout."""
    return TURN_TIMEOUTS * timeout_s


def turn_deadline(now: float, limit_s: float, deadline: float | None) -> float | None:
    """When an event stops waiting for its turn; None for never.

    Args:
        now: when it starts to wait.
        limit_s: the limit for this plugin (`turn_limit_s`), 0 for none.
        deadline: the caller's, None for none. If this is what is returned, it is the caller who has no time left.
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
    """How much longer one event may wait for each plugin that does not answer.

    Each plugin's breaker adds up how long requests have waited in vain for it (`Breaker.silence_s`). The event notes
    that sum when it starts to wait for the plugin; the difference since then is what the silence has cost it.
    """

    __slots__ = ("_silence_before",)

    def __init__(self) -> None:
        self._silence_before: dict[object, float] = {}

    def copy(self) -> SilenceBudget:
        """The same budget for another event, which continues this one."""
        budget = SilenceBudget()
        budget._silence_before.update(self._silence_before)
        return budget

    def start_waiting(self, plugin: object, silence_s: float) -> None:
        """Note that the event starts to wait for a plugin; later calls keep the first sum.

        Args:
            plugin: identifies it; kept and compared, not looked into.
            silence_s: the present sum of its silences.
        """
        self._silence_before.setdefault(plugin, silence_s)

    def has_borne_silence(self, plugin: object, silence_s: float) -> bool:
        """Whether the plugin's silence has cost the event any time."""
        return silence_s > self._silence_before.get(plugin, silence_s)

    def remaining_s(self, plugin: object, silence_s: float, timeout_s: float) -> float:
        """Seconds for which the event may still wait for the plugin's answer; 0.0: the plugin is not asked."""
        before_s = self._silence_before.get(plugin)
        if before_s is None:
            return timeout_s
        remaining_s = SILENCE_TIMEOUTS * timeout_s - (silence_s - before_s)
        return min(timeout_s, remaining_s) if remaining_s >= MIN_ANSWER_S else 0.0
