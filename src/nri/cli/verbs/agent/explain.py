"""`nri agent explain`: explain a pod's values, as the running agent set them, or would set them for a manifest."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

import click

from nri.cli.errors import Failure
from nri.cli.output import Column, Output, PaintedText
from nri.cli.settings import FILE, Settings
from nri.cli.support.verb import Verb
from nri.cli.verbs.agent.options import AGENT_OPTIONS
from nri.text import count

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

#: How long to wait for the agent's answer without --timeout, in seconds.
_ANSWER_TIMEOUT_S = 5.0
VALUES = (
    Column("CONTAINER", "container", 30),
    Column("FIELD", "field", 40),
    Column("VALUE", "value", 50),
    Column("HOOK", "hook"),
    Column("REASON", "reason", 70),
    Column("RULES", "rules", extra=True),
    Column("READS", "reads", 70, extra=True),
    Column("VIA", "transport"),
)
WRITES = (
    Column("CONTAINER", "container", 30),
    Column("SETTING", "name"),
    Column("WANTED", "wanted", 30),
    Column("OUTCOME", "outcome"),
    Column("REASON", "reason", 120),
    Column("CGROUP OR PROCESS", "target", extra=True),
)
RULES = (
    Column("SOURCE", "place", 60),
    Column("KIND", "kind"),
    Column("KEY", "key", 70),
    Column("HOOKS", "hooks", 60),
)
STRATEGIES = (
    Column("STRATEGY", "strategy"),
    Column("NEXT RUN", "next_run"),
    Column("STATE", "state", 100),
)
UNCHANGED = (
    Column("CONTAINER", "container", 30),
    Column("STRATEGY", "strategy"),
    Column("REASON UNCHANGED", "reason", 110),
)
ERRORS = (
    Column("CONTAINER", "container", 30),
    Column("HOOK", "hook"),
    Column("STAGE", "stage"),
    Column("ERROR", "reason", 110),
)


@click.command(
    cls=Verb,
    short_help="explain which rule, annotation and hook gave a pod its values",
    examples=[
        "sudo nri agent explain default/web      # ask the running agent",
        "sudo nri agent explain                  # list the pods that the agent knows",
        "nri agent explain --rules rules/ --pod pod.yaml     # without an agent: what would it apply?",
        "sudo nri why web                        # what all plugins changed in the container",
        "nri agent explain --rules rules/ --pod pod.yaml --set gates.Resctrl=true -o json",
    ],
)
@click.argument("pod", required=False)
@click.option("--pod", "manifest", type=FILE, metavar="FILE", help="Explain this manifest, without an agent.")
@click.option("--all", "show_all", is_flag=True, help="Also show settings that this kernel does not have.")
@AGENT_OPTIONS.only("--profile", "--rules", "--root", "--agent-socket")
@click.pass_obj
def explain(settings: Settings, /, pod: str | None, manifest: Path | None, show_all: bool, **options: Any) -> None:
    """Explain which rule, annotation and hook set each value of a pod, and whether the value was applied.

    POD is NAMESPACE/NAME, a unique name, or a key from the list that is printed without POD, for example a uid. The
    agent on this machine answers; if it runs two profiles, --profile chooses one. With --pod FILE no agent is required:
    --rules, --config and --set are applied to the manifest. For changes by other plugins see nri why.

    The exit code is 1 if the agent does not know the pod, and 3 if no agent is running.
    """
    if pod and manifest:
        raise click.UsageError("give either POD or --pod FILE")
    if options["set_rules"] and not manifest:
        raise click.UsageError("--rules requires --pod FILE: a running agent uses its own rules")
    loaded = AGENT_OPTIONS.load(settings, options)
    from nri.agent.account import enriched
    from nri.agent.profile import profile_of

    out, profile = Output(settings), profile_of(loaded.settings.profile)
    if manifest:
        from nri.agent.offline import explain_manifests, missing_rules

        if error := missing_rules(loaded):
            raise error
        accounts, notes = explain_manifests(loaded.settings, str(manifest))
        for note in notes:
            out.note(f"note: {note}")
        enriched_accounts = [enriched(account, profile) for account in accounts]
        if not out.human:
            out.document(enriched_accounts)
            return
        for number, account in enumerate(enriched_accounts):
            if number:
                out.text("")
            show(out, account, show_all=show_all)
        return
    from nri.agent.settings import socket_of

    socket = socket_of(loaded.settings)
    if not pod:
        _list_pods(out, _ask_agent(settings, socket, "/explain"))
        return
    answer = enriched(_ask_agent(settings, socket, "/explain", pod=pod), profile)
    if out.human:
        show(out, answer, show_all=show_all)
        if any(row.get("transport") == "nri" for row in answer["values"]):
            out.note("for the changes of all plugins in one of its containers: nri why CONTAINER")
    else:
        out.document(answer)


def show(out: Output, account: Mapping[str, Any], *, show_all: bool = False) -> None:
    """Print an explanation as text: values, results of writes, errors, notes. With -q, print only the values.

    Settings that the kernel does not have are left out and counted, unless `show_all` is true.
    """
    out.fit()
    if out.quiet:
        out.names(f"{row.get('container') or 'pod'} {row['field']} {row['value']}" for row in account["values"])
        return
    name = "/".join(part for part in (account.get("namespace"), account.get("name")) if part) or account.get("key", "")
    out.text(PaintedText(f"pod {name}{' (ended)' if account.get('ended') else ''}", "bold"))
    if account["values"]:
        rows = [{**row, "value": row["value"] or '""'} for row in account["values"]]
        columns = [column for column in VALUES if any(row.get(column.key) for row in rows)]
        out.table(columns, sorted(rows, key=lambda row: (row.get("container", ""), row.get("field", ""))))
    else:
        out.text("no hook has set a value")
    if account.get("rules"):
        out.text("")
        _print_wrapped(
            out, "Rules: " + "; ".join(f"{kind}: {source or 'none'}" for kind, source in account["rules"].items())
        )
    if account.get("rule_keys"):
        out.table(RULES, [{**row, "place": row["place"] or "(default)"} for row in account["rule_keys"]])
    for problem in account.get("rule_problems", ()):
        _print_wrapped(out, f"Not used: {problem['kind'] or 'a document'} of {problem['source']}: {problem['error']}")
    _show_outcomes(out, account, show_all)
    if account.get("strategies"):
        out.text("")
        out.table(STRATEGIES, [{**row, "next_run": _schedule(row)} for row in account["strategies"]])
    if account.get("unchanged"):
        out.text("")
        out.table(UNCHANGED, [{**row, "container": row["container"] or "pod"} for row in account["unchanged"]])
    if account.get("notes"):
        out.text("")
    for note in account.get("notes", ()):
        _print_wrapped(out, note)


def _print_wrapped(out: Output, text: str) -> None:
    """Print a sentence in lines of the width of tables. Paths and other long words are not divided."""
    width = out.width or len(text) + 1
    for line in wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False):
        out.text(line)


def _show_outcomes(out: Output, account: Mapping[str, Any], show_all: bool) -> None:
    """Print the results of writes, and errors."""
    from nri.host.outcome import Outcome

    writes = account.get("writes", ())
    shown = [write for write in writes if show_all or write.get("outcome") != Outcome.UNSUPPORTED.value]
    for title, table_columns, rows in (("Outcome:", WRITES, shown), ("Errors:", ERRORS, account.get("errors"))):
        if rows:
            out.text("")
            out.text(title)
            out.table(table_columns, rows)
    if len(shown) < len(writes):
        out.text("")
        out.text(f"{count(len(writes) - len(shown), 'setting')} that this kernel does not have: --all shows them")


def _schedule(row: Mapping[str, Any]) -> str:
    preview = ", preview only" if row.get("preview") else ""
    return f"in {row['in_s']:g} s, every {row['every_s']:g} s{preview}"


def _ask_agent(settings: Settings, path: str, target: str, **query: str) -> Any:
    """Ask the running agent. Raises Failure with the next step for an error."""
    from nri.service.client import ask

    status, answer = ask(path, target, settings.timeout_s or _ANSWER_TIMEOUT_S, query)
    if status == 200:
        return answer
    message = answer.get("error", "") if isinstance(answer, dict) else str(answer).strip()
    if status == 404 and query:
        raise Failure(f"{message}. try: nri agent explain")
    raise Failure(f"{path} answered {status}: {message}")


def _list_pods(out: Output, answer: Any) -> None:
    """Print the pods that the agent knows."""
    pods = answer.get("pods", []) if isinstance(answer, dict) else answer
    columns = [Column("NAMESPACE", "namespace"), Column("NAME", "name"), Column("KEY", "key"), Column("ENDED", "ended")]
    if not pods and out.human:
        out.note("the agent does not know any pod yet")
        return
    if out.quiet and out.human:
        out.names(f"{pod['namespace']}/{pod['name']}" if pod["namespace"] else pod["key"] for pod in pods)
        return
    out.table(columns, pods)
