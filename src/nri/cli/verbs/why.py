"""`nri why`: who changed what in a container, asked of a runtime that is built on this package.

The history is kept by the runtime (`nri.adaptation.audit.provenance`); other runtimes keep none, and then this says
so. Next: `nri.adaptation.admin` is the other end.
"""

from __future__ import annotations

from typing import Any

import click

from nri.cli.errors import UNREACHABLE, Failure
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

EXAMPLES = [
    "nri why 1f2e3d                          # every change of the container, plugin by plugin",
    "nri why 1f2e3d -o json | jq '.steps[] | select(.field == \"Env\")'",
    "nri why --plugins                       # how the runtime's plugins are, and what they may do",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("container", required=False)
@click.option(
    "--admin-socket",
    "path",
    metavar="PATH",
    envvar="NRI_ADMIN_SOCKET",
    help="The runtime's admin socket (environment: NRI_ADMIN_SOCKET).",
)
@click.option("--plugins", is_flag=True, help="Show the health of all plugins instead.")
@click.option("--policies", is_flag=True, help="Show the operator's policies instead.")
@click.pass_obj
def command(settings: Settings, container: str | None, path: str | None, plugins: bool, policies: bool) -> None:
    """Show who changed what in a container, when, and from which value to which.

    CONTAINER is its id, or the beginning of it. The runtime must be one that is built on this package and has its admin
    socket switched on; containerd and CRI-O keep no such history.
    """
    if bool(container) + plugins + policies != 1:
        raise click.UsageError("give one of CONTAINER, --plugins and --policies")
    out = Output(settings)
    if policies:
        out.document(_ask(settings, path, "Policies", {}))
    elif plugins:
        _show_plugins(out, _ask(settings, path, "Plugins", {})["plugins"])
    else:
        _show_chain(out, _ask(settings, path, "Why", {"container": container}))


def _ask(settings: Settings, path: str | None, method: str, request: dict[str, Any]) -> dict[str, Any]:
    """Ask the runtime; a failure becomes a line with the next step."""
    from nri.adaptation import admin
    from nri.errors import RpcError, RuntimeUnavailable
    from nri.ttrpc import Code

    where = path or admin.DEFAULT_SOCKET
    ours = "only runtimes that are built on nri, with admin_socket set, keep the history of containers"
    try:
        return admin.ask(where, method, request, settings.timeout_s or 5.0)
    except RuntimeUnavailable as error:
        raise Failure(f"cannot connect to {where}: {error.reason}; {ours} (--admin-socket)", UNREACHABLE) from None
    except RpcError as error:
        if error.code == Code.UNIMPLEMENTED:
            raise Failure(f"{where} is not an admin socket; {ours} (--admin-socket)", UNREACHABLE) from None
        hint = "; it was removed, or made before the runtime started" if error.code == Code.NOT_FOUND else ""
        raise Failure(error.message + hint) from None


def _show_chain(out: Output, chain: dict[str, Any]) -> None:
    """Print the chain as a table, oldest change first."""
    if not out.human:
        out.document(chain)
        return
    from nri.adaptation.audit.diff import show

    name, pod = chain["name"] or "(name not known)", chain["pod"] or "(not known)"
    out.note(f"container {chain['container'][:13]} {name} of pod {pod}")
    columns = [
        Column("TIME", "time"),
        Column("EVENT", "event"),
        Column("PLUGIN", "plugin"),
        Column("FIELD", "field"),
        Column("KEY", "key"),
        Column("BEFORE", "before", 40),
        Column("AFTER", "after", 40),
    ]
    if any(step["note"] for step in chain["steps"]):
        columns.append(Column("NOTE", "note"))
    out.table(
        columns, [{**step, "before": show(step["before"]), "after": show(step["after"])} for step in chain["steps"]]
    )
    for note in chain["notes"]:
        out.note(f"{note['time']} {note['text']}")
    if chain["forgotten"]:
        out.note(f"{chain['forgotten']} older changes are no longer remembered")
    if not chain["steps"]:
        out.note("no plugin changed anything")


def _show_plugins(out: Output, plugins: list[dict[str, Any]]) -> None:
    columns = [
        Column("PLUGIN", "plugin"),
        Column("KIND", "kind"),
        Column("STATE", "state"),
        Column("PID", "pid"),
        Column("EVENTS", "events"),
        Column("LAST ERROR", "last_error", 60),
    ]
    out.table(columns, plugins)
