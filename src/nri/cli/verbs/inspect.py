"""`nri inspect`: a page in the browser that shows what plugins do, or did. Next: `nri.inspector` is the page."""

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
        "nri inspect                             # the runtime that runs here: open the address that it prints",
        "nri inspect traces                      # a recording, written with --record traces",
        "nri inspect traces --export node.html   # one file that shows it anywhere",
    ],
)
@click.argument("recording", metavar="[FILE|DIR]", required=False, type=PATH)
@admin_socket
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    help="Where the page is served. Default: this machine alone, any port.",
)
@click.option("--export", metavar="OUT.html", type=PATH, help="Write a snapshot as one file instead, and exit.")
@agent_socket
@click.option(
    "--state-dir",
    metavar="DIR",
    default="/var/lib/nri/placement",
    help=f"The stateDir of {POLICY_NAMES}, where its socket is.",
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
    """Show in a browser what plugins do to pods and containers: now, or in a recording.

    The page has the chain of plugins with health and latency, every event with the time that each plugin took, and for
    each container who changed what, before and after. FILE is a trace, DIR a folder of them; without one a runtime that
    is built on this package is asked, and with it what runs on the node: values of cgroups that were overwritten (for
    that a plugin joins that changes nothing, when the view is opened), the node agent's decisions, and the CPUs
    of the placement plugin. Only somebody who has the printed address, with its token, can read it; over a network
    it is not encrypted. It changes nothing. Ctrl-C ends it. For a snapshot of a damaged recording the exit code is 1.
    """
    settings: Settings = ctx.obj
    if recording and ctx.get_parameter_source("path") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("give FILE, or --admin-socket, not both")
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
