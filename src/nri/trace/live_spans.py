"""Send the events of a running process to an OpenTelemetry collector, by OTLP over HTTP in JSON.

Names, times and errors are sent, but no messages. If the collector is slow or absent, spans are dropped and counted;
events never wait for it.
"""

from __future__ import annotations

import http.client
import logging
import re
import secrets
import threading
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from socket import gethostname
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from nri.trace.export import SERVER, event_spans, make_span, otlp_lines
from nri.trace.history import Event, Step
from nri.trace.recorder import error_record

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)

#: At most this many spans wait for the thread, and at most this many events are open.
MAX_WAITING_SPANS, MAX_OPEN_EVENTS = 8192, 4096
#: Spans are sent this often, in seconds. A collector has this much time to answer.
SEND_S, _ANSWER_S = 1.0, 5.0
#: Failures are logged at most this often, in seconds.
_REPORT_INTERVAL_S = 60.0
#: The statuses after which OTLP requires that a request is repeated.
_TEMPORARY = (429, 502, 503, 504)
#: A header without a trace, without a span or of version ff is invalid, as the W3C defines it.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class _SpanContext(NamedTuple):
    """The trace and the parent of new spans. Without `sampled` they are not sent."""

    trace: str
    span: str
    sampled: bool = True


@dataclass(slots=True)
class Call:
    """A served call. `fault` is the reason why it failed."""

    fault: str = ""


class SpanExporter:
    """A `nri.interfaces.Reporter` that sends spans. Thread-safe. It sends between `start` and `close`.

    Args:
        endpoint: the collector's address, for example ``http://127.0.0.1:4318``; ``/v1/traces`` is added.
        service: the name of this service.
    """

    def __init__(self, endpoint: str, service: str) -> None:
        self._url = urlsplit(f"{endpoint.rstrip('/')}/v1/traces")
        self._resource = {"service.name": service, "host.name": gethostname()}
        self._spans: deque[dict[str, Any]] = deque()
        self._lines: deque[str] = deque()
        self._open: dict[int, tuple[Event, _SpanContext | None]] = {}
        self._local = threading.local()
        self._seed = secrets.randbits(64)
        self._dropped, self._reported_at = 0, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nri-spans", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def close(self) -> None:
        """Send the remaining spans, if the collector answers in time."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _ANSWER_S)

    # -- calls that the process serves --------------------------------------------------------------------------------

    @contextmanager
    def call(self, method: str, traceparent: str = "") -> Iterator[Call]:
        """Make a span of a call ``/SERVICE/METHOD``; events of this thread inside the block are its children.

        `traceparent` is the client's header of the W3C's trace context. It decides whether the call is sampled.
        """
        match = _TRACEPARENT.fullmatch(traceparent)
        trace, parent = (match[1], match[2]) if match else (secrets.token_hex(16), "")
        context = _SpanContext(trace, secrets.token_hex(8), not match or bool(int(match[3], 16) & 1))
        began_ns, call = time.time_ns(), Call()
        self._local.context = context
        try:
            yield call
        finally:
            self._local.context = None
            if context.sampled:
                service, _, name = method.removeprefix("/").rpartition("/")
                attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
                duration_ns = time.time_ns() - began_ns
                span = make_span(
                    trace, context.span, method.removeprefix("/"), SERVER, began_ns, duration_ns, attributes,
                    fault=call.fault, parent=parent,
                )  # fmt: skip
                self._put([span])

    # -- calls of the adaptation --------------------------------------------------------------------------------------

    def event_begins(self, event: str, serial: int, request: bytes) -> None:
        """Begin the span of an event."""
        context: _SpanContext | None = getattr(self._local, "context", None)
        if (context is None or context.sampled) and len(self._open) < MAX_OPEN_EVENTS:
            entry = Event(event, serial, self._seed, time.time_ns())
            entry.request = bytes(request)
            self._open[serial] = entry, context

    def plugin_asked(self, plugin: str, event: str, serial: int, request: bytes) -> None:
        """Begin the span of a call of a plugin."""
        if serial in self._open:
            self._open[serial][0].add(Step(plugin, event, b"", time.time_ns()))

    def plugin_answered(self, plugin: str, event: str, serial: int, reply: bytes, duration_s: float) -> None:
        """End the span of a call of a plugin."""
        if step := self._step(plugin, event, serial):
            step.duration_ns = int(duration_s * 1e9)
            step.time_ns = time.time_ns() - step.duration_ns

    def plugin_failed(self, plugin: str, event: str, serial: int, error: Exception, duration_s: float) -> None:
        """End the span of a failed call of a plugin."""
        self.plugin_answered(plugin, event, serial, b"", duration_s)
        if step := self._step(plugin, event, serial):
            step.error = error_record(error, plugin)

    def reply_merged(self, plugin: str, event: str, serial: int, error: Exception | None) -> None:
        """Note in the span of a plugin's call that its answer was refused."""
        if error is not None and (step := self._step(plugin, event, serial)):
            step.refused = error_record(error)

    def event_ends(self, event: str, serial: int, reply: bytes, error: Exception | None, duration_s: float) -> None:
        """End the span of an event."""
        entry, context = self._open.pop(serial, (None, None))
        if entry is not None:
            entry.duration_ns = int(duration_s * 1e9)
            entry.error = None if error is None else error_record(error)
            # Now, because spans are small and bounded, but the request of an event may be megabytes long.
            self._put(list(event_spans(entry, context.trace, context.span) if context else event_spans(entry)))

    def _step(self, plugin: str, event: str, serial: int) -> Step | None:
        return self._open[serial][0].latest(plugin, event) if serial in self._open else None

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _put(self, spans: list[dict[str, Any]]) -> None:
        """Hand the spans of a call or of an event to the thread, all or none of them."""
        if len(self._spans) + len(spans) <= MAX_WAITING_SPANS:
            self._spans.extend(spans)
        else:
            self._dropped += len(spans)

    def _run(self) -> None:
        while not self._ended.wait(SEND_S):
            self._send()
        self._send()

    def _send(self) -> None:
        """Send the waiting spans. After a failure that may be temporary, they wait for the next attempt."""
        while self._lines or self._spans:
            if not self._lines:
                spans = (self._spans.popleft() for _ in range(len(self._spans)))
                self._lines.extend(otlp_lines(spans, self._resource))
            try:
                status = self._post(self._lines[0].encode())
            except (OSError, http.client.HTTPException) as error:
                self._report(str(error) or type(error).__name__)
                return
            if status >= http.client.MULTIPLE_CHOICES:
                self._report(f"status {status}")
                if status in _TEMPORARY:
                    return
            self._lines.popleft()

    def _post(self, data: bytes) -> int:
        kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=_ANSWER_S)
        try:
            connection.request("POST", self._url.path, data, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def _report(self, reason: str) -> None:
        if time.monotonic() - self._reported_at > _REPORT_INTERVAL_S or not self._reported_at:
            self._reported_at = time.monotonic()
            _log.warning(
                "spans cannot be sent to %s: %s; %d spans were dropped so far",
                self._url.geturl(),
                reason,
                self._dropped,
            )
