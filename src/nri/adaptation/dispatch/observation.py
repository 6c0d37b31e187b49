"""Observed invokers, which report to observers and reporters what happens between an event and its plugins.

The dispatcher chooses the invoker when an event starts, so no later step has to look for observers:

| attached | invoker | reported |
|---|---|---|
| nothing | `Invoker` | nothing |
| an observer (metrics) | `ObservedInvoker` | answers and failures with their durations, merged answers |
| a reporter (recorder, `nri top`) | `RecordedInvoker` | also start and end of the event, and each request's bytes |

`nri.adaptation.audit.reporting` catches the exceptions of observers and reporters.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from nri.adaptation.dispatch.invoker import Invoker

if TYPE_CHECKING:
    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.dispatch.event import Event
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.peers.turns import Place, Sent
    from nri.errors import NriError
    from nri.rules import Rules


class ObservedInvoker(Invoker):
    """Reports the answers and failures of plugins."""

    __slots__ = ()

    def plugin_answered(self, peer: Peer, event: Event, reply: bytes) -> None:
        """Report an answer, with its duration."""
        self._reporting.plugin_answered(peer.label, event.rpc, event.serial, reply, peer.latency_s)

    def plugin_failed(self, peer: Peer, event: Event, error: Exception, waited_s: float) -> None:
        """Report a missing answer or an error, with its duration."""
        self._reporting.plugin_failed(peer.label, event.rpc, event.serial, error, waited_s)

    def reply_merged(self, peer: Peer, event: Event, message: Any, error: Exception | None = None) -> None:
        """Report that an answer was merged, or why it could not be merged."""
        self._reporting.reply_merged(peer.label, event.rpc, event.serial, message, error)


class RecordedInvoker(ObservedInvoker):
    """Also reports the start and end of an event, and the bytes of each request."""

    __slots__ = ()

    def event_starts(self, event: Event) -> None:
        """Report the start of the event, once, before its other steps."""
        if not event.reported:
            event.reported = True
            self._reporting.event_begins(event.rpc, event.serial, event.request_bytes())

    def event_ends(self, event: Event, began: float, error: NriError | None = None) -> None:
        """Report that the event is over, with its result or the error."""
        self.event_starts(event)
        result = b"" if error is not None else event.result_bytes()
        self._reporting.event_ends(event.rpc, event.serial, result, error, monotonic() - began)

    def wait_for_turn(self, place: Place, peer: Peer, event: Event, caller_deadline: float | None) -> Sent | None:
        """Report the start of the event, then wait like `Invoker.wait_for_turn`."""
        self.event_starts(event)
        return super().wait_for_turn(place, peer, event, caller_deadline)

    def plugin_asked(self, peer: Peer, event: Event) -> None:
        """Report that a plugin is asked; its request has been sent in most cases."""
        self.event_starts(event)
        self._reporting.plugin_asked(peer.label, event.rpc, event.serial, event.request_bytes())


def invokers(rules: Rules, reporting: Reporting) -> tuple[Invoker, ObservedInvoker, RecordedInvoker]:
    """The invokers of a runtime: without observers, for an observer, for reporters with or without an observer."""
    return Invoker(rules, reporting), ObservedInvoker(rules, reporting), RecordedInvoker(rules, reporting)
