"""Export recorded events for other tools: spans in OTLP/JSON, and a Chrome trace, which Perfetto opens.

An export has names and times, but no messages. Equal recordings give equal exports. The output is yielded in pieces.
"""

from __future__ import annotations

import json
from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nri.trace.history import Event, Step

#: A line of OTLP/JSON has at most this many spans.
_MAX_SPANS = 500
#: A line of OTLP/JSON has at most this many characters.
_MAX_LINE_CHARACTERS = 256 << 10
#: The text of an attribute is cut to this many characters.
_MAX_TEXT_CHARACTERS = 1024
#: A process in a Chrome trace has at most this many rows of bars.
_MAX_ROWS = 256
#: All processes in a Chrome trace have at most this many rows together.
_MAX_ALL_ROWS = 65_536
#: A Chrome trace has at most this many processes: a recording may be forged and contain any number of plugin names.
_MAX_PROCESSES = 4096
#: The name of the process for all further plugins.
_OTHER_PLUGINS = "further plugins"
#: OTLP codes: span kinds INTERNAL, SERVER and CLIENT, and status ERROR.
_INTERNAL, SERVER, _CLIENT, _ERROR = 1, 2, 3, 2


def otlp(events: Iterable[Event]) -> Iterator[str]:
    """Yield lines of OTLP/JSON: a span for each event, and a child span for each call of a plugin."""
    yield from otlp_lines((span for event in events for span in event_spans(event)), {"service.name": "nri"})


def otlp_lines(spans: Iterable[dict[str, Any]], resource: dict[str, str]) -> Iterator[str]:
    """Yield lines of OTLP/JSON with spans of a resource, which is described by attributes."""
    encoded: list[str] = []
    characters = 0
    for span in spans:
        encoded.append(json.dumps(span))
        characters += len(encoded[-1])
        if len(encoded) >= _MAX_SPANS or characters >= _MAX_LINE_CHARACTERS:
            yield _line(encoded, resource)
            encoded, characters = [], 0
    if encoded:
        yield _line(encoded, resource)


def _line(spans: list[str], attributes: dict[str, str]) -> str:
    """A line of OTLP/JSON with encoded spans."""
    resource = json.dumps({"attributes": _attributes(attributes)})
    scoped = f'{{"scope": {{"name": "nri.trace"}}, "spans": [{", ".join(spans)}]}}'
    return f'{{"resourceSpans": [{{"resource": {resource}, "scopeSpans": [{scoped}]}}]}}\n'


def event_spans(event: Event, trace: str = "", parent: str = "") -> Iterator[dict[str, Any]]:
    """Yield the spans of an event in OTLP/JSON. `trace` and `parent` are the ids of its trace and of the span above."""
    number = _id(16, event.recording, event.serial, event.began_ns)
    event_span = _id(8, number)
    trace = trace or number
    attributes = _attributes_of(event)
    yield make_span(
        trace, event_span, event.name, _INTERNAL, event.first_ns, event.duration_ns, attributes, fault=_fault(event),
        parent=parent,
    )  # fmt: skip
    for index, step in enumerate(event.steps):
        name, more = f"{step.plugin} {step.event}", {**attributes, "nri.plugin": step.plugin, "rpc.method": step.event}
        yield make_span(
            trace, _id(8, number, index), name, _CLIENT, step.time_ns, step.duration_ns, more, fault=_fault(step),
            parent=event_span,
        )  # fmt: skip


def make_span(  # noqa: PLR0913  the fields of OTLP
    trace: str, span: str, name: str, kind: int, began_ns: int, duration_ns: int, attributes: dict[str, str],
    *, fault: str = "", parent: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Return a span in OTLP/JSON. With a `fault` it has failed."""
    return {
        "traceId": trace,
        "spanId": span,
        **({"parentSpanId": parent} if parent else {}),
        "name": name[:_MAX_TEXT_CHARACTERS],
        "kind": kind,
        "startTimeUnixNano": str(began_ns),
        "endTimeUnixNano": str(min(began_ns + duration_ns, (1 << 64) - 1)),
        "attributes": _attributes(attributes),
        "status": {"code": _ERROR, "message": fault} if fault else {},
    }


def _id(size: int, *parts: object) -> str:
    """An id of `size` bytes in hexadecimal digits."""
    return blake2b(repr(parts).encode(), digest_size=size).hexdigest()


def _attributes(values: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


def chrome(events: Iterable[Event]) -> Iterator[str]:
    """Yield a Chrome trace: a process for the runtime and a process for each plugin, times in microseconds.

    Overlapping bars are in separate rows, because a viewer would show one bar inside the other.
    """
    yield '{"displayTimeUnit": "ms", "traceEvents": ['
    comma = ""
    for entry in _bars(events):
        yield f"{comma}\n{json.dumps(entry)}"
        comma = ","
    yield "\n]}\n"


def _bars(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    processes: dict[str, int] = {}
    rows: dict[int, list[int]] = defaultdict(list)
    number_of_rows = 0

    def bar(
        owner: str, name: str, began_ns: int, duration_ns: int, attributes: dict[str, str]
    ) -> Iterator[dict[str, Any]]:
        nonlocal number_of_rows
        owner = owner if owner in processes or len(processes) < _MAX_PROCESSES else _OTHER_PLUGINS
        process = processes.get(owner)
        if process is None:
            process = processes[owner] = len(processes) + 1
            yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": owner}}
        before = len(rows[process])
        max_rows = _MAX_ROWS if number_of_rows < _MAX_ALL_ROWS else max(1, before)
        row = _free_row_number(rows[process], began_ns, began_ns + duration_ns, max_rows)
        number_of_rows += len(rows[process]) - before
        times = {"ts": began_ns / 1e3, "dur": duration_ns / 1e3}
        yield {"ph": "X", "cat": "nri", "name": name, "pid": process, "tid": row, **times, "args": attributes}

    for event in events:
        attributes = _attributes_of(event)
        yield from bar("runtime", event.name, event.first_ns, event.duration_ns, _with_fault(attributes, event))
        for step in event.steps:
            owner = f"plugin {step.plugin[:_MAX_TEXT_CHARACTERS]}"
            yield from bar(owner, step.event, step.time_ns, step.duration_ns, _with_fault(attributes, step))


def _free_row_number(ends: list[int], began_ns: int, ended_ns: int, max_rows: int) -> int:
    """The first row, from 1, whose last bar has ended; otherwise a new row, or the last of `max_rows` rows."""
    for number, last in enumerate(ends):
        if last <= began_ns:
            ends[number] = ended_ns
            return number + 1
    if len(ends) < max_rows:
        ends.append(ended_ns)
    return len(ends)


def _attributes_of(event: Event) -> dict[str, str]:
    """OpenTelemetry's attributes with the names of an event's pod and container."""
    pod, container = event.pod, event.container
    names = {"rpc.method": event.name}
    if pod is not None:
        names |= {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name, "k8s.pod.uid": pod.uid}
    if container is not None:
        names |= {"k8s.container.name": container.name, "container.id": container.id}
    return {key: value[:_MAX_TEXT_CHARACTERS] for key, value in names.items() if value}


def _fault(part: Event | Step) -> str:
    """The reason why an event or a call failed, or why an answer was refused. Returns "" if neither happened."""
    error = part.error or getattr(part, "refused", None)
    return "" if error is None else (error.text or error.kind or "failed")[:_MAX_TEXT_CHARACTERS]


def _with_fault(attributes: dict[str, str], part: Event | Step) -> dict[str, str]:
    fault = _fault(part)
    return {**attributes, "error": fault} if fault else attributes


#: The formats by name. `perfetto` and `chrome` are the same format. Each is a function from events to pieces of text.
FORMATS: Final[dict[str, Callable[[Iterable[Event]], Iterator[str]]]] = {
    "perfetto": chrome,
    "chrome": chrome,
    "otlp": otlp,
}
