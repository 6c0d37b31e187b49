"""Options of verbs that examine a node: the runtime's admin socket, the agent's socket, the machine's root."""

from __future__ import annotations

import click

#: The option of every verb that queries a runtime.
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
    help="The node agent's socket (environment: NRI_AGENT_SOCKET). Default: the agent's default socket, if it exists.",
)
machine_root = click.option(
    "--root", default="/", metavar="DIR", help="The machine's root file system, if not /, for example in a container."
)
