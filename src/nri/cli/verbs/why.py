"""`nri why`: show which plugin changed what in a container; a runtime built on this package or a recording answers."""

from __future__ import annotations

from typing import Any

import click

from nri.cli.errors import FAILED
from nri.cli.output import Column, Output, readable
from nri.cli.settings import PATH, Settings
from nri.cli.support.node_options import admin_socket
from nri.cli.support.verb import Verb
from nri.text import count

#: The end of the name of the node agent's plugin, `nri.agent.settings.tables.NriSettings.name`.
_AGENT = "-nri-agent"
#: The hint if the runtime has no history of the container.
_RECORDED = (
    "a recording (--record DIR of nri engine serve or nri run) keeps the history longer: read it with --trace DIR"
)
EXAMPLES = [
    "nri why web                             # all changes of the pod's container, plugin by plugin",
    "nri why kube-system/dns-x7x2p/dns       # NAMESPACE/POD/CONTAINER",
    "nri why web --trace traces              # a container in a recording",
    "nri why 1f2e3d -o json | jq '.steps[] | select(.field == \"Env\")'",
    "nri agent explain default/web           # the rules behind the node agent's changes",
    "nri why --plugins                       # the state of the runtime's plugins",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("container", required=False)
@admin_socket
@click.option(
    "--trace", metavar="FILE|DIR", type=PATH, help="Read a recording (--record) instead of asking the runtime."
)
@click.option("--plugins", is_flag=True, help="Show the state of all plugins instead.")
@click.option("--policies", is_flag=True, help="Show the operator's policies instead.")
@click.pass_obj
def command(
    settings: Settings, container: str | None, path: str | None, trace: str | None, plugins: bool, policies: bool
) -> int:
    """Show which plugin changed or refused what in a container. -q prints only the names of these plugins.

    CONTAINER is an id or the beginning of one, NAME, POD/NAME, NAMESPACE/POD/NAME, or a pod with one container. The
    runtime must be built on this package, and its admin socket must be on; containerd and CRI-O keep no such history.

    The history begins when the runtime starts, and ends when the container is removed. A recording keeps it longer;
    read the recording with --trace. The exit code is 1 if a part of the recording cannot be read. For the rules behind
    the node agent's changes, see nri agent explain.
    """
    if bool(container) + plugins + policies != 1:
        raise click.UsageError("give exactly one of CONTAINER, --plugins and --policies")
    out = Output(settings)
    if trace is not None:
        if container is None:
            raise click.UsageError("--trace requires a CONTAINER: recordings have no states of plugins and no policies")
        from nri.trace.changes import container_history
        from nri.trace.history import Trace

        recording = Trace(trace)
        try:
            show_chain(out, container_history(recording, container))
        finally:
            for line in recording.problems:
                out.note(line)
        return FAILED if recording.problems else 0
    from nri.adaptation.admin_client import AdminClient

    client = AdminClient(path, settings.timeout_s)
    with client.parsing():
        if policies:
            show_policies(out, client.ask("Policies", {}))
        elif plugins:
            _show_plugins(out, client.ask("Plugins", {})["plugins"])
        else:
            show_chain(out, client.ask("Why", {"container": container}, _RECORDED))
    return 0


def show_chain(out: Output, chain: dict[str, Any]) -> None:
    """Print the changes of a container as a table, the oldest first."""
    if not out.human:
        out.document(chain)
        return
    if out.quiet:
        out.names(dict.fromkeys(step["plugin"] for step in chain["steps"]))
        return
    from nri.adaptation.audit import show

    name, pod = chain["name"] or "(name not known)", chain["pod"] or "(not known)"
    days = {step["time"].partition("T")[0] for step in chain["steps"]}
    day = f", on {days.pop()}, times in UTC" if len(days) == 1 else ""
    out.note(f"container {chain['container'][:13]} {name} of pod {pod}{day}")
    refused = chain.get("refused")  # older runtimes do not report refusals
    if refused:
        out.text(f"not created, at {refused['time']}: {refused['reason']}")
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
    rows = [
        {
            **step,
            "time": step["time"].rpartition("T")[2].rstrip("Z") if day else step["time"],
            "before": show(readable(step["before"])),
            "after": show(readable(step["after"])),
        }
        for step in chain["steps"]
    ]
    if rows:
        out.table(columns, rows)
    elif not refused:
        out.note("no plugin changed anything")
    for note in chain["notes"]:
        out.note(f"{note['time']} {note['text']}")
    if chain["forgotten"]:
        out.note(f"{count(chain['forgotten'], 'older change')} no longer stored")
    if any(step["plugin"].endswith(_AGENT) for step in chain["steps"]):
        out.note(f"for the rules behind the node agent's changes: nri agent explain {chain['pod']}".rstrip())


def _show_plugins(out: Output, plugins: list[dict[str, Any]]) -> None:
    columns = [
        Column("PLUGIN", "plugin"),
        Column("KIND", "kind"),
        Column("STATE", "state"),
        Column("PID", "pid"),
        Column("EVENTS", "events", 40),
        Column("LAST ERROR", "last_error", 60),
    ]
    out.table(columns, plugins)


def show_policies(out: Output, policies: dict[str, Any]) -> None:
    """Print the policies of the policy file as a table. Only JSON contains all their settings."""
    if not out.human:
        out.document(policies)
        return
    columns = [
        Column("POLICY", "name"),
        Column("TIMEOUT", "timeout"),
        Column("REQUIRED", "required"),
        Column("FAILS REQUESTS", "fail_request"),
        Column("SHADOW", "shadow"),
        Column("RESTART", "restart"),
        Column("ALLOWED", "allow", 60),
    ]
    rows = [
        {"name": name, **row, "required": bool(row["required"]), "timeout": _seconds(row["timeout"]),
         "allow": _limits(row["allow"])}
        for name, row in policies["policies"].items()
    ]  # fmt: skip
    out.table(columns, rows)
    if policies["error"]:
        out.note(f"the file's current content is not used: {policies['error']}")
    if not rows:
        out.note(f"no policies: {policies['path'] or 'no file is configured'}")


def _seconds(timeout: Any) -> str:
    """Format a timeout, which may differ between events."""
    by_event = timeout if isinstance(timeout, dict) else {"": timeout}
    parts = [f"{name} {seconds:g}s".strip() for name, seconds in by_event.items() if seconds is not None]
    return ", ".join(parts)


def _limits(allow: dict[str, list[str]] | None) -> str:
    """Format what a plugin may change: everything, or a list of fields."""
    if allow is None:
        return "everything"
    return "; ".join(f"{name}: {', '.join(fields) or 'none'}" for name, fields in allow.items())
