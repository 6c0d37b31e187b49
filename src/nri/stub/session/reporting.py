"""Tell a reporter every step of the requests that a session answers: the one place for that on the plugin's side.

One job: wrap the function that answers requests, and those that call handlers, so that a `nri.interfaces.Reporter` is
told where each step happens. Nothing is wrapped, and this module not even loaded, while there is no reporter. Rules: a
reporter sees bytes and may change nothing; what it raises is logged once for a connection, and the plugin goes on.
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
        reporter: is told.
        label: the plugin's name in what is told, ``NN-name``.
        plugin: its log gets the reporter's first error.
    """

    def __init__(self, reporter: Reporter, label: str, plugin: PluginBase) -> None:
        theirs: Any = reporter  # people write these: what theirs return is not looked at, not even compiled
        self._begins, self._ends = theirs.event_begins, theirs.event_ends
        self._asked, self._answered, self._failed = theirs.plugin_asked, theirs.plugin_answered, theirs.plugin_failed
        self._label = label
        self._plugin = plugin
        self._has_failed = False
        self._serial = 0
        self._reply = b""
        self._error: Exception | None = None

    def around_requests(self, answer: Callable[[Request], object]) -> Callable[[Request], object]:
        """Tell where each request begins and, after its reply has been sent, ends."""

        def told(request: Request) -> object:
            event = request.method
            if event not in _TOLD or request.service != naming.PLUGIN_SERVICE:
                return answer(request)
            began = monotonic()
            serial = self._serial = next(_serials)
            self._forget()
            self._tell(self._begins, event, serial, request.payload)
            outcome = answer(request)
            self._tell(self._ends, event, serial, self._reply, self._error, monotonic() - began)
            return outcome

        return told

    def around_handlers(self, table: dict[str, Serve]) -> dict[str, Serve]:
        """Tell, for each function of the table, when it is called, and what it answers or raises."""
        return {event: self._around_handler(event, serve) for event, serve in table.items()}

    def _around_handler(self, event: str, serve: Serve) -> Serve:
        label = self._label

        def told(payload: bytes, call: Call) -> bytes:
            serial = self._serial
            self._tell(self._asked, label, event, serial, payload)
            began = monotonic()
            try:
                reply = serve(payload, call)
            except Exception as error:
                self._error = error
                self._tell(self._failed, label, event, serial, error, monotonic() - began)
                raise
            self._reply = reply
            self._tell(self._answered, label, event, serial, reply, monotonic() - began)
            return reply

        return told

    def _forget(self) -> None:
        """Start with a new request. A method, because a compiled function that sets None goes on believing in it."""
        self._reply, self._error = b"", None

    def _tell(self, step: Any, *what: object) -> None:
        try:
            step(*what)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                self._plugin.log.exception("the reporter failed: it may have missed steps, here and later")
