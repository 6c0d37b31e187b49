"""`nri drift`: values of cgroups that are another one than the runtime, plugins or the agent gave.

Rules: it changes nothing. What was given it knows as a plugin, on any runtime, and from an agent that runs here; which
plugin has set a value it asks a runtime that is built on this package. Next: `nri.trace.drift`, which compares.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from nri.cli.errors import DIFFERS, FAILED, Failure
from nri.cli.output import Column, Output, Painted
from nri.cli.settings import Settings
from nri.cli.support.admin_socket import admin_socket, ask_runtime
from nri.cli.support.verb import Verb
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.stub.plugin import Plugin
    from nri.trace.drift import Change, Drift, Wish

#: The plugin's place: behind all others, to see what they made of a container.
INDEX: Final = "99"
_COLUMNS = [
    Column("SUBJECT", "subject", 60),
    Column("KNOB", "knob"),
    Column("WANTED", "wanted"),
    Column("FOUND", "found"),
    Column("SET BY", "set_by"),
    Column("OVERWRITTEN BY", "by"),
    Column("WHEN (UTC)", "when"),
]
_PAST: Final = "not known"


@click.command(
    cls=Verb,
    examples=[
        "nri drift                               # what is another value now than was applied",
        "nri drift --watch                       # and what becomes so, as it happens",
        "nri drift --watch --metrics 127.0.0.1:9400",
    ],
)
@click.option("--watch", "-f", is_flag=True, help="Keep looking, and print each value that changes, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600.0),
    default=2.0,
    metavar="SECONDS",
    help="Between two looks. Default: 2.",
)
@click.option("--metrics", metavar="HOST:PORT", help="With --watch: serve /metrics on this address.")
@click.option(
    "--agent-socket",
    metavar="PATH",
    envvar="NRI_AGENT_SOCKET",
    help="The agent's socket (environment: NRI_AGENT_SOCKET). Default: that of the agent that runs here, if one does.",
)
@click.option(
    "--root", default="/", metavar="DIR", help="Where the machine's root file system is; another one in a container."
)
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
    plugin set a value. Where two of them want different values, the one whose value is there has overwritten the other;
    one that none of them wanted was written past NRI. Run it on the node, as root. The exit code is 5 if there is any,
    and 1 if no value could be read at all.
    """
    from nri.host.cgroups import detect
    from nri.host.root import Root
    from nri.trace.drift import Drift

    if metrics and not watch:
        raise click.UsageError("--metrics goes with --watch", click.get_current_context())
    out = Output(settings)
    drift = Drift(detect(Root(root)))
    who = _Setters(settings, path)
    with ExitStack() as stack:
        wishes = _sources(settings, agent_socket, stack)
        if metrics:
            stack.enter_context(_served(drift, metrics))
        found = drift.look(wishes())
        if drift.unread and not drift.looked_at:
            told = f"{count(drift.unread, 'value')} given, and none of them can be read below {root}"
            step = "run it on the node, as root; in a container, with --root for the node's root"
            if not watch:
                raise Failure(f"{told}, so nothing was compared: {step}")
            out.note(f"{told} yet: {step}")
        if not watch:
            rows = [_row(change, who) for change in found]
            (out.table(_COLUMNS, rows) if rows or not out.human else out.note("nothing has been overwritten"))
            if drift.left_out:
                out.note(f"not looked at: {count(drift.left_out, 'value')} more than there is room for")
            return DIFFERS if rows else 0
        while True:
            for change in found:
                _say(out, _row(change, who))
            time.sleep(interval)
            found = drift.look(wishes())


def _sources(settings: Settings, agent_socket: str | None, stack: ExitStack) -> Callable[[], Iterator[Wish]]:
    """What tells the values that were given: the plugin, and the agent if one runs. Raises if there is neither."""
    from nri.agent.settings import AgentSettings
    from nri.api.messages import ContainerState
    from nri.api.naming import DEFAULT_SOCKET
    from nri.cli.support.joined import joined
    from nri.errors import NriError
    from nri.trace.drift import wishes_of

    usual = AgentSettings().socket
    agent = agent_socket or (usual if os.path.exists(usual) else "")
    plugin = _plugin()
    timeout_s = settings.timeout_s or 5.0
    joins = True
    try:
        stack.enter_context(joined(plugin, settings.socket_path or DEFAULT_SOCKET, INDEX, timeout_s))
    except NriError:
        if not agent or settings.socket_path:
            raise
        joins = False  # an agent without a runtime that speaks NRI

    def wishes() -> Iterator[Wish]:
        if joins:
            if not plugin.runtime.connected:
                raise Failure("the runtime has closed the connection", FAILED)
            state = plugin.state
            for container in list(state.containers.values()):
                if container.state == ContainerState.CONTAINER_STOPPED:
                    continue  # its cgroup has gone with it
                yield from wishes_of(state.pod_of(container), container, "runtime")
        if agent:
            yield from _agent_wishes(agent, timeout_s)

    return wishes


def _plugin() -> Plugin:
    """A plugin that keeps what the runtime tells of containers."""
    from nri.stub.plugin import Plugin

    class Looking(Plugin):
        name = "nri-drift"
        mirror = True

    return Looking()


def _agent_wishes(path: str, timeout_s: float) -> Iterator[Wish]:
    """The values that the agent has written, and those that were there when it did."""
    from nri.cli.support.ask import ask
    from nri.host.cgroups import knob
    from nri.trace.drift import Wish

    status, pods = ask(path, "/explain", timeout_s)
    if status != 200:
        raise Failure(f"{path} answered {status}, and not as an agent does: name its socket with --agent-socket")
    for pod in pods["pods"]:
        if pod["ended"]:
            continue
        status, told = ask(path, "/explain", timeout_s, {"pod": pod["key"]})
        for row in told["writes"] if status == 200 else ():
            if row["outcome"] not in ("applied", "unchanged"):
                continue
            with suppress(KeyError, ValueError):  # a process, a switch, a value by device
                value = knob(row["name"]).parse(row["wanted"])
                names = (pod["namespace"], pod["name"], row["container"])
                subject = "/".join(name for name in names if name) or pod["key"]
                yield Wish(subject, row["target"], row["name"], value, "agent")


class _Setters:
    """Which plugin has set a value, as a runtime that is built on this package knows it; it is asked once at a time."""

    def __init__(self, settings: Settings, path: str | None) -> None:
        self._settings, self._path = settings, path
        self._there = True

    def of(self, change: Change) -> str:
        """``NN-name``, or the source if no plugin has set it."""
        from nri.trace.drift import field_of

        field, ident = field_of(change.wish.name), change.wish.cgroup.rpartition("/")[2]
        ident = ident.removesuffix(".scope").rpartition("-")[2]
        if not self._there or change.wish.source != "runtime" or not field:
            return change.wish.source
        try:
            chain = ask_runtime(self._settings, self._path, "Why", {"container": ident})
        except Failure as error:
            self._there = error.code == FAILED  # it answers, if only that it knows nothing of this one
            return change.wish.source
        setters = [step["plugin"] for step in chain["steps"] if step["field"] == field and not step["note"]]
        return setters[-1] if setters and not setters[-1].startswith("(") else change.wish.source


def _row(change: Change, who: _Setters) -> dict[str, Any]:
    row = change.to_json()
    row["set_by"] = who.of(change)
    row["by"] = "" if change.found is None else row["by"] or _PAST
    row["when"] = _when(change)
    return row


def _when(change: Change) -> str:
    until = datetime.fromtimestamp(change.until_s, UTC).strftime("%H:%M:%S")
    if not change.after_s:
        return f"before {until}"
    return f"{datetime.fromtimestamp(change.after_s, UTC).strftime('%H:%M:%S')} to {until}"


def _say(out: Output, row: dict[str, Any]) -> None:
    if not out.human:
        out.stream(row)
    elif row["found"] is None:
        out.text(f"{row['when']}  {row['subject']} {row['knob']} ", Painted("is back", "green"), f": {row['wanted']}")
    else:
        was = "" if row["before"] is None else f", was {row['before']}"
        by = "past NRI" if row["by"] == _PAST else f"by {row['by']}"
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
            "# HELP nri_drift_changes_total Values that were found overwritten, or back, since the start.\n"
            "# TYPE nri_drift_changes_total counter\n"
            f"nri_drift_changes_total {drift.count}\n"
        )

    return closing(Server(public={"/metrics": figures}, address=address))
