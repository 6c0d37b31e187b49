"""Questions to the admin socket of a runtime, and the option that names it; every failure a line with the next step.

Next: `nri.adaptation.admin` is the other end.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nri.cli.errors import UNREACHABLE, Failure
from nri.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nri.trace.live import Live

#: For every verb that asks a runtime.
admin_socket = click.option(
    "--admin-socket",
    "path",
    metavar="PATH",
    envvar="NRI_ADMIN_SOCKET",
    help="The runtime's admin socket (environment: NRI_ADMIN_SOCKET).",
)
#: Options of verbs that look at all of a node: at the agent beside the runtime, and at cgroups.
agent_socket = click.option(
    "--agent-socket",
    metavar="PATH",
    envvar="NRI_AGENT_SOCKET",
    help="The agent's socket (environment: NRI_AGENT_SOCKET). Default: that of the agent that runs here, if one does.",
)
machine_root = click.option(
    "--root", default="/", metavar="DIR", help="The machine's root file system, if it is not /, as in a container."
)


def ask_runtime(
    settings: Settings, path: str | None, method: str, request: dict[str, Any], step: str = ""
) -> dict[str, Any]:
    """Ask the runtime; a failure becomes a line with the next step. `step` is another one, if there is."""
    from nri.adaptation import admin

    where = path or admin.DEFAULT_SOCKET
    with _explained(where, step):
        return admin.ask(where, method, request, settings.timeout_s or 5.0)


def follow_runtime(path: str | None, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The readings of the runtime's events as they come; failures as of `ask_runtime`."""
    from nri.adaptation import admin

    where = path or admin.DEFAULT_SOCKET
    with _explained(where):
        yield from admin.follow(where, request)


@contextmanager
def live(settings: Settings, path: str | None) -> Iterator[Live]:
    """The events of the runtime from now on, until the block ends; it raises failures as `ask_runtime`."""
    from nri.adaptation import admin
    from nri.trace.live import Live

    looking = Live(
        lambda method, request: ask_runtime(settings, path, method, request),
        lambda request: follow_runtime(path, request),
        first_s=settings.timeout_s or 5.0,
    )
    with _explained(path or admin.DEFAULT_SOCKET):
        looking.start()
        try:
            yield looking
        finally:
            looking.close()


@contextmanager
def taken_apart(path: str | None) -> Iterator[None]:
    """Where an answer of the runtime is taken apart: one that has not our tables becomes a line with the next step."""
    from nri.adaptation import admin
    from nri.errors import RemoteProtocolError

    with _explained(path or admin.DEFAULT_SOCKET):
        try:
            yield
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"it has no tables as ours: {error!r}") from error


@contextmanager
def _explained(where: str, step: str = "") -> Iterator[None]:
    """Make failures of the admin socket a line with the next step; `step` is a further one."""
    from nri.errors import ConnectionClosed, DeadlineExceeded, ProtocolError, RpcError, RuntimeUnavailable
    from nri.ttrpc import Code

    further = step and f"; {step}"
    named = "name another with --admin-socket"
    ours = f"only runtimes that are built on nri have an admin socket, where admin_socket is set; {named}{further}"
    try:
        yield
    except RuntimeUnavailable as error:
        if "permission denied" in error.reason.lower():
            raise Failure(f"cannot connect to {where}: permission denied. Run it as root", UNREACHABLE) from None
        if "connection refused" in error.reason.lower():
            ended = f"nobody listens there any more; start the runtime that did, or {named}{further}"
            if not Path(where).is_socket():
                ended = f"it is no socket; {named}{further}"
            raise Failure(f"cannot connect to {where}: {error.reason}: {ended}", UNREACHABLE) from None
        raise Failure(f"cannot connect to {where}: {error.reason}; {ours}", UNREACHABLE) from None
    except ConnectionClosed:  # a runtime's socket for plugins speaks otherwise
        reason = "the other side has closed the connection: perhaps it is no admin socket"
        raise Failure(f"{where}: {reason}; {ours}", UNREACHABLE) from None
    except DeadlineExceeded as error:
        reason = f"{where} does not answer: {error}; perhaps it is no admin socket"
        raise Failure(f"{reason}; {ours}", UNREACHABLE) from None
    except ProtocolError as error:
        raise Failure(f"{where} is not an admin socket: {error}; {ours}", UNREACHABLE) from None
    except RpcError as error:
        if error.code == Code.UNIMPLEMENTED:
            raise Failure(f"{where} is not an admin socket; {ours}", UNREACHABLE) from None
        hint = f". try: nri pod ps{further}" if error.code == Code.NOT_FOUND else ""
        raise Failure(error.message + hint) from None
