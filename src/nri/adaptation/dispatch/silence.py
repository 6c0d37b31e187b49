"""The bound on an event's wait for a plugin that goes on not answering: one and a half of its timeouts in all.

Events that come to a plugin while another one waits for its answer stand behind that one. If the answer does not come,
each of them has lost as much time as the one that was asked; with a whole timeout for each, the fourth of four would
wait for four. So what a plugin's silence has cost an event counts, whichever plugin was asked: when its turn comes it
has what is left, and with nothing left it is as if the plugin had not answered it. What is left after one silence is
half a timeout, so that a plugin that was held up for a moment loses the request that it did not answer, and not all
that waited. Time in which others were answered does not count: a plugin that is slow and answers loses nothing.

Each plugin's breaker sums its silences up; an event notes the sum when it first comes to wait for the plugin, or is
first not answered by it, and has borne the difference since. The same goes on when the plugin is asked to validate.
Next: `nri.adaptation.dispatch.invoker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.adaptation.peers.breaker import WHOLE
from nri.adaptation.peers.state import Signal

if TYPE_CHECKING:
    from typing import Final

    from nri.adaptation.dispatch.event import Event
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import EventPolicy

__all__ = ["left_s", "meet", "miss"]

#: How much of a plugin's silence an event bears, in timeouts.
PATIENCE: Final = 1.5
#: Less is no time: a plugin is told in whole milliseconds how long it has.
LEAST_S: Final = 0.001


def meet(event: Event, peer: Peer) -> None:
    """Note that an event comes to wait for a plugin, if it has not met it yet."""
    met = event.silence
    if met is None:
        event.silence = {peer: peer.breaker.silence_s}
    elif peer not in met:
        met[peer] = peer.breaker.silence_s


def left_s(event: Event, peer: Peer, timeout_s: float) -> float:
    """Seconds for which the event may still wait for the plugin's answer; 0.0: not at all."""
    met = event.silence
    if met is None or peer not in met:
        return timeout_s
    left = PATIENCE * timeout_s - (peer.breaker.silence_s - met[peer])
    return min(timeout_s, left) if left >= LEAST_S else 0.0


def miss(event: Event, peer: Peer, policy: EventPolicy, given_s: float, now: float) -> None:
    """Count an answer that did not come, and cut the plugin off or leave it out if its policy says so.

    Args:
        given_s: how long the plugin had, in seconds: that we look at it later than that is not its silence.
    """
    meet(event, peer)
    share = given_s / policy.timeout_s
    rest = "" if share >= WHOLE else ", which others' waiting had left it"
    peer.last_error = what = f"no answer to {event.rpc} within {given_s:.3g} s{rest}"
    breaker = peer.breaker
    breaker.silence_s += given_s
    breaker.miss(now, share)
    if not policy.keep_connected:
        peer.signal(Signal.FATAL, what)
    elif breaker.missed >= breaker.misses > 0:
        peer.signal(Signal.TRIPPED, what)
    else:
        peer.signal(Signal.MISSED, what)
