"""`nri top`: show live statistics of plugins, the slowest first."""

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
        "nri top                                 # update every two seconds",
        "nri top --once -o json | jq '.plugins[] | select(.missed > 0)'",
    ],
)
@admin_socket
@click.option(
    "--interval",
    type=DurationType(0.1, 60.0),
    default=2.0,
    metavar="SECONDS",
    help="Time between two tables, or with --once the time to measure. Default: 2.",
)
@click.option("--once", "run_once", is_flag=True, help="Measure for one interval, print one table, and exit.")
@click.pass_obj
def command(settings: Settings, path: str | None, interval: float, run_once: bool) -> None:
    """Show live which plugins are slow, unresponsive or failing: calls, latency and misses of the last minute.

    The runtime must be built on this package, and its admin socket must be on. Calls are counted only while this
    command runs.
    MISSES are calls that were not answered in time. REFUSED are answers that were rejected, because of a conflict or
    the policy. Press q or Ctrl-C to exit.
    """
    from nri.adaptation.admin_client import AdminClient
    from nri.trace.live_events import live_events

    out = Output(settings)
    with live_events(AdminClient(path, settings.timeout_s)) as live, _keys(enabled=out.human and not run_once) as keys:
        while not _is_quit_requested(keys, interval):
            summary = live.summary()
            summary["plugins"].sort(key=lambda row: [row[key] or 0 for key in _SLOWEST_FIRST], reverse=True)
            if not out.human:
                (out.document if run_once else out.stream)(summary)
            else:
                _draw(out, summary, redraw=not run_once)
            if run_once:
                return


@contextmanager
def _keys(*, enabled: bool) -> Iterator[int | None]:
    """Read single keys from the terminal without echo, until the block ends; yields None if that is not possible."""
    if not (enabled and sys.stdin.isatty() and sys.stdout.isatty() and _is_foreground(sys.stdin.fileno())):
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
            with suppress(termios.error):  # the terminal was closed
                termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _is_foreground(terminal: int) -> bool:
    """Whether this process is in the terminal's foreground; a background job that changes the terminal is stopped."""
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # the terminal of another session
        return False


def _is_quit_requested(keys: int | None, wait_s: float) -> bool:
    """Wait for `wait_s`, or until q is pressed. Returns whether q was pressed."""
    if keys is None:
        time.sleep(wait_s)
        return False
    deadline = time.monotonic() + wait_s
    while select.select([keys], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            pressed = os.read(keys, 64)
        except OSError:  # the terminal was closed; the signal that reports this may arrive later
            return True
        if not pressed or b"q" in pressed.lower():
            return True
    return False


def _draw(out: Output, summary: dict[str, Any], *, redraw: bool) -> None:
    plugins = summary["plugins"]
    lines = out.begin_screen() if redraw else 0
    late = sum(1 for row in summary["plugins"] if row["state"] in ("late", "open"))
    parts = [
        f"{summary['events_per_s']:g} events/s in {summary['seconds']:.0f} s",
        f"p50 {summary['p50_ms'] or 0:g} ms, p99 {summary['p99_ms'] or 0:g} ms",
        f"{summary['failed']} failed",
        f"{count(len(summary['plugins']), 'plugin')}, {late} late or skipped",
    ]
    if summary["unread"]:
        parts.append(f"{summary['unread']} events arrived too fast to be counted")
    line = "; ".join(parts)
    if not out.quiet:
        out.text(line)
    if redraw:  # below it are the heading, a note, and the cursor
        plugins = plugins[: max(lines - 3 - -(-len(line) // (out.width or len(line))), 1)]
    out.table(_COLUMNS, plugins)
