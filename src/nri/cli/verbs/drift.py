"""`nri drift`: values of cgroups that are another one than the runtime, plugins or the agent gave.

Next: `nri.trace.drift`, which compares, and `nri.trace.drift_sources`, which knows what was given.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import DIFFERS, Failure
from nri.cli.output import Column, Output, Painted
from nri.cli.settings import DurationType, Settings
from nri.cli.support.node_options import admin_socket, agent_socket, machine_root
from nri.cli.support.verb import Verb
from nri.text import count

if TYPE_CHECKING:
    from nri.trace.drift import Drift

_COLUMNS = [
    Column("SUBJECT", "subject", 60),
    Column("KNOB", "knob"),
    Column("WANTED", "wanted"),
    Column("FOUND", "found"),
    Column("SET BY", "set_by"),
    Column("OVERWRITTEN BY", "by"),
    Column("WHEN (UTC)", "when"),
]

_NO_DRIFT = "nothing has been overwritten"
_NOT_COMPARED = "nothing was compared: no running container was given a value that a cgroup has"


@click.command(
    cls=Verb,
    examples=[
        "nri drift                               # values that are no longer as they were applied",
        "nri drift --watch                       # and further ones, as it happens",
        "nri drift --watch --metrics 127.0.0.1:9400",
    ],
)
@click.option("--watch", "-f", is_flag=True, help="Keep looking, and print each value that changes, until Ctrl-C.")
@click.option(
    "--interval",
    type=DurationType(0.1, 3600.0),
    default=2.0,
    metavar="SECONDS",
    help="Between two looks. Default: 2.",
)
@click.option("--metrics", metavar="HOST:PORT", help="With --watch: serve /metrics on this address.")
@agent_socket
@machine_root
@admin_socket
@click.pass_obj
def command(
    settings: Settings,
    path: str | None,
    watch: bool,
    interval: float,
    metrics: str | None,
    agent_socket: str | None,
    root: str,
) -> int:
    """Compare what containers were given with what their cgroups have, and tell what has been overwritten.

    A plugin that changes nothing joins at the NRI socket, on any runtime, and learns what each container was given; an
    agent that runs here tells what it has written. If the runtime is built on this package, its admin socket says which
    plugin set a value. If two of them set different values, the one whose value is there has overwritten the other; a
    value that none of them set was written past NRI. Run it on the node, as root. The exit code is 5 if a value was
    overwritten, and 1 if no value could be read at all.
    """
    from nri.adaptation.admin_client import AdminClient
    from nri.agent.settings import AgentSettings
    from nri.host.cgroups import detect
    from nri.host.root import Root
    from nri.trace.drift import Drift
    from nri.trace.drift_sources import Setters, row_of, sources

    if metrics and not watch:
        raise click.UsageError("--metrics goes with --watch", click.get_current_context())
    out = Output(settings)
    drift = Drift(detect(Root(root)))
    who = Setters(AdminClient(path, settings.timeout_s))
    default_agent = AgentSettings().socket
    agent = agent_socket or (default_agent if os.path.exists(default_agent) else "")
    with ExitStack() as stack:
        values = sources(stack, settings.socket_path, agent, settings.timeout_s)
        found = drift.look(values())
        if metrics:
            stack.enter_context(_served(drift, metrics))
        if drift.unread and not drift.looked_at:
            told = f"{count(drift.unread, 'value')} given, and none of them can be read below {root}"
            step = "run it on the node, as root; in a container, with --root for the node's root"
            if not watch:
                raise Failure(f"{told}, so nothing was compared: {step}")
            out.note(f"{told} yet: {step}")
        if not watch:
            rows = [row_of(change, who) for change in found]
            if rows or not out.human:
                out.table(_COLUMNS, rows)
            if not rows:
                out.note(_NO_DRIFT if drift.looked_at else _NOT_COMPARED)
            if drift.unread:
                out.note(f"not compared: {count(drift.unread, 'value')}, whose cgroup is gone, or has no such file")
            if drift.left_out:
                out.note(f"not looked at: {count(drift.left_out, 'value')} more than there is room for")
            return DIFFERS if rows else 0
        while True:
            for change in found:
                _say(out, row_of(change, who))
            time.sleep(interval)
            found = drift.look(values())


def _say(out: Output, row: dict[str, Any]) -> None:
    from nri.trace.drift_sources import PAST

    if not out.human:
        out.stream(row)
    elif row["found"] is None:
        out.text(f"{row['when']}  {row['subject']} {row['knob']} ", Painted("is back", "green"), f": {row['wanted']}")
    else:
        was = "" if row["before"] is None else f", was {row['before']}"
        by = "past NRI" if row["by"] == PAST else f"by {row['by']}"
        told = f": {row['found']}{was}; {row['set_by']} gave {row['wanted']}"
        out.text(f"{row['when']}  {row['subject']} {row['knob']} ", Painted(f"overwritten {by}", "red"), told)


def _served(drift: Drift, address: str) -> Any:
    """A server of the figures."""
    from contextlib import closing

    from nri.service.http import Server, text_answer

    def figures(_: Any) -> Any:
        return text_answer(
            "# HELP nri_drift_values Values of cgroups that are another one than was applied.\n"
            "# TYPE nri_drift_values gauge\n"
            f"nri_drift_values {len(drift.now())}\n"
            "# HELP nri_drift_compared Values that could be compared at the last look.\n"
            "# TYPE nri_drift_compared gauge\n"
            f"nri_drift_compared {drift.looked_at}\n"
            "# HELP nri_drift_not_compared Values that could not be read, or were too many, at the last look.\n"
            "# TYPE nri_drift_not_compared gauge\n"
            f"nri_drift_not_compared {drift.unread + drift.left_out}\n"
            "# HELP nri_drift_changes_total Values that were found overwritten, or back, since the start.\n"
            "# TYPE nri_drift_changes_total counter\n"
            f"nri_drift_changes_total {drift.count}\n"
        )

    return closing(Server(public={"/metrics": figures}, address=address))
