"""An agent's account of a pod, with the rules and annotations that each hook reads, and as rows for people.

Rules: pure. The agent names the hook of each value; which rules and annotations a hook reads is in its row of the
profile. Next: `nri.cli.support.agent.offline`, which explains without an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.cli.output import Column, Painted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nri.agent.profile import Profile
    from nri.cli.output import Output

__all__ = ["enriched", "show"]

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


def enriched(found: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """An explanation in which each value and each error names the rules and the labels and annotations of its hook.

    Of these it names the ones that the pod has, where the agent tells which.
    """
    hooks = {row.name: row for row in profile.hooks}
    reads = {
        name: (tuple(kind for kind in row.sources if kind in profile.kinds), row.keys) for name, row in hooks.items()
    }
    both = {
        part: [_with_reads(row, reads, found.get("keys")) for row in found.get(part, ())]
        for part in ("values", "errors")
    }
    return {**found, **both}


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


def _with_reads(
    row: Mapping[str, Any], reads: Mapping[str, tuple[Collection[str], Collection[str]]], has: Collection[str] | None
) -> dict[str, Any]:
    rules, keys = reads.get(row.get("hook", ""), ((), ()))
    return {"reads": [key for key in keys if has is None or key in has], **row, "rules": list(rules)}
