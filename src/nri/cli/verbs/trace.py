"""`nri trace`: the events that `--record` wrote: shown, summed up, cut, exported. Next: `nri.trace.history`."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from nri.cli.errors import FAILED
from nri.cli.output import Column, Output
from nri.cli.settings import PATH, Settings
from nri.cli.support.verb import Verb, VerbGroup
from nri.errors import ConfigError
from nri.text import count

if TYPE_CHECKING:
    from nri.trace.history import Event, Trace

_POD = "Only events of this pod or container: name, NAMESPACE/NAME, or id."
#: Bytes of the rows of a table, besides as many as the recording has; a row takes some more than its texts.
_MAX_TABLE_BYTES, _ROW_BYTES = 4 << 20, 800
#: Characters of a row's text, and plugins in it.
_MAX_TEXT, _MAX_ROW_PLUGINS = 1000, 64
#: Later than every time of a recording.
_ALWAYS = 1 << 64
_SHOWN = [
    Column("TIME", "time", extra=True),
    Column("EVENT", "event"),
    Column("POD/CONTAINER", "subject", 60),
    Column("MS", "ms"),
    Column("PLUGINS (MS)", "plugins", 60, extra=True),
    Column("OUTCOME", "outcome", 100),
]
_SUMMED = [
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
    """Read the events that --record wrote: which plugins were asked, how long they took, and how it ended.

    FILE is a trace, DIR a folder of them. Damaged parts are named on standard error and passed over; then the exit
    code is 1.
    """


@trace.command(
    cls=Verb,
    short_help="show events, one a line",
    examples=["nri trace show traces", "nri trace show traces -o json | jq 'select(.error)'"],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.option(
    "--last", type=click.IntRange(1, 100_000), default=1000, metavar="N", help="Events of a table. Default: 1000."
)
@click.pass_obj
def show(settings: Settings, path: str, last: int) -> int:
    """Show events in the order in which they began; with -o json all of them, with their messages, one a line."""
    from nri.trace.document import event_document
    from nri.trace.history import Trace

    found, out = Trace(path), Output(settings)
    rows: deque[dict[str, str]] = deque()
    events = row_bytes = 0
    most_bytes = _MAX_TABLE_BYTES + found.size_bytes
    for event in out.counted(found.events(), "event"):
        events += 1
        if not out.human:
            out.stream(event_document(event))
            continue
        rows.append(_row(event))
        row_bytes += _row_bytes(rows[-1])
        while len(rows) > last or row_bytes > most_bytes:
            row_bytes -= _row_bytes(rows.popleft())
    if out.human:
        out.table(_SHOWN, rows)
        if events > len(rows):
            more = "--last N shows more, " if len(rows) == last else ""
            out.note(f"the last {len(rows)} of {count(events, 'event')}: {more}-o json all")
    return _end(out, found)


@trace.command(
    cls=Verb,
    short_help="sum up how long plugins took, and how often they failed",
    examples=["nri trace stat traces", "nri trace stat traces -o json | jq '.[] | select(.errors > 0)'"],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.pass_obj
def stat(settings: Settings, path: str) -> int:
    """Show for each plugin and event how often it was asked, percentiles, errors, and answers that were refused.

    Percentiles are of the calls that ended, in milliseconds, to three digits.
    """
    from nri.trace.call_stats import MAX_ROWS, AllCallStats
    from nri.trace.history import Trace

    found, out = Trace(path), Output(settings)
    sums = AllCallStats(found.size_bytes)
    for event in out.counted(found.events(), "event"):
        for step in event.steps:
            ended = step.reply is not None or step.error is not None
            taken_ms = step.duration_ns / 1e6 if ended else None
            sums.of(step.plugin, step.event).take(taken_ms, step.error is not None, step.refused is not None)
    out.table(_SUMMED, [{"plugin": plugin, "event": event, **row} for (plugin, event), row in sums.rows()])
    if sums.left_out:
        out.note(f"{count(sums.left_out, 'call')} of further plugins: only {MAX_ROWS} rows are shown")
    if sums.room.left_out:
        out.note(f"the durations of {count(sums.room.left_out, 'call')} are not in the percentiles: they are too many")
    return _end(out, found)


@trace.command(
    cls=Verb,
    short_help="write events for Perfetto or OpenTelemetry",
    examples=[
        "nri trace export traces chrome > node.json      # open it at ui.perfetto.dev",
        "nri trace export traces otlp --pod shop/web     # lines of OTLP/JSON, as collectors read them",
    ],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.argument("form", metavar="chrome|otlp", type=click.Choice(["chrome", "otlp"]))
@click.option("--pod", metavar="NAME", help=_POD)
@click.pass_obj
def export(settings: Settings, path: str, form: str, pod: str | None) -> int:
    """Write events to standard output in a format that tools for tracing read, with names and times, without values.

    chrome: one JSON document, as chrome://tracing and Perfetto open it. otlp: OpenTelemetry's spans in JSON, some
    hundreds a line.
    """
    from nri.trace.export import FORMATS
    from nri.trace.history import Trace

    found, out = Trace(path), Output(settings)
    events = (event for event in out.counted(found.events(), "event") if pod is None or event.names(pod))
    for piece in FORMATS[form](events):
        out.progress("")
        click.echo(piece, nl=False)
    return _end(out, found)


def _nanoseconds(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """A time as `nri trace show` has it, in nanoseconds since 1970; without a zone it is UTC."""
    if value is None:
        return None
    try:
        when = datetime.fromisoformat(value)
        seconds = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() // 1)
    except (ValueError, OverflowError):
        reason = f"{value!r} is not a time; write it as 2026-01-31T08:00:00Z, or 2026-01-31 for its first second"
        raise click.BadParameter(reason) from None
    return max(seconds * 10**9 + when.microsecond * 1000, 0)


@trace.command(
    cls=Verb,
    short_help="write a part of a recording as a new one",
    examples=[
        "nri trace cut traces web.nritrace --pod shop/web",
        "nri trace cut traces hour.nritrace --since 2026-01-31T08:00:00Z --until 2026-01-31T09:00:00Z",
    ],
)
@click.argument("path", metavar="FILE|DIR", type=PATH)
@click.argument("part", metavar="OUT", type=PATH)
@click.option("--pod", metavar="NAME", help=_POD)
@click.option("--since", callback=_nanoseconds, metavar="TIME", help="Only events that began then or later. UTC.")
@click.option("--until", callback=_nanoseconds, metavar="TIME", help="Only events that began then or earlier. UTC.")
@click.pass_obj
def cut(settings: Settings, path: str, part: str, pod: str | None, since: int | None, until: int | None) -> int:
    """Write some events of a recording into OUT, a new file, to be sent to others or looked at alone.

    Events are copied with all their values: what was replaced when it was recorded stays replaced, and nothing else is.
    """
    from nri.trace.document import time_text
    from nri.trace.excerpt import choose, cut, write_part
    from nri.trace.history import Trace

    found, out = Trace(path), Output(settings)
    last = _ALWAYS if until is None else until
    given = {"--pod": pod, "--since": since and time_text(since), "--until": until and time_text(until)}
    asked = " ".join(f"{option} {value}" for option, value in given.items() if value) or "that"
    try:
        chosen = choose(
            found,
            lambda event: pod is None or event.names(pod),
            since or 0,
            last,
            asked,
            lambda events: out.counted(events, "event"),
        )
    except ConfigError:
        _end(out, found)  # an event that is not there may be in what cannot be read
        raise
    again = Trace(path)  # its problems are those of `found`, which are named below
    write_part(part, out.counted(cut(again, chosen), "block"))
    out.note(f"{part}: {count(len(chosen), 'event')}")
    return _end(out, found)


def _end(out: Output, found: Trace) -> int:
    """Name on standard error the parts that could not be read; the exit code."""
    for line in found.problems:
        out.note(line)
    if found.unlisted_problems:
        out.note(f"and {count(found.unlisted_problems, 'further problem')}")
    return FAILED if found.problems else 0


def _row(event: Event) -> dict[str, str]:
    """An event as a line of the table."""
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
    """About how many bytes a row takes."""
    return _ROW_BYTES + sum(len(text) * (1 if text.isascii() else 4) for text in row.values())


def _plugins(event: Event) -> str:
    """The plugins that were asked, with their milliseconds."""
    texts = [f"{step.plugin}={step.duration_ns / 1e6:.3f}" for step in event.steps[:_MAX_ROW_PLUGINS]]
    return " ".join(texts + [f"and {len(event.steps) - len(texts)} more"] * (len(event.steps) > len(texts)))


command = trace
