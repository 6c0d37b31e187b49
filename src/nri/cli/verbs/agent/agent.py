"""`nri agent`: the node agent in the foreground, a check of its files, explanations, and what the kernel lets it do.

Next: `nri.agent.program` runs it; `nri.cli.verbs.agent.explain` explains.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from nri.cli.errors import FAILED, USAGE
from nri.cli.output import Column, Output
from nri.cli.settings import Settings
from nri.cli.support.recording import record_options, recorded
from nri.cli.support.verb import Verb, VerbGroup
from nri.cli.verbs.agent.explain import explain
from nri.cli.verbs.agent.options import AGENT_OPTIONS

if TYPE_CHECKING:
    from typing import Any

    from nri.agent.settings import AgentSettings
    from nri.config.settings import Loaded


class _AgentGroup(VerbGroup):
    """The agent's verbs, all of which need its packages."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            from nri.service.daemon import needs_extra

            needs_extra("nri agent", error, "agent")


@click.group(
    cls=_AgentGroup,
    examples=[
        "nri agent capabilities                  # what this kernel lets it do",
        "nri agent check agent.toml --rules rules/",
        "sudo nri agent run --mode nri --rules rules/",
        "sudo nri agent explain default/web",
    ],
)
def agent() -> None:
    """Run the node agent: Koordinator's or rubik's QoS rules for pods, over NRI, a CRI proxy, or by writing cgroups.

    Its settings are explained by nri agent keys.
    """


@agent.command(
    cls=Verb,
    short_help="run it in the foreground, until it is stopped",
    examples=[
        "sudo nri agent run                      # with /etc/nri/agent.toml, if it is there",
        "sudo nri agent run --mode nri --rules rules/ -v",
        "sudo nri agent run --mode nri,standalone --config agent.toml --set rules.source=apiserver",
        "sudo nri agent run --profile koordinator --profile rubik --config agent.toml --config config.json",
        "sudo nri agent run --mode proxy --set proxy.runtime_endpoint=/run/containerd/containerd.sock",
    ],
)
@AGENT_OPTIONS
@record_options
@click.pass_obj
def run(settings: Settings, /, **options: Any) -> int:
    """Run the agent in the foreground until SIGTERM or Ctrl-C. The values that it has set stay when it ends.

    Its log goes to standard error: -v logs more, --log-format json writes objects. One line says when it has started,
    and systemd is notified if it started the agent. It starts without waiting for the runtime or the apiserver, and
    logs when it has found them. With --record it keeps requests over NRI and its answers, but not the values that it
    writes by itself: nri agent explain shows those.

    With --profile twice both run in one process, each with its own name at the runtime, socket and history. A file that
    names a profile, or is rubik's, is for that one alone.

    Exits with 0 after SIGTERM, with 130 after Ctrl-C, with 1 if it cannot start, with 2 for mistakes in its settings.
    """
    from nri.agent.program import run as run_agent
    from nri.cli.support.logs import log_to

    every = _each(options["set_profile"], options["files"], AGENT_OPTIONS.given(settings, options))
    log_to(settings, every[0].settings.log_level)
    with recorded(options, "nri agent", modes=",".join(every[0].settings.modes)) as reporters:
        return run_agent(every, next(iter(reporters), None))


@agent.command(
    cls=Verb,
    short_help="check its settings, and files of rules and pods, without running it",
    examples=[
        "nri agent check                         # /etc/nri/agent.toml, and the rules that it names",
        "nri agent check agent.toml --rules rules/",
        "nri agent check agent.toml --rules slo.yaml --pods pods.yaml",
        "nri agent check --profile koordinator --profile rubik agent.toml config.json",
        "kubectl get nodeslo node-1 -o json > slo.json; nri agent check --rules slo.json",
    ],
)
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option("--pods", metavar="PATH", help="Check this file, or folder of files, of pods: their annotations.")
@AGENT_OPTIONS.only("--profile", "--rules")
@click.pass_obj
def check(settings: Settings, /, paths: tuple[str, ...], pods: str | None, **options: Any) -> int:
    """Check settings, rules and pods, and print all mistakes at once. It changes nothing and connects to nothing.

    FILE, or --config FILE, is the agent's configuration, in TOML, YAML or JSON, or rubik's; later files override
    earlier ones. Annotations of pods are read as the hooks that the settings switch on read them. A key that nothing
    reads is a mistake in settings, and a note in rules and pods. With --profile twice, each is checked with its
    files, and also whether both can run together.

    Exits with 0 if all is well, with 2 for mistakes in the settings, else with 1 for those in rules or pods.
    """
    from nri.agent.checking import check as run_check
    from nri.agent.settings import AGENT_SETTINGS
    from nri.errors import ConfigError

    flags = AGENT_OPTIONS.given(settings, options)
    only_rules = {key: value for key, value in flags.items() if key.startswith("rules.")}
    try:
        loaded: Any = _each(options["set_profile"], (*options["files"], *paths), flags)
    except ConfigError as error:
        loaded = error
    default = AGENT_SETTINGS.load(flags=only_rules, environment={"NRI_AGENT_CONFIG": "/dev/null"}).settings
    done = run_check(loaded, default, bool(options["set_rules"]), pods or "")
    out = Output(settings)
    for note in done.notes:
        out.note(f"note: {note}")
    rows = [each._asdict() for each in done.findings]
    if rows or not out.human:
        columns = [
            Column("WHERE", "where"),
            Column("WHAT", "what"),
            Column("PROBLEM", "problem"),
            Column("NEXT", "next"),
        ]
        out.table(columns, rows)
    if not rows:
        but = ", but see the notes" if done.notes else ""
        out.note(f"nothing is wrong{but}: {done.looked_at}")
    return USAGE if done.wrong_settings else FAILED if rows else 0


@agent.command(
    cls=Verb,
    short_help="see which knobs and features this kernel has, and what to use instead",
    examples=[
        "nri agent capabilities",
        "nri agent capabilities --all            # also what none of Koordinator's rules needs",
        "nri agent capabilities -o json | jq '.[] | select(.supported | not)'",
    ],
)
@click.option("--all", "every", is_flag=True, help="Also knobs that no rule of the profile sets.")
@AGENT_OPTIONS.only("--profile", "--root")
@click.pass_obj
def capabilities(settings: Settings, /, every: bool, **options: Any) -> None:
    """Show every knob and feature that the rules need, whether it works here, and if not, why and what to use instead.

    Changes nothing. A knob has the same name on all kernels; its file depends on the cgroup version. Some files exist
    only in kernels of Anolis OS or Alibaba Cloud Linux: elsewhere the agent reports each write to them as unsupported.
    """
    from nri import host
    from nri.agent.capabilities import capabilities as found
    from nri.agent.profile import profile_of

    chosen = AGENT_OPTIONS.load(settings, options).settings
    rows = [
        {**row._asdict(), "needed_by": list(row.needed_by)}
        for row in found(host.Root(chosen.root), profile_of(chosen.profile))
        if every or row.needed_by or row.what not in host.KNOBS
    ]
    out = Output(settings)
    if not out.human:
        out.document(rows)
        return
    for row in rows:
        row["here"] = "yes" if row["supported"] else "no"
        row["told"] = row["found"] or row["reason"]
    columns = [
        Column("KNOB OR FEATURE", "what"),
        Column("HERE", "here"),
        Column("FOUND, OR WHY NOT", "told", 80),
        Column("INSTEAD", "instead"),
        Column("NEEDED BY", "needed_by", 40, extra=True),
    ]
    out.table(columns, rows)


@agent.command(
    cls=Verb,
    short_help="list every key of its settings with its default and meaning",
    examples=["nri agent keys", "nri agent keys nri.", "nri agent keys -o json"],
)
@click.argument("prefix", default="")
@click.pass_obj
def keys(settings: Settings, prefix: str) -> None:
    """List every key of agent.toml, with its default and meaning; with PREFIX those that begin with it.

    A key is written as in TOML: nri.index is index in the table [nri]. Later sources override earlier ones:
    defaults; the files, /etc/nri/agent.toml unless others are named; the environment (NRI_AGENT_CONFIG,
    NRI_AGENT_SOCKET, NRI_AGENT_ROOT, NRI_AGENT_LOG_LEVEL, NRI_SOCKET, NODE_NAME, KUBECONFIG); flags.
    """
    AGENT_OPTIONS.list_keys(settings, prefix, "nri agent keys")


def _each(profiles: Iterable[str], files: Iterable[str], flags: Mapping[str, Any]) -> list[Loaded[AgentSettings]]:
    """The settings of each profile that is named, or of the one of the files. Raises ConfigError."""
    from nri.agent.settings import AGENT_SETTINGS, load_each

    named = tuple(dict.fromkeys(profiles))
    return load_each(named, tuple(files), flags) if len(named) > 1 else [AGENT_SETTINGS.load(*files, flags=flags)]


agent.add_command(explain)

command = agent
