"""`nri drift`: show cgroup values that differ from the values that the runtime, plugins or the agent applied."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import DIFFERS, Failure
from nri.cli.output import Column, Output, PaintedText
from nri.cli.settings import DurationType, Settings
from nri.cli.support.node_options import admin_socket, agent_socket, machine_root
from nri.cli.support.verb import Verb
from nri.text import count

if TYPE_CHECKING:
    from nri.trace.drift import Drift

_COLUMNS = [
    Column("SUBJECT", "subject", 60),
    Column("SETTING", "knob"),
    Column("APPLIED", "wanted"),
    Column("NOW", "found"),
    Column("SET BY", "set_by"),
    Column("OVERWRITTEN BY", "by"),
    Column("WHEN (UTC)", "when"),
]

_NO_DRIFT = "no value was overwritten"
_NOT_COMPARED = "nothing was compared: no value was applied to a running container's cgroup"


@click.command(
    cls=Verb,
    examples=[
        "nri drift                               # values that were overwritten after they were applied",
        "nri drift --watch                       # keep watching for further overwritten values",
        "nri drift --watch --metrics 127.0.0.1:9400",
    ],
)
@click.option("--watch", "-f", is_flag=True, help="Compare repeatedly, and print each change, until Ctrl-C.")
@click.option(
    "--interval",
    type=DurationType(0.1, 3600.0),
    default=2.0,
    metavar="SECONDS",
    help="Time between two comparisons. Default: 2.",
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
    """Compare the values applied to containers with the values in their cgroups, and show which were overwritten.

    nri drift connects as a plugin that changes nothing, and the runtime reports the applied values to it. The node
    agent reports the values that the agent applied, if it runs on this machine. The admin socket of a runtime that is
    built on this package reports which plugin applied a value. OVERWRITTEN BY is the plugin that applied the current
    value. "outside NRI" means that no plugin applied it.

    Run it on the node, as root. The exit code is 5 if a value was overwritten, and 1 if no value could be read.
    """
    from nri.adaptation.admin_client import AdminClient
    from nri.agent.settings import AgentSettings
    from nri.host.cgroups import detect
    from nri.host.root import Root
    from nri.trace.drift import Drift
    from nri.trace.drift_sources import Setters, row_of, sources

    if metrics and not watch:
        raise click.UsageError("--metrics requires --watch", click.get_current_context())
    out = Output(settings)
    drift = Drift(detect(Root(root)))
    setters = Setters(AdminClient(path, settings.timeout_s))
    default_agent = AgentSettings().socket
    agent = agent_socket or (default_agent if os.path.exists(default_agent) else "")
    with ExitStack() as stack:
        values = sources(stack, settings.socket_path, agent, settings.timeout_s)
        changes = drift.check(values())
        if metrics:
            stack.enter_context(_metrics_server(drift, metrics))
        if drift.unread and not drift.compared_count:
            message = f"{count(drift.unread, 'value')} applied, but none can be read below {root}"
            step = "run it on the node, as root; in a container, specify the node's root file system with --root"
            if not watch:
                raise Failure(f"{message}, so nothing was compared: {step}")
            out.note(f"{message} yet: {step}")
        if not watch:
            rows = [row_of(change, setters) for change in changes]
            if rows or not out.human:
                out.table(_COLUMNS, rows)
            if not rows:
                out.note(_NO_DRIFT if drift.compared_count else _NOT_COMPARED)
            if drift.unread:
                out.note(f"not compared: {count(drift.unread, 'value')}, whose cgroup or file does not exist")
            if drift.left_out:
                out.note(f"not compared: {count(drift.left_out, 'value')} beyond the limit")
            return DIFFERS if rows else 0
        while True:
            for change in changes:
                _print_change(out, row_of(change, setters))
            time.sleep(interval)
            changes = drift.check(values())


def _print_change(out: Output, row: dict[str, Any]) -> None:
    from nri.trace.drift_sources import PAST

    if not out.human:
        out.stream(row)
    elif row["found"] is None:
        out.text(
            f"{row['when']}  {row['subject']} {row['knob']} ", PaintedText("restored", "green"), f": {row['wanted']}"
        )
    else:
        was = "" if row["before"] is None else f", was {row['before']}"
        by = "outside NRI" if row["by"] == PAST else f"by {row['by']}"
        detail = f": {row['found']}{was}; {row['set_by']} applied {row['wanted']}"
        out.text(f"{row['when']}  {row['subject']} {row['knob']} ", PaintedText(f"overwritten {by}", "red"), detail)


def _metrics_server(drift: Drift, address: str) -> Any:
    """Serve the metrics."""
    from contextlib import closing

    from nri.service.http import Server, text_answer

    def figures(_: Any) -> Any:
        return text_answer(
            "# HELP nri_drift_values Cgroup values that differ from the applied values.\n"
            "# TYPE nri_drift_values gauge\n"
            f"nri_drift_values {len(drift.now())}\n"
            "# HELP nri_drift_compared Values compared in the last round.\n"
            "# TYPE nri_drift_compared gauge\n"
            f"nri_drift_compared {drift.compared_count}\n"
            "# HELP nri_drift_not_compared Values not compared in the last round: unreadable, or beyond the limit.\n"
            "# TYPE nri_drift_not_compared gauge\n"
            f"nri_drift_not_compared {drift.unread + drift.left_out}\n"
            "# HELP nri_drift_changes_total Values overwritten or restored since the start.\n"
            "# TYPE nri_drift_changes_total counter\n"
            f"nri_drift_changes_total {drift.count}\n"
        )

    return closing(Server(public={"/metrics": figures}, address=address))
