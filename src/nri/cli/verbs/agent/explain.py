"""`nri agent explain`: an agent's account of a pod, from the agent that runs here, or of a manifest without an agent.

Next: `nri.agent.account` adds rules and annotations to an account, `nri.agent.offline` makes one without an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nri.cli.errors import Failure
from nri.cli.output import Column, Output, Painted
from nri.cli.settings import FILE, Settings
from nri.cli.support.verb import Verb
from nri.cli.verbs.agent.options import AGENT_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

#: How long an agent has to answer, in seconds, unless --timeout says otherwise.
_ANSWER_S = 5.0
VALUES = (
    Column("CONTAINER", "container", 30),
    Column("VALUE OF", "field", 40),
    Column("IS", "value", 50),
    Column("HOOK", "hook"),
    Column("WHY", "reason", 70),
    Column("RULES", "rules", extra=True),
    Column("READS", "reads", 70, extra=True),
    Column("VIA", "transport", extra=True),
)
WRITES = (
    Column("CONTAINER", "container", 30),
    Column("KNOB", "name"),
    Column("WANTED", "wanted", 30),
    Column("OUTCOME", "outcome"),
    Column("WHY", "reason", 120),
    Column("CGROUP OR PROCESS", "target", extra=True),
)
RULES = (
    Column("WRITTEN AT", "place", 60),
    Column("KIND", "kind"),
    Column("KEY", "key", 70),
    Column("DECIDES", "hooks", 60),
)
STRATEGIES = (
    Column("STRATEGY", "strategy"),
    Column("DECIDES AGAIN", "again"),
    Column("BY", "state", 100),
)
UNCHANGED = (
    Column("CONTAINER", "container", 30),
    Column("STRATEGY", "strategy"),
    Column("UNCHANGED BECAUSE", "reason", 110),
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
        "sudo nri agent explain default/web      # ask the agent that runs here",
        "sudo nri agent explain                  # the pods that it knows",
        "nri agent explain --rules rules/ --pod pod.yaml     # without an agent: what would it do?",
        "sudo nri why web                        # what all plugins changed in its container",
        "nri agent explain --rules rules/ --pod pod.yaml --set gates.Resctrl=true -o json",
    ],
)
@click.argument("pod", required=False)
@click.option("--pod", "manifest", type=FILE, metavar="FILE", help="Explain this manifest, without an agent.")
@AGENT_OPTIONS.only("--profile", "--rules", "--root", "--agent-socket")
@click.pass_obj
def explain(settings: Settings, /, pod: str | None, manifest: Path | None, **options: Any) -> None:
    """Explain which rule, annotation and hook gave a pod each value, whether it was applied, and if not, why.

    POD is NAMESPACE/NAME, a name that only one pod has, or a key such as a uid or kube-qos/BestEffort from the list
    that is printed without POD. The agent that runs here answers. With --pod FILE no agent is needed: the rules of
    --rules and the settings of --config and --set are applied to the manifest. nri why says what other plugins changed
    in a container, and in which order, where the runtime keeps it. --profile says which agent is asked, where two
    profiles run in one process.

    Exits with 1 if the agent does not know the pod, with 3 if there is no agent.
    """
    if pod and manifest:
        raise click.UsageError("give one of POD and --pod FILE")
    if options["set_rules"] and not manifest:
        raise click.UsageError("--rules needs --pod FILE: an agent that runs answers by its own rules")
    loaded = AGENT_OPTIONS.load(settings, options)
    from nri.agent.account import enriched
    from nri.agent.profile import profile_of

    out, profile = Output(settings), profile_of(loaded.settings.profile)
    if manifest:
        from nri.agent.offline import explain_manifests, missing_rules

        if lacking := missing_rules(loaded):
            raise lacking
        accounts, notes = explain_manifests(loaded.settings, str(manifest))
        for note in notes:
            out.note(f"note: {note}")
        found = [enriched(each, profile) for each in accounts]
        if not out.human:
            out.document(found)
            return
        for number, each in enumerate(found):
            if number:
                out.text("")
            show(out, each)
        return
    from nri.agent.settings import socket_of

    socket = socket_of(loaded.settings)
    if not pod:
        _list_pods(out, _asked(settings, socket, "/explain"))
        return
    answer = enriched(_asked(settings, socket, "/explain", pod=pod), profile)
    if out.human:
        show(out, answer)
        if any(row.get("transport") == "nri" for row in answer["values"]):
            out.note("what every plugin changed in one of its containers: nri why CONTAINER")
    else:
        out.document(answer)


def show(out: Output, found: Mapping[str, Any]) -> None:
    """Print an explanation for people: values, what came of writes, errors, notes; with -q the values alone."""
    if out.quiet:
        out.names(f"{row.get('container') or 'pod'} {row['field']} {row['value']}" for row in found["values"])
        return
    name = "/".join(part for part in (found.get("namespace"), found.get("name")) if part) or found.get("key", "")
    out.text(Painted(f"pod {name}{' (it has ended)' if found.get('ended') else ''}", "bold"))
    if found["values"]:
        rows = [{**row, "value": row["value"] or '""'} for row in found["values"]]
        columns = [each for each in VALUES if any(row.get(each.key) for row in rows)]
        out.table(columns, sorted(rows, key=lambda row: (row.get("container", ""), row.get("field", ""))))
    else:
        out.text("no hook gave it any value")
    if found.get("rules"):
        out.text("")
        out.text("Rules: " + "; ".join(f"{kind}: {source or 'none'}" for kind, source in found["rules"].items()))
    if found.get("rule_keys"):
        out.table(RULES, [{**row, "place": row["place"] or "(default)"} for row in found["rule_keys"]])
    for each in found.get("rule_problems", ()):
        out.text(f"Not used: {each['kind'] or 'a document'} of {each['source']}: {each['error']}")
    for title, shown, part in (("Outcome:", WRITES, "writes"), ("Errors:", ERRORS, "errors")):
        if found.get(part):
            out.text("")
            out.text(title)
            out.table(shown, found[part])
    if found.get("strategies"):
        out.text("")
        out.table(STRATEGIES, [{**row, "again": _again(row)} for row in found["strategies"]])
    if found.get("unchanged"):
        out.text("")
        out.table(UNCHANGED, [{**row, "container": row["container"] or "pod"} for row in found["unchanged"]])
    if found.get("notes"):
        out.text("")
    for note in found.get("notes", ()):
        out.text(note)


def _again(row: Mapping[str, Any]) -> str:
    preview = ", and only says what it would do" if row.get("preview") else ""
    return f"in {row['in_s']:g} s, every {row['every_s']:g} s{preview}"


def _asked(settings: Settings, path: str, target: str, **query: str) -> Any:
    """The answer of the agent that runs here; a failure becomes a line with the next step."""
    from nri.service.client import ask

    status, answer = ask(path, target, settings.timeout_s or _ANSWER_S, query)
    if status == 200:
        return answer
    told = answer.get("error", "") if isinstance(answer, dict) else str(answer).strip()
    if status == 404 and query:
        raise Failure(f"{told}. try: nri agent explain")
    raise Failure(f"{path} answered {status}: {told}")


def _list_pods(out: Output, answer: Any) -> None:
    """Print the pods that the agent knows."""
    pods = answer.get("pods", []) if isinstance(answer, dict) else answer
    columns = [Column("NAMESPACE", "namespace"), Column("NAME", "name"), Column("KEY", "key"), Column("ENDED", "ended")]
    if not pods and out.human:
        out.note("the agent has decided nothing yet")
        return
    if out.quiet and out.human:
        out.names(f"{pod['namespace']}/{pod['name']}" if pod["namespace"] else pod["key"] for pod in pods)
        return
    out.table(columns, pods)
