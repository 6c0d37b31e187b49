"""The one place where the steps of an event are told to those who watch: the observer of metrics, and recorders.

The dispatcher, the invoker, the events and the handshake call one method of `Reporting` per step, where the step
happens. Nothing on the way changes by it, and where nobody watches, a step costs one look at `watched`. What a watcher
raises is logged once and goes no further: an event must not fail because it was looked at. The audit trail is no
watcher: it takes each event as a whole when it ends. Next: `nri.adaptation.audit.trail`.
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

from nri.api import messages as m

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from nri.adaptation.audit.shadow import ShadowReport
    from nri.interfaces import Reporter
    from nri.metrics import Observer

__all__ = ["SERIALS", "Reporting", "adjustment_of", "evictions_of"]

log = logging.getLogger("nri.adaptation")


#: Numbers for events, from 1: one holds the steps of its event together while others overlap with it.
SERIALS: Final = itertools.count(1)


def adjustment_of(message: Any) -> m.ContainerAdjustment | None:
    """The adjustment of an answer; None if it has none, or its event knows none."""
    if message.__class__ is not m.CreateContainerResponse or not message.HasField("adjust"):
        return None
    adjust: m.ContainerAdjustment = message.adjust
    return adjust


def evictions_of(message: Any) -> Any:
    """The evictions of an answer; none if its event knows none."""
    return message.evict if hasattr(message, "evict") else ()


class Reporting:
    """Tells the steps of events. Thread-safe as far as the watchers are.

    Attributes:
        watched: an observer or a reporter is there; without one no method here needs to be called.
        recorded: a reporter is there, who wants the bytes of requests and results.
    """

    __slots__ = ("_complained", "_observer", "_reporters", "recorded", "watched")

    def __init__(self, observer: Observer | None = None, reporters: Sequence[Reporter] = ()) -> None:
        # People write these: what theirs return is not looked at, not even by compiled code.
        self._observer: Any = observer
        self._reporters: tuple[Any, ...] = tuple(reporters)
        self.recorded = bool(self._reporters)
        self.watched = observer is not None or self.recorded
        self._complained: set[str] = set()

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Tell that an event begins; `event` is the name of its RPC. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                reporter.event_begins(event, serial, request)
            except Exception as error:  # noqa: BLE001 - see the module
                self._complain(reporter, error)

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """Tell that a plugin is asked now. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                reporter.plugin_asked(plugin, event, serial, request)
            except Exception as error:  # noqa: BLE001
                self._complain(reporter, error)

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """Tell that a plugin has answered, after so many seconds."""
        observer = self._observer
        if observer is not None:
            try:
                observer.record_plugin_invocation(plugin, event, None)
                observer.record_plugin_latency(plugin, event, duration_s)
            except Exception as error:  # noqa: BLE001
                self._complain(observer, error)
        for reporter in self._reporters:
            try:
                reporter.plugin_answered(plugin, event, serial, reply, duration_s)
            except Exception as error:  # noqa: BLE001
                self._complain(reporter, error)

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Tell that a plugin gave no answer, or answered with an error."""
        observer = self._observer
        if observer is not None:
            try:
                observer.record_plugin_invocation(plugin, event, error)
                observer.record_plugin_latency(plugin, event, duration_s)
            except Exception as fault:  # noqa: BLE001
                self._complain(observer, fault)
        for reporter in self._reporters:
            try:
                reporter.plugin_failed(plugin, event, serial, error, duration_s)
            except Exception as fault:  # noqa: BLE001
                self._complain(reporter, fault)

    def reply_merged(self, plugin: str, event: str, serial: int, message: Any, error: Exception | None) -> None:
        """Tell that an answer is part of the result, or cannot be because of `error`."""
        observer = self._observer
        if observer is not None and error is None:
            adjust, evict = adjustment_of(message), evictions_of(message)
            try:
                observer.record_plugin_adjustments(plugin, event, adjust, len(message.update), len(evict))
            except Exception as fault:  # noqa: BLE001
                self._complain(observer, fault)
        for reporter in self._reporters:
            try:
                reporter.reply_merged(plugin, event, serial, error)
            except Exception as fault:  # noqa: BLE001
                self._complain(reporter, fault)

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """Tell that an event is over, with its result or the error. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                reporter.event_ends(event, serial, reply, error, duration_s)
            except Exception as fault:  # noqa: BLE001
                self._complain(reporter, fault)

    def shadow_answered(self, report: ShadowReport) -> None:
        """Log what a shadow plugin would have done, and tell the observer."""
        if not report.empty:
            log.info("%s", report)
        if self._observer is not None:
            try:
                self._observer.record_shadow(report)
            except Exception as error:  # noqa: BLE001
                self._complain(self._observer, error)

    def plugins_counted(self, active: int) -> None:
        """Tell the observer how many plugins take part now."""
        if self._observer is not None:
            try:
                self._observer.update_plugin_count(active)
            except Exception as error:  # noqa: BLE001
                self._complain(self._observer, error)

    def _complain(self, watcher: object, error: Exception) -> None:
        kind = type(watcher).__name__
        if kind not in self._complained:
            self._complained.add(kind)
            log.error("%s failed to take note of an event; this is told once", kind, exc_info=error)
