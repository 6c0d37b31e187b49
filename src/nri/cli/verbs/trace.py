"""`nri trace`: show, summarize, cut and export recordings."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

import click

from nri.cli.errors import FAILED
from nri.cli.output import Column, Output, PaintedText
from nri.cli.settings import PATH, Settings
from nri.cli.support.event_filter import POD, SINCE, event_filter_options, is_plugin, parse_time, selected
from nri.cli.support.verb import Verb, VerbGroup
from nri.errors import ConfigError
from nri.text import count
from nri.trace.export import FORMATS

if TYPE_CHECKING:
    from nri.trace.history import Event, Trace

#: The size of a table's rows may exceed the size of the recording by this many bytes.
_MAX_TABLE_BYTES = 4 << 20
#: The size of a row in memory without its texts, in bytes.
_ROW_BYTES = 800
#: A cell of the table has at most this many characters.
_MAX_TEXT = 1000
#: A row of the table names at most this many plugins.
_MAX_ROW_PLUGINS = 64
#: Later than every time in a recording.
_END_OF_TIME_NS = 1 << 64
_EVENT_COLUMNS = [
    Column("TIME", "time", extra=True),
    Column("EVENT", "event"),
    Column("POD/CONTAINER", "subject", 60),
    Column("MS", "ms"),
    Column("PLUGINS (MS)", "plugins", 60, extra=True),
    Column("OUTCOME", "outcome", 100),
]
#: A line of the events that are followed: widths of columns cannot depend on events that are still to come.
_LINE = "{time:27}  {event:24}  {ms:>9}  {subject}  {plugins}  {outcome}"
#: Files of a recording are read again after this time, in seconds. Recorders write twice a second.
_FOLLOW_INTERVAL_S = 0.5
_STAT_COLUMNS = [
    Column("PLUGIN", "plugin"),
    Column("EVENT", "event"),
    Column("COUNT", "count"),
    Column("P50 MS", "p50_ms"),
    Column("P99 MS", "p99_ms"),
    Column("ERRORS", "errors"),
    Column("REFUSED", "refused"),
]


@click.group(
    cls=VerbGroup,
    examples=[
        "nri trace show traces                   # as written by nri engine serve --record traces",
        "nri trace stat traces",
    ],
)
def trace() -> None:
    """Read recordings of events, written with --record or nri record.

    FILE is a trace, DIR a folder of traces. Damaged records are skipped and reported on standard error, and the exit
    code is then 1.
    """


@trace.command(
    cls=Verb,
    short_help="show events with their plugins, durations and outcomes",
    examples=[
        "nri trace show traces --pod shop/web --errors",
        "nri trace show traces -f --plugin limits        # wait for further events",
        "nri trace show traces -o json | jq 'select(.error)'",
    ],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.option(
    "--last", type=click.IntRange(1, 100_000), default=1000, metavar="N", help="Show the last N events. Default: 1000."
)
@click.option("--follow", "-f", is_flag=True, help="Wait for further events, in order of their end, until Ctrl-C.")
@event_filter_options
@click.pass_obj
def show(settings: Settings, /, path: str, last: int, follow: bool, **filters: Any) -> int:
    """Show events in order of their start. -o json prints all events with their messages, one per line."""
    from nri.trace.document import event_document
    from nri.trace.history import Trace

    recording, out = Trace(path), Output(settings)
    if follow:
        _follow(recording, out, last, filters)
    rows: deque[dict[str, str]] = deque()
    events = row_bytes = 0
    max_bytes = _MAX_TABLE_BYTES + recording.size_bytes
    for event in selected(out.counted(recording.events(), "event"), **filters):
        events += 1
        if not out.human:
            out.stream(event_document(event))
            continue
        rows.append(_row(event))
        row_bytes += _row_bytes(rows[-1])
        while len(rows) > last or row_bytes > max_bytes:
            row_bytes -= _row_bytes(rows.popleft())
    if out.human:
        out.table(_EVENT_COLUMNS, rows)
        if events > len(rows):
            more = "--last N shows more, " if len(rows) == last else ""
            out.note(f"the last {len(rows)} of {count(events, 'event')}: {more}-o json shows all")
    return _report_problems(out, recording)


@trace.command(
    cls=Verb,
    short_help="summarize calls, durations and errors of plugins",
    examples=["nri trace stat traces", "nri trace stat traces -o json | jq '.[] | select(.errors > 0)'"],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@event_filter_options
@click.pass_obj
def stat(settings: Settings, /, path: str, **filters: Any) -> int:
    """Show for each plugin and event the number of calls, percentiles of the duration, errors and refused answers.

    Percentiles are in milliseconds, with three decimal digits. They include only calls that have ended.
    """
    from nri.trace.call_stats import MAX_ROWS, AllCallStats
    from nri.trace.history import Trace

    recording, out = Trace(path), Output(settings)
    sums = AllCallStats(recording.size_bytes)
    for event in selected(out.counted(recording.events(), "event"), **filters):
        for step in event.steps:
            if filters["plugin"] and not is_plugin(step.plugin, filters["plugin"]):
                continue
            ended = step.reply is not None or step.error is not None
            taken_ms = step.duration_ns / 1e6 if ended else None
            sums.of(step.plugin, step.event).take(taken_ms, step.error is not None, step.refused is not None)
    out.table(_STAT_COLUMNS, [{"plugin": plugin, "event": event, **row} for (plugin, event), row in sums.rows()])
    if sums.left_out:
        out.note(f"{count(sums.left_out, 'call')} of further plugins: only {MAX_ROWS} rows are shown")
    if sums.room.left_out:
        out.note(f"the percentiles do not include {count(sums.room.left_out, 'call')} beyond the limit")
    return _report_problems(out, recording)


@trace.command(
    cls=Verb,
    short_help="export events for Perfetto or OpenTelemetry",
    examples=[
        "nri trace export traces perfetto > node.json    # open the file at ui.perfetto.dev",
        "nri trace export traces otlp --pod shop/web     # lines of OTLP/JSON, for collectors",
    ],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.argument("form", metavar="|".join(FORMATS), type=click.Choice([*FORMATS]))
@event_filter_options
@click.pass_obj
def export(settings: Settings, /, path: str, form: str, **filters: Any) -> int:
    """Write events to standard output in a format of tracing tools, with names and times, but without values.

    perfetto, also called chrome, is a JSON document for Perfetto and chrome://tracing. otlp is OpenTelemetry's JSON
    format, with some hundred spans per line.
    """
    from nri.trace.history import Trace

    recording, out = Trace(path), Output(settings)
    events = selected(out.counted(recording.events(), "event"), **filters)
    for piece in FORMATS[form](events):
        out.progress("")
        click.echo(piece, nl=False)
    return _report_problems(out, recording)


@trace.command(
    cls=Verb,
    short_help="copy some events to a new recording",
    examples=[
        "nri trace cut traces web.nritrace --pod shop/web",
        "nri trace cut traces hour.nritrace --since 2026-01-31T08:00:00Z --until 2026-01-31T09:00:00Z",
    ],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.argument("part", metavar="OUT", type=PATH)
@POD
@SINCE
@click.option(
    "--until",
    callback=parse_time,
    metavar="TIME",
    help="Only events that started at this time (UTC) or earlier, for example 2025-01-31T12:00:00.",
)
@click.pass_obj
def cut(settings: Settings, path: str, part: str, pod: str | None, since: int | None, until: int | None) -> int:
    """Copy some events of a recording to a new file OUT.

    Events are copied unchanged: values that were replaced in the recording stay replaced, and no others are replaced.
    """
    from nri.trace.document import time_text
    from nri.trace.excerpt import choose, cut, write_part
    from nri.trace.history import Trace

    recording, out = Trace(path), Output(settings)
    last = _END_OF_TIME_NS if until is None else until
    filters = {"--pod": pod, "--since": since and time_text(since), "--until": until and time_text(until)}
    filter_text = " ".join(f"{option} {value}" for option, value in filters.items() if value) or "the selection"
    try:
        chosen = choose(
            recording,
            lambda event: pod is None or event.names(pod),
            since or 0,
            last,
            filter_text,
            lambda events: out.counted(events, "event"),
        )
    except ConfigError:
        _report_problems(out, recording)  # a missing event may be in a damaged record
        raise
    second_pass = Trace(path)  # has the same problems as `recording`, which are reported below
    write_part(part, out.counted(cut(second_pass, chosen), "block"))
    out.note(f"{part}: {count(len(chosen), 'event')}")
    return _report_problems(out, recording)


def _follow(recording: Trace, out: Output, last: int, filters: dict[str, Any]) -> NoReturn:
    """Print the last events that were recorded, and then each event as soon as it is recorded."""
    from nri.trace.document import event_document

    rows: deque[str] = deque(maxlen=last)
    if out.human:
        out.text(PaintedText(_LINE.format(**{column.key: column.title for column in _EVENT_COLUMNS}), "bold"))
    reported = 0
    for event in recording.follow():
        if event is None:
            for row in rows:
                out.text(row)
            rows.clear()
            problems = recording.problems
            for line in problems[reported:]:
                out.note(line)
            reported = len(problems)
            sys.stdout.flush()
            time.sleep(_FOLLOW_INTERVAL_S)
        elif any(selected([event], **filters)):
            if out.human:
                rows.append(_LINE.format(**_row(event)))
            else:
                out.stream(event_document(event))
    raise AssertionError("Trace.follow() does not end")


def _report_problems(out: Output, recording: Trace) -> int:
    """Report unreadable records on standard error. Returns the exit code."""
    for line in recording.problems:
        out.note(line)
    if recording.unlisted_problems:
        out.note(f"and {count(recording.unlisted_problems, 'further problem')}")
    return FAILED if recording.problems else 0


def _row(event: Event) -> dict[str, str]:
    """An event as a row of the table."""
    from nri.trace.document import outcome, time_text

    return {
        "time": time_text(event.began_ns),
        "event": event.name,
        "subject": event.subject[:_MAX_TEXT],
        "ms": f"{event.duration_ns / 1e6:.3f}",
        "plugins": _plugins(event)[:_MAX_TEXT],
        "outcome": outcome(event, _MAX_ROW_PLUGINS)[:_MAX_TEXT],
    }


def _row_bytes(row: dict[str, str]) -> int:
    """The approximate size of a row in memory."""
    return _ROW_BYTES + sum(len(text) * (1 if text.isascii() else 4) for text in row.values())


def _plugins(event: Event) -> str:
    """The plugins that were called, with their durations in milliseconds."""
    texts = [f"{step.plugin}={step.duration_ns / 1e6:.3f}" for step in event.steps[:_MAX_ROW_PLUGINS]]
    return " ".join(texts + [f"and {len(event.steps) - len(texts)} more"] * (len(event.steps) > len(texts)))


command = trace
