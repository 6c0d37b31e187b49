"""Pass the steps of events to watchers: the observer of metrics, and reporters.

The dispatcher, the invokers and the handshake call a method of `Reporting` for each step. Without a watcher a step only
costs reading `watched`. A watcher's exception is logged once and not raised: an event must not fail because it is
observed.
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

log = logging.getLogger("nri.adaptation")


#: Ignored updates of a plugin are logged once in this many seconds.
LEFT_OUT_LOG_S: Final = 60.0
#: The time of the last log line is stored for at most this many plugins.
MAX_REMEMBERED: Final = 256

#: Serial numbers of events, from 1: they distinguish the steps of overlapping events.
SERIALS: Final = itertools.count(1)


def adjustment_of(message: Any) -> m.ContainerAdjustment | None:
    """The adjustment of an answer. Returns None if the answer has none."""
    if type(message) is not m.CreateContainerResponse or not message.HasField("adjust"):
        return None
    adjust: m.ContainerAdjustment = message.adjust
    return adjust


def evictions_of(message: Any) -> Any:
    """The evictions of an answer, which may be empty."""
    return message.evict if hasattr(message, "evict") else ()


class Reporting:
    """Reports the steps of events. It is as thread-safe as the watchers are.

    The observer of metrics gets no reports about plugins of our own commands that only watch (`OBSERVERS`): each run of
    a command would leave series for a plugin that is gone.

    Attributes:
        watched: whether there is an observer or a reporter. Without a watcher no method needs to be called.
        recorded: whether there is a reporter, which needs the bytes of requests and results.
        limited_log: the rate-limited log of refused connections, dropped answers and similar messages.
    """

    __slots__ = (
        "_guard",
        "_left_out",
        "_logged_kinds",
        "_observer",
        "_reporters",
        "limited_log",
        "recorded",
        "watched",
    )

    def __init__(self, observer: Observer | None = None, reporters: Sequence[Reporter] = ()) -> None:
        # Users write these watchers: their return values are ignored, even in compiled code.
        self._observer: Any = observer
        self._reporters: tuple[Any, ...] = tuple(reporters)
        self.recorded = bool(self._reporters)
        self.watched = observer is not None or self.recorded
        self.limited_log = BoundedLog(log)
        self._logged_kinds: set[str] = set()
        self._guard = threading.Lock()
        self._left_out: dict[
            str, tuple[int, float]
        ] = {}  # for each plugin: suppressed lines, and time of the last line

    def attach(self, reporter: Reporter) -> None:
        """Add a reporter. It may miss the start of running events."""
        with self._guard:
            self._set((*self._reporters, reporter))

    def detach(self, reporter: Reporter) -> None:
        """Remove a reporter. Steps in progress may still reach it."""
        with self._guard:
            self._set(tuple(other for other in self._reporters if other is not reporter))

    def _set(self, reporters: tuple[Any, ...]) -> None:
        self._reporters = reporters
        self.recorded = bool(reporters)
        self.watched = self._observer is not None or self.recorded

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Report that an event begins. `event` is its RPC name. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                reporter.event_begins(event, serial, request)
            except Exception as error:  # noqa: BLE001 - an observer must not fail an event
                self._log_failure(reporter, error)

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """Report that a plugin is asked. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                reporter.plugin_asked(plugin, event, serial, request)
            except Exception as error:  # noqa: BLE001
                self._log_failure(reporter, error)

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """Report that a plugin has answered, after `duration_s` seconds."""
        observer = self._observer
        if observer is not None and plugin not in OBSERVERS:
            try:
                observer.record_plugin_invocation(plugin, event, None)
                observer.record_plugin_latency(plugin, event, duration_s)
            except Exception as error:  # noqa: BLE001
                self._log_failure(observer, error)
        for reporter in self._reporters:
            try:
                reporter.plugin_answered(plugin, event, serial, reply, duration_s)
            except Exception as error:  # noqa: BLE001
                self._log_failure(reporter, error)

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """Report that a plugin did not answer, or answered with an error."""
        observer = self._observer
        if observer is not None and plugin not in OBSERVERS:
            try:
                observer.record_plugin_invocation(plugin, event, error)
                observer.record_plugin_latency(plugin, event, duration_s)
            except Exception as fault:  # noqa: BLE001
                self._log_failure(observer, fault)
        for reporter in self._reporters:
            try:
                reporter.plugin_failed(plugin, event, serial, error, duration_s)
            except Exception as fault:  # noqa: BLE001
                self._log_failure(reporter, fault)

    def reply_merged(self, plugin: str, event: str, serial: int, message: Any, error: Exception | None) -> None:
        """Report that an answer was merged, or could not be merged because of `error`.

        `message` is the answer, or its adjustment if it has nothing else.
        """
        observer = self._observer
        if observer is not None and error is None and plugin not in OBSERVERS:
            adjust, updates, evictions = message, 0, 0
            if type(message) is not m.ContainerAdjustment:
                adjust, updates, evictions = adjustment_of(message), len(message.update), len(evictions_of(message))
            try:
                observer.record_plugin_adjustments(plugin, event, adjust, updates, evictions)
            except Exception as fault:  # noqa: BLE001
                self._log_failure(observer, fault)
        for reporter in self._reporters:
            try:
                reporter.reply_merged(plugin, event, serial, error)
            except Exception as fault:  # noqa: BLE001
                self._log_failure(reporter, fault)

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """Report that an event is over, with its result or the error. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                reporter.event_ends(event, serial, reply, error, duration_s)
            except Exception as fault:  # noqa: BLE001
                self._log_failure(reporter, fault)

    @contextmanager
    def plugin_request(self, plugin: str, event: str, request: bytes) -> Iterator[list[bytes]]:
        """Report a plugin's own request to the runtime, as an event with this plugin only.

        The block processes the request, and appends the runtime's reply to the list. An exception of the block is the
        event's error. Only needed if `recorded`.
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

    def plugin_changed(self, plugin: str, state: str, details: dict[str, str]) -> None:
        """Report a change of a plugin to the reporters that have this method. Only needed if `recorded`."""
        for reporter in self._reporters:
            try:
                if hasattr(reporter, "plugin_changed"):
                    reporter.plugin_changed(plugin, state, details)
            except Exception as error:  # noqa: BLE001
                self._log_failure(reporter, error)

    def shadow_answered(self, report: ShadowReport) -> None:
        """Log the report on a shadow plugin, and pass it to the observer."""
        if not report.empty:
            log.info("%s", report)
        if self._observer is not None:
            try:
                self._observer.record_shadow(report)
            except Exception as error:  # noqa: BLE001
                self._log_failure(self._observer, error)

    def left_out(self, plugin: str, event: str, container: str) -> None:
        """Log, once a minute per plugin, that an update or eviction is ignored, and count it with the observer."""
        if self._observer is not None:
            try:
                self._observer.record_left_out(plugin, event)
            except Exception as error:  # noqa: BLE001
                self._log_failure(self._observer, error)
        now = monotonic()
        with self._guard:
            count, since = self._left_out.get(plugin, (0, -LEFT_OUT_LOG_S))
            is_logged = now - since >= LEFT_OUT_LOG_S
            self._left_out[plugin] = (0, now) if is_logged else (count + 1, since)
            if len(self._left_out) > MAX_REMEMBERED:
                del self._left_out[next(iter(self._left_out))]
        if is_logged:
            more = f", and {count} more in the last minute" if count else ""
            named_container = f"container {quote(cut(container, 128))}, which does not exist"
            which = named_container if container else "a container without an id"
            log.warning(
                "plugin %s, %s: ignored an update or eviction of %s%s",
                plugin,
                event,
                which,
                more,
            )

    def withdrawn(self, plugin: str, event: str, container: str, error: Exception) -> None:
        """Log and count that a plugin's answer is dropped, because another plugin failed the event."""
        if self._observer is not None:
            try:
                self._observer.record_withdrawn(plugin, event)
            except Exception as fault:  # noqa: BLE001
                self._log_failure(self._observer, fault)
        text, which = "dropped the answer of plugin %s to %s of container %s: %s", quote(cut(container, 128))
        self.limited_log.line("dropped answers", logging.INFO, text, plugin, event, which, error)

    def refused(self, reason: str, text: str, *args: object) -> None:
        """Count a refused connection or registration with the observer, and log it at a limited rate.

        Args:
            reason: the kind of refusal, which is also the metric's label.
            text, args: as for `logging`.
        """
        if self._observer is not None:
            try:
                self._observer.record_refused(reason)
            except Exception as error:  # noqa: BLE001
                self._log_failure(self._observer, error)
        self.limited_log.line(reason, logging.WARNING, text, *args)

    def plugins_counted(self, active: int) -> None:
        """Report the number of active plugins to the observer."""
        if self._observer is not None:
            try:
                self._observer.update_plugin_count(active)
            except Exception as error:  # noqa: BLE001
                self._log_failure(self._observer, error)

    def _log_failure(self, watcher: object, error: Exception) -> None:
        kind = type(watcher).__name__
        if kind not in self._logged_kinds:
            self._logged_kinds.add(kind)
            log.error("%s failed to process a report; further failures are not logged", kind, exc_info=error)
