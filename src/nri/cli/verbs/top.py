"""`nri top`: plugins by how long they take, as it happens, on a terminal."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from nri.cli.output import Column, Output
from nri.cli.settings import DurationType, Settings
from nri.cli.support.node_options import admin_socket
from nri.cli.support.verb import Verb
from nri.service.interruption import SignalStop
from nri.text import count

_COLUMNS = [
    Column("PLUGIN", "plugin"),
    Column("STATE", "state"),
    Column("CALLS/S", "calls_per_s", extra=True),
    Column("P50 MS", "p50_ms"),
    Column("P99 MS", "p99_ms"),
    Column("MISSES", "missed"),
    Column("ERRORS", "errors"),
    Column("REFUSED", "refused"),
    Column("LAST ERROR", "last_error", 80, extra=True),
]
_SLOWEST_FIRST = ("p99_ms", "p50_ms", "calls")


@click.command(
    cls=Verb,
    examples=[
        "nri top                                 # the slowest plugin first, every two seconds",
        "nri top --once -o json | jq '.plugins[] | select(.missed > 0)'",
    ],
)
@admin_socket
@click.option(
    "--interval",
    type=DurationType(0.1, 60.0),
    default=2.0,
    metavar="SECONDS",
    help="Time between two tables; with --once, the time to measure. Default: 2.",
)
@click.option("--once", is_flag=True, help="Measure for one interval, print one table, and exit.")
@click.pass_obj
def command(settings: Settings, path: str | None, interval: float, once: bool) -> None:
    """Show which plugins are slow, silent or failing: calls, latency and misses of the last minute, slowest first.

    The runtime must be built on this package, with its admin socket on. It counts only while somebody watches, so the
    figures begin when this command does. MISSES are calls without an answer in time, REFUSED answers that were not
    taken: a conflict, a breach of policy. q or Ctrl-C ends it.
    """
    from nri.adaptation.admin_client import AdminClient
    from nri.trace.live_events import live_events

    out = Output(settings)
    with live_events(AdminClient(path, settings.timeout_s)) as looking, _keys(ours=out.human and not once) as keys:
        while not _told_to_end(keys, interval):
            summary = looking.summary()
            summary["plugins"].sort(key=lambda row: [row[key] or 0 for key in _SLOWEST_FIRST], reverse=True)
            if not out.human:
                (out.document if once else out.stream)(summary)
            else:
                _draw(out, summary, again=not once)
            if once:
                return


@contextmanager
def _keys(*, ours: bool) -> Iterator[int | None]:
    """The terminal's keys, one by one and not shown, until the block ends; None where they are not ours."""
    if not (ours and sys.stdin.isatty() and sys.stdout.isatty() and _in_front(sys.stdin.fileno())):
        yield None
        return
    import termios
    import tty

    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    with SignalStop():
        tty.setcbreak(keys)
        try:
            yield keys
        finally:
            with suppress(termios.error):  # it has been closed
                termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _in_front(terminal: int) -> bool:
    """Whether a terminal is ours now: a job in the background would be stopped if it changed it."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it is that of another session
        return False


def _told_to_end(keys: int | None, wait_s: float) -> bool:
    """Wait so long, or until somebody presses q; whether somebody did."""
    if keys is None:
        time.sleep(wait_s)
        return False
    until = time.monotonic() + wait_s
    while select.select([keys], [], [], max(0.0, until - time.monotonic()))[0]:
        try:
            pressed = os.read(keys, 64)
        except OSError:  # it has been closed, of which a signal may tell a moment later
            return True
        if not pressed or b"q" in pressed.lower():
            return True
    return False


def _draw(out: Output, summary: dict[str, Any], *, again: bool) -> None:
    plugins = summary["plugins"]
    lines = out.begin_screen() if again else 0
    late = sum(1 for row in summary["plugins"] if row["state"] in ("late", "open"))
    parts = [
        f"{summary['events_per_s']:g} events/s in {summary['seconds']:.0f} s",
        f"p50 {summary['p50_ms'] or 0:g} ms, p99 {summary['p99_ms'] or 0:g} ms",
        f"{summary['failed']} failed",
        f"{count(len(summary['plugins']), 'plugin')}, {late} late or left out",
    ]
    if summary["unread"]:
        parts.append(f"{summary['unread']} events came too fast to be counted")
    line = "; ".join(parts)
    if not out.quiet:
        out.text(line)
    if again:  # below it are the heading, a note, and the cursor
        plugins = plugins[: max(lines - 3 - -(-len(line) // (out.width or len(line))), 1)]
    out.table(_COLUMNS, plugins)
