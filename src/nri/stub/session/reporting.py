"""Tell a reporter every step of the requests that a session answers: the one place for that on the plugin's side.

One job: wrap the function that answers requests, and those that call handlers, so that a `nri.interfaces.Reporter` is
told the steps of each request as soon as its reply has been sent: until then the runtime waits, afterwards telling
costs it nothing. Nothing is wrapped, and this module not even loaded, while there is no reporter. Rules: a reporter
sees bytes and may change nothing; what it raises is logged once for a connection, and the plugin goes on.
Requests come one at a time, in one thread, so the present one is kept in attributes.
"""

from __future__ import annotations

from itertools import count
from time import monotonic

from nri.api import naming
from nri.api.events import BY_RPC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from nri.interfaces import Reporter
    from nri.stub.base import PluginBase
    from nri.stub.support.context import Call
    from nri.ttrpc.envelope import Request

    Serve = Callable[[bytes, Call], bytes]

__all__ = ["Reporting"]

_TOLD = frozenset((*BY_RPC, "Configure", "Synchronize", "StateChange", "Shutdown"))
#: Numbers the requests of all connections of this process.
_serials = count(1)


class Reporting:
    """Tells a reporter what happens on one connection.

    Args:
        reporter: gets the steps.
        label: the plugin's name in reports, ``NN-name``.
        plugin: its log gets the reporter's first error.
    """

    def __init__(self, reporter: Reporter, label: str, plugin: PluginBase) -> None:
        theirs: Any = reporter  # people write these: what theirs return is not looked at, not even compiled
        self._begins, self._ends = theirs.event_begins, theirs.event_ends
        self._is_asked, self._answers, self._fails = theirs.plugin_asked, theirs.plugin_answered, theirs.plugin_failed
        self._label = label
        self._plugin = plugin
        self._has_failed = False
        self._forget()

    def _forget(self) -> None:
        """Start with a new request. A method, because a compiled function that sets None goes on believing in it."""
        self._asked = self._answered = False
        self._reply = b""
        self._error: Exception | None = None
        self._took_s = 0.0

    def around_requests(self, answer: Callable[[Request], object]) -> Callable[[Request], object]:
        """Tell the steps of each request that `answer` answers."""

        def told(request: Request) -> object:
            event = request.method
            if event not in _TOLD or request.service != naming.PLUGIN_SERVICE:
                return answer(request)
            began = monotonic()
            self._forget()
            over = False
            try:
                outcome = answer(request)
                over = True
            finally:
                self._tell(event, request.payload, monotonic() - began, over)
            return outcome

        return told

    def around_handlers(self, table: dict[str, Serve]) -> dict[str, Serve]:
        """Note, for each function of the table, that it is called, and what it answers or raises."""
        return {event: self._around_handler(serve) for event, serve in table.items()}

    def _around_handler(self, serve: Serve) -> Serve:
        def noted(payload: bytes, call: Call) -> bytes:
            self._asked = True
            began = monotonic()
            try:
                reply = serve(payload, call)
            except Exception as error:
                self._took_s = monotonic() - began
                self._error = error
                raise
            self._took_s = monotonic() - began
            self._reply = reply
            self._answered = True
            return reply

        return noted

    def _tell(self, event: str, payload: bytes, duration_s: float, over: bool) -> None:
        """Tell all steps of a request; if it is not `over`, the handler has ended the program."""
        label, serial = self._label, next(_serials)
        try:
            self._begins(event, serial, payload)
            if self._asked:
                self._is_asked(label, event, serial, payload)
            if self._answered:
                self._answers(label, event, serial, self._reply, self._took_s)
            elif self._error is not None:
                self._fails(label, event, serial, self._error, self._took_s)
            if over:
                self._ends(event, serial, self._reply, self._error, duration_s)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                self._plugin.log.exception("the reporter failed: it may have missed steps, here and later")
