"""Options of verbs that look at a node: the runtime's admin socket, the agent's socket, the machine's root."""

from __future__ import annotations

import click

__all__ = ["admin_socket", "agent_socket", "machine_root"]

#: For every verb that asks a runtime.
admin_socket = click.option(
    "--admin-socket",
    "path",
    metavar="PATH",
    envvar="NRI_ADMIN_SOCKET",
    help="The runtime's admin socket (environment: NRI_ADMIN_SOCKET).",
)
agent_socket = click.option(
    "--agent-socket",
    metavar="PATH",
    envvar="NRI_AGENT_SOCKET",
    help="The agent's socket (environment: NRI_AGENT_SOCKET). Default: that of the agent that runs here, if one does.",
)
machine_root = click.option(
    "--root", default="/", metavar="DIR", help="The machine's root file system, if it is not /, as in a container."
)
