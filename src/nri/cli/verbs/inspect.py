"""`nri inspect`: serve a page that shows what plugins do, or what they did in a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.errors import FAILED, Failure
from nri.cli.output import Output, write_page
from nri.cli.settings import PATH, Settings
from nri.cli.support.node_options import admin_socket, agent_socket, machine_root
from nri.cli.support.verb import Verb
from nri.placement.registry import POLICY_NAMES

if TYPE_CHECKING:
    from nri.inspector.sources import Recording, Running


@click.command(
    cls=Verb,
    examples=[
        "nri inspect                             # the running runtime; open the printed address",
        "nri inspect traces                      # a recording, written with --record traces",
        "nri inspect traces --export node.html   # a snapshot in one file, to view anywhere",
    ],
)
@click.argument("recording", metavar="[FILE|DIR]", required=False, type=PATH)
@admin_socket
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    help="The address of the page. Default: only this machine, any free port.",
)
@click.option("--export", metavar="OUT.html", type=PATH, help="Write a snapshot to one file and exit.")
@agent_socket
@click.option(
    "--state-dir",
    metavar="DIR",
    default="/var/lib/nri/placement",
    help=f"The stateDir of {POLICY_NAMES}, which contains its socket.",
)
@machine_root
@click.pass_context
def command(
    ctx: click.Context,
    recording: str | None,
    path: str | None,
    listen: str,
    export: str | None,
    agent_socket: str | None,
    state_dir: str,
    root: str,
) -> int:
    """Show in the browser what plugins do to pods and containers, now or in a recording. Changes nothing.

    The page shows the chain of plugins with health and latency, every event with the time of each plugin, and the
    changes of each container with the plugin that made them. FILE is a trace, DIR a folder of traces. Without FILE or
    DIR, the page shows a running runtime that is built on this package; it then also shows overwritten cgroup values,
    the decisions of the node agent, and the CPUs of the placement plugin.

    The page can be read only with the token in the printed address. It is not encrypted over a network. Ctrl-C ends
    the command. The exit code is 1 if --export writes a snapshot of a damaged recording.
    """
    settings: Settings = ctx.obj
    if recording and ctx.get_parameter_source("path") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("give either a recording or --admin-socket, not both")
    from nri.inspector.sources import Recording

    out = Output(settings)
    if recording:
        source = Recording(recording)
        if export:
            source.read()
        else:
            source.start()
        return _show(out, source, listen, export)
    from nri.adaptation.admin_client import AdminClient
    from nri.inspector.node_parts import NodeParts
    from nri.inspector.sources import Running
    from nri.trace.live_events import live_events

    client = AdminClient(path, settings.timeout_s)
    parts = NodeParts(client, settings.socket_path, agent_socket, state_dir, root, settings.timeout_s)
    with live_events(client) as live, parts:
        return _show(out, Running(live, client.ask, client.path, parts.views()), listen, export)


def _show(out: Output, source: Recording | Running, listen: str, export: str | None) -> int:
    from nri.inspector.page import snapshot
    from nri.inspector.web import Web
    from nri.signals import Stop

    if export:
        try:
            write_page(export, snapshot(source))
        except OSError as error:
            raise Failure(f"cannot write {export}: {error.strerror or error}") from None
        problems = source.overview().get("problems", [])
        for line in problems:
            out.note(line)
        return FAILED if problems else 0
    stop = Stop(second_ends=True)
    with Web(source, listen) as web:
        stop.listen()
        if out.human:
            out.text(web.url)
        else:
            out.stream({"url": web.url})
        stop.wait_for_signal()
    return stop.exit_code
