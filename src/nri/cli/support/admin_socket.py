"""Questions to the admin socket of a runtime, and the option that names it; every failure a line with the next step.

Next: `nri.adaptation.admin` is the other end.
"""

from __future__ import annotations

from typing import Any

import click

from nri.cli.errors import UNREACHABLE, Failure
from nri.cli.settings import Settings

#: For every verb that asks a runtime.
admin_socket = click.option(
    "--admin-socket",
    "path",
    metavar="PATH",
    envvar="NRI_ADMIN_SOCKET",
    help="The runtime's admin socket (environment: NRI_ADMIN_SOCKET).",
)


def ask_runtime(settings: Settings, path: str | None, method: str, request: dict[str, Any]) -> dict[str, Any]:
    """Ask the runtime; a failure becomes a line with the next step."""
    from nri.adaptation import admin
    from nri.errors import ConnectionClosed, RpcError, RuntimeUnavailable
    from nri.ttrpc import Code

    where = path or admin.DEFAULT_SOCKET
    ours = "only runtimes that are built on nri, with admin_socket set, keep the history of containers"
    try:
        return admin.ask(where, method, request, settings.timeout_s or 5.0)
    except RuntimeUnavailable as error:
        if "permission denied" in error.reason.lower():
            raise Failure(f"cannot connect to {where}: permission denied. Run it as root", UNREACHABLE) from None
        raise Failure(f"cannot connect to {where}: {error.reason}; {ours} (--admin-socket)", UNREACHABLE) from None
    except ConnectionClosed:  # a runtime's socket for plugins speaks otherwise
        reason = "the other side has closed the connection: perhaps it is no admin socket"
        raise Failure(f"{where}: {reason}; {ours} (--admin-socket)", UNREACHABLE) from None
    except RpcError as error:
        if error.code == Code.UNIMPLEMENTED:
            raise Failure(f"{where} is not an admin socket; {ours} (--admin-socket)", UNREACHABLE) from None
        hint = ". try: nri pod ps" if error.code == Code.NOT_FOUND else ""
        raise Failure(error.message + hint) from None
