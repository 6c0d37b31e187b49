"""The one place where the steps of an event go to those who watch: the observer of metrics, and recorders.

The dispatcher, the invoker, the events and the handshake call one method of `Reporting` per step, where the step
happens. Nothing on the way changes by it, and without a watcher a step costs one look at `watched`. A watcher's
exception is logged once and goes no further: an event must not fail because it was looked at. The audit trail is no
watcher: it takes each event as a whole when it ends.
"""

from __future__ import annotations

import itertools
import logging
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from nri.adaptation.audit.bounded_log import BoundedLog
from nri.api import messages as m
from nri.api.naming import OBSERVERS
from nri.text import cut, quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Final

    from nri.adaptation.audit.shadow import ShadowReport
    from nri.interfaces import Reporter
    from nri.metrics import Observer

__all__ = ["SERIALS", "Reporting", "adjustment_of", "evictions_of"]

log = logging.getLogger("nri.adaptation")


#: How often it is logged that updates of a plugin are left out, in seconds; how many plugins that is remembered of.
LEFT_OUT_LOG_S: Final = 60.0
REMEMBERED: Final = 256

#: Numbers for events, from 1: one holds the steps of its event together while others overlap with it.
SERIALS: Final = itertools.count(1)


def adjustment_of(message: Any) -> m.ContainerAdjustment | None:
    """The adjustment of an answer; None if it has none, or its event knows none."""
    if type(message) is not m.CreateContainerResponse or not message.HasField("adjust"):
        return None
    adjust: m.ContainerAdjustment = message.adjust
    return adjust


def evictions_of(message: Any) -> Any:
    """The evictions of an answer; none if its event knows none."""
    return message.evict if hasattr(message, "evict") else ()


class Reporting:
    """Tells the steps of events. Thread-safe as far as the watchers are.

    The observer of metrics gets nothing of the plugins with which our own commands look on (`OBSERVERS`): they change
    nothing, and each run of a command would leave series of a plugin that is gone.

    Attributes:
        watched: an observer or a reporter is there; without one no method here needs to be called.
        recorded: a reporter is there, who wants the bytes of requests and results.
        lines: the log of what connections do, which they can do at any rate.
    """

    __slots__ = ("_complained", "_guard", "_left_out", "_observer", "_reporters", "lines", "recorded", "watched")

    def __init__(self, observer: Observer | None = None, reporters: Sequence[Reporter] = ()) -> None:
        # People write these: what theirs return is not looked at, not even by compiled code.
        self._observer: Any = observer
        self._reporters: tuple[Any, ...] = tuple(reporters)
        self.recorded = bool(self._reporters)
        self.watched = observer is not None or self.recorded
        self.lines = BoundedLog(log)
        self._complained: set[str] = set()
        self._guard = threading.Lock()
        self._left_out: dict[str, tuple[int, float]] = {}  # plugin -> not told of since, and when that was

    def attach(self, reporter: Reporter) -> None:
        """Tell a further reporter from now on; of events that run it may miss the beginning."""
        with self._guard:
            self._set((*self._reporters, reporter))

    def detach(self, reporter: Reporter) -> None:
        """Tell this reporter no more; steps that are just on their way may still come."""
        with self._guard:
            self._set(tuple(each for each in self._reporters if each is not reporter))

    def _set(self, reporters: tuple[Any, ...]) -> None:
        self._reporters = reporters
        self.recorded = bool(reporters)
        self.watched = self._observer is not None or self.recorded

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
        if observer is not None and plugin not in OBSERVERS:
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
        if observer is not None and plugin not in OBSERVERS:
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
        """Tell that an answer is part of the result, or cannot be because of `error`.

        `message` is the answer, or its adjustment if that is all that it has.
        """
        observer = self._observer
        if observer is not None and error is None and plugin not in OBSERVERS:
            adjust, updates, evictions = message, 0, 0
            if type(message) is not m.ContainerAdjustment:
                adjust, updates, evictions = adjustment_of(message), len(message.update), len(evictions_of(message))
            try:
                observer.record_plugin_adjustments(plugin, event, adjust, updates, evictions)
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

    @contextmanager
    def asked_by(self, plugin: str, event: str, request: bytes) -> Iterator[list[bytes]]:
        """Tell reporters what a plugin asks of the runtime by itself, as an event with it as the only plugin.

        The block does it, and appends the runtime's reply to the list; what it raises is what the event ends with. Only
        needed if `recorded`.
        """
        serial, began = next(SERIALS), monotonic()
        replies: list[bytes] = []
        self.event_begins(event, serial, request)
        self.plugin_asked(plugin, event, serial, request)
        fault: Exception | None = None
        try:
            yield replies
        except Exception as error:
            fault = error
            raise
        finally:
            self.event_ends(event, serial, replies[0] if replies else b"", fault, monotonic() - began)

    def plugin_changed(self, plugin: str, state: str, about: dict[str, str]) -> None:
        """Tell those reporters that want it that a plugin came, went, or answers late. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                if hasattr(reporter, "plugin_changed"):
                    reporter.plugin_changed(plugin, state, about)
            except Exception as error:  # noqa: BLE001
                self._complain(reporter, error)

    def shadow_answered(self, report: ShadowReport) -> None:
        """Log what a shadow plugin would have done, and tell the observer."""
        if not report.empty:
            log.info("%s", report)
        if self._observer is not None:
            try:
                self._observer.record_shadow(report)
            except Exception as error:  # noqa: BLE001
                self._complain(self._observer, error)

    def left_out(self, plugin: str, event: str, container: str) -> None:
        """Log, once a minute per plugin, that an update or eviction is left out, and count it with the observer."""
        if self._observer is not None:
            try:
                self._observer.record_left_out(plugin, event)
            except Exception as error:  # noqa: BLE001
                self._complain(self._observer, error)
        now = monotonic()
        with self._guard:
            count, since = self._left_out.get(plugin, (0, -LEFT_OUT_LOG_S))
            told = now - since >= LEFT_OUT_LOG_S
            self._left_out[plugin] = (0, now) if told else (count + 1, since)
            if len(self._left_out) > REMEMBERED:
                del self._left_out[next(iter(self._left_out))]
        if told:
            more = f", and {count} like it in the last minute" if count else ""
            named = f"container {quote(cut(container, 128))}, which is not there"
            which = named if container else "a container without an id"
            log.warning("plugin %s asked in %s for an update of %s: left out%s", plugin, event, which, more)

    def withdrawn(self, plugin: str, event: str, container: str, error: Exception) -> None:
        """Log and count that what a plugin answered in an event came to nothing, because another one failed it."""
        if self._observer is not None:
            try:
                self._observer.record_withdrawn(plugin, event)
            except Exception as fault:  # noqa: BLE001
                self._complain(self._observer, fault)
        text, which = "what plugin %s answered to %s of container %s came to nothing: %s", quote(cut(container, 128))
        self.lines.line("answers that came to nothing", logging.INFO, text, plugin, event, which, error)

    def refused(self, reason: str, text: str, *args: object) -> None:
        """Count a refused connection or registration with the observer, and log it, at a bounded rate.

        Args:
            reason: the kind of refusal in a few words of ours; the metric's label.
            text, args: the line, as `logging` takes them.
        """
        if self._observer is not None:
            try:
                self._observer.record_refused(reason)
            except Exception as error:  # noqa: BLE001
                self._complain(self._observer, error)
        self.lines.line(reason, logging.WARNING, text, *args)

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
            log.error("%s failed to take note of an event; this is logged once", kind, exc_info=error)
