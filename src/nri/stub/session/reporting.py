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
        self._took_s = -1.0  # how long the handler took; less than 0: it has not answered

    def around_requests(self, answer: Callable[[Request], object]) -> Callable[[Request], object]:
        """Tell where each request begins and, after its reply has been sent, what was answered, and that it is over.

        The runtime waits for the reply, so that comes first: then telling costs it nothing.
        """
        begins, ends = self._begins, self._ends

        def told(request: Request) -> object:
            event = request.method
            if event not in _TOLD or request.service != naming.PLUGIN_SERVICE:
                return answer(request)
            began = monotonic()
            serial = self._serial = next(_serials)
            self._forget()
            try:
                begins(event, serial, request.payload)
            except Exception as error:  # noqa: BLE001 - see the module; each on its own, because a call more costs the runtime
                self._complain(error)
            outcome = answer(request)
            took_s = monotonic() - began
            if self._took_s >= 0.0:
                try:
                    self._answered(self._label, event, serial, self._reply, self._took_s)
                except Exception as error:  # noqa: BLE001
                    self._complain(error)
            try:
                ends(event, serial, self._reply, self._error, took_s)
            except Exception as error:  # noqa: BLE001
                self._complain(error)
            return outcome

        return told

    def around_handlers(self, table: dict[str, Serve]) -> dict[str, Serve]:
        """Tell, for each function of the table, when it is called, and what it answers or raises."""
        return {event: self._around_handler(event, serve) for event, serve in table.items()}

    def _around_handler(self, event: str, serve: Serve) -> Serve:
        label, asked = self._label, self._asked

        def told(payload: bytes, call: Call) -> bytes:
            try:
                asked(label, event, self._serial, payload)
            except Exception as error:  # noqa: BLE001
                self._complain(error)
            began = monotonic()
            try:
                reply = serve(payload, call)
            except Exception as error:
                self._error = error
                self._tell_failed(event, error, monotonic() - began)
                raise
            self._took_s = monotonic() - began
            self._reply = reply
            return reply

        return told

    def _tell_failed(self, event: str, error: Exception, duration_s: float) -> None:
        try:
            self._failed(self._label, event, self._serial, error, duration_s)
        except Exception as fault:  # noqa: BLE001
            self._complain(fault)

    def _forget(self) -> None:
        """Start with a new request. A method, because a compiled function that sets None goes on believing in it."""
        self._reply, self._error, self._took_s = b"", None, -1.0

    def _complain(self, error: Exception) -> None:
        """Log what the reporter raised, once."""
        if not self._has_failed:
            self._has_failed = True
            text = "the reporter failed: it may have missed steps, here and later"
            self._plugin.log.error(text, exc_info=error)
