"""Report every step of the requests that a session answers to a `nri.interfaces.Reporter`.

Steps are reported after the reply has been sent, so that the runtime does not wait for it.
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

_REPORTED_METHODS = frozenset((*BY_RPC, "Configure", "Synchronize", "StateChange", "Shutdown"))
#: The serial numbers of requests, shared by all connections of this process.
_serials = count(1)


class Reporting:
    """The reporting of a connection. Requests arrive one at a time, so the current request is stored in attributes.

    Args:
        reporter: called with the steps.
        label: the plugin's name in reports, ``NN-name``.
        plugin: the plugin whose log receives the reporter's first error.
    """

    def __init__(self, reporter: Reporter, label: str, plugin: PluginBase) -> None:
        untyped_reporter: Any = reporter  # compiled code would check the types of the reporter's return values
        self._begins, self._ends = untyped_reporter.event_begins, untyped_reporter.event_ends
        self._is_asked, self._answers, self._fails = (
            untyped_reporter.plugin_asked,
            untyped_reporter.plugin_answered,
            untyped_reporter.plugin_failed,
        )
        self._label = label
        self._plugin = plugin
        self._has_failed = False
        self._reset_request()

    def _reset_request(self) -> None:
        """Reset the attributes of a request. A separate method, because mypyc would narrow types in the caller."""
        self._asked = self._answered = False
        self._reply = b""
        self._error: Exception | None = None
        self._took_s = 0.0

    def around_requests(self, answer: Callable[[Request], object]) -> Callable[[Request], object]:
        """Wrap `answer`, so that the steps of each request are reported."""

        def answer_and_report(request: Request) -> object:
            event = request.method
            if event not in _REPORTED_METHODS or request.service != naming.PLUGIN_SERVICE:
                return answer(request)
            began = monotonic()
            self._reset_request()
            completed = False
            try:
                outcome = answer(request)
                completed = True
            finally:
                self._report(event, request.payload, monotonic() - began, completed)
            return outcome

        return answer_and_report

    def around_handlers(self, table: dict[str, Serve]) -> dict[str, Serve]:
        """Wrap the functions of the table, so that their calls, replies and errors are reported."""
        return {event: self._around_handler(serve) for event, serve in table.items()}

    def _around_handler(self, serve: Serve) -> Serve:
        def serve_and_note(payload: bytes, call: Call) -> bytes:
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

        return serve_and_note

    def _report(self, event: str, payload: bytes, duration_s: float, completed: bool) -> None:
        """Report all steps of a request. If it is not `completed`, the handler has ended the program."""
        label, serial = self._label, next(_serials)
        try:
            self._begins(event, serial, payload)
            if self._asked:
                self._is_asked(label, event, serial, payload)
            if self._answered:
                self._answers(label, event, serial, self._reply, self._took_s)
            elif self._error is not None:
                self._fails(label, event, serial, self._error, self._took_s)
            if completed:
                self._ends(event, serial, self._reply, self._error, duration_s)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                self._plugin.log.exception("the reporter failed: it may have missed steps of this and later requests")
