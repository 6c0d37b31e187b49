"""`nri agent`: run the node agent, check its files, explain its values, and show what this kernel supports."""

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
    from nri.config.settings import LoadedSettings


class _AgentGroup(VerbGroup):
    """The group of the agent's verbs, which reports a missing package of the extra `agent`."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            from nri.service.daemon import raise_missing_extra

            raise_missing_extra("nri agent", error, "agent")


@click.group(
    cls=_AgentGroup,
    examples=[
        "nri agent capabilities                  # what this kernel supports",
        "nri agent check agent.toml --rules rules/",
        "sudo nri agent run --mode nri --rules rules/",
        "sudo nri agent explain default/web",
    ],
)
def agent() -> None:
    """Run the node agent, which applies the QoS rules of Koordinator or rubik to pods.

    It applies values over NRI, as a CRI proxy, or by writing cgroups itself. To list its settings, run nri agent keys.
    """


@agent.command(
    cls=Verb,
    short_help="run the agent in the foreground, until it is stopped",
    examples=[
        "sudo nri agent run                      # with /etc/nri/agent.toml, if it exists",
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
    """Run the agent in the foreground until SIGTERM or Ctrl-C. Values that it has applied remain when it stops.

    The log goes to standard error. The agent logs when it has started, and notifies systemd. It starts without waiting
    for the runtime or the API server, and logs when it is connected to them. --record stores requests over NRI and
    their answers, but not the values that the agent writes itself; nri agent explain shows those.

    Repeat --profile to run both profiles in one process, each with its own plugin name, socket and history. A file that
    names a profile, or is in rubik's format, applies only to that profile.

    The exit code is 0 after SIGTERM, 130 after Ctrl-C, 1 if the agent cannot start, and 2 for mistakes in its settings.
    """
    from nri.agent.program import run as run_agent
    from nri.cli.support.logs import log_to

    profiles = _load_profiles(options["set_profile"], options["files"], AGENT_OPTIONS.flag_settings(settings, options))
    log_to(settings, profiles[0].settings.log_level)
    with recorded(options, "nri agent", modes=",".join(profiles[0].settings.modes)) as reporters:
        return run_agent(profiles, next(iter(reporters), None))


@agent.command(
    cls=Verb,
    short_help="check settings, rules and pods, without running the agent",
    examples=[
        "nri agent check                         # /etc/nri/agent.toml and its rules",
        "nri agent check agent.toml --rules rules/",
        "nri agent check agent.toml --rules slo.yaml --pods pods.yaml",
        "nri agent check --profile koordinator --profile rubik agent.toml config.json",
        "kubectl get nodeslo node-1 -o json > slo.json; nri agent check --rules slo.json",
    ],
)
@click.argument("paths", nargs=-1, type=click.Path(), metavar="[FILE]...")
@click.option("--pods", metavar="PATH", help="Check the annotations of the pods in this file or folder.")
@AGENT_OPTIONS.only("--profile", "--rules")
@click.pass_obj
def check(settings: Settings, /, paths: tuple[str, ...], pods: str | None, **options: Any) -> int:
    """Check settings, rules and pods, and print all mistakes. It changes nothing and does not connect to anything.

    FILE, or --config FILE, is the agent's configuration in TOML, YAML, JSON or rubik's format; later files override
    earlier ones. Annotations of pods are checked by the hooks that the settings enable. An unknown key is a mistake in
    settings, and a note in rules and pods. Repeat --profile to check both profiles, and whether they can run together.

    The exit code is 0 without mistakes, 2 for mistakes in the settings, and 1 for mistakes in rules or pods.
    """
    from nri.agent.checking import check as run_check
    from nri.agent.settings import AGENT_SETTINGS
    from nri.errors import ConfigError

    flags = AGENT_OPTIONS.flag_settings(settings, options)
    only_rules = {key: value for key, value in flags.items() if key.startswith("rules.")}
    try:
        loaded: Any = _load_profiles(options["set_profile"], (*options["files"], *paths), flags)
    except ConfigError as error:
        loaded = error
    default = AGENT_SETTINGS.load(flags=only_rules, environment={"NRI_AGENT_CONFIG": "/dev/null"}).settings
    outcome = run_check(loaded, default, bool(options["set_rules"]), pods or "")
    out = Output(settings)
    for note in outcome.notes:
        out.note(f"note: {note}")
    rows = [finding._asdict() for finding in outcome.findings]
    if rows or not out.human:
        columns = [
            Column("WHERE", "where"),
            Column("WHAT", "what"),
            Column("PROBLEM", "problem"),
            Column("NEXT", "next"),
        ]
        out.table(columns, rows)
    if not rows:
        caveat = ", but see the notes" if outcome.notes else ""
        out.note(f"no mistakes found{caveat}: {outcome.looked_at}")
    return USAGE if outcome.wrong_settings else FAILED if rows else 0


@agent.command(
    cls=Verb,
    short_help="show which cgroup settings and features this kernel supports",
    examples=[
        "nri agent capabilities",
        "nri agent capabilities --all            # also settings that no rule of the profile uses",
        "nri agent capabilities -o json | jq '.[] | select(.supported | not)'",
    ],
)
@click.option("--all", "every", is_flag=True, help="Also show settings that no rule of the profile uses.")
@AGENT_OPTIONS.only("--profile", "--root")
@click.pass_obj
def capabilities(settings: Settings, /, every: bool, **options: Any) -> None:
    """Show the cgroup settings and kernel features that the rules need, whether this kernel has them, and alternatives.

    Changes nothing. A setting has the same name on all kernels; its file depends on the cgroup version. Some files
    exist only in the kernels of Anolis OS and Alibaba Cloud Linux; on other kernels the agent reports each write to
    them as unsupported.
    """
    from nri import host
    from nri.agent.capabilities import capabilities as read_capabilities
    from nri.agent.profile import profile_of

    agent_settings = AGENT_OPTIONS.load(settings, options).settings
    rows = [
        {**row._asdict(), "needed_by": list(row.needed_by)}
        for row in read_capabilities(host.Root(agent_settings.root), profile_of(agent_settings.profile))
        if every or row.needed_by or row.what not in host.KNOBS
    ]
    out = Output(settings)
    if not out.human:
        out.document(rows)
        return
    for row in rows:
        row["here"] = "yes" if row["supported"] else "no"
        row["detail"] = row["found"] or row["reason"]
    columns = [
        Column("SETTING OR FEATURE", "what"),
        Column("SUPPORTED", "here"),
        Column("DETAIL", "detail", 80),
        Column("ALTERNATIVE", "instead"),
        Column("NEEDED BY", "needed_by", 40, extra=True),
    ]
    out.table(columns, rows)


@agent.command(
    cls=Verb,
    short_help="list the keys of agent.toml, with default and meaning",
    examples=["nri agent keys", "nri agent keys nri.", "nri agent keys -o json"],
)
@click.argument("prefix", default="")
@click.pass_obj
def keys(settings: Settings, prefix: str) -> None:
    """List the keys of agent.toml, with default and meaning. With PREFIX, list only the keys that begin with it.

    nri.index is the key index in the table [nri]. Later sources override earlier ones: defaults; configuration files
    (/etc/nri/agent.toml, or the files of --config); environment variables (NRI_AGENT_CONFIG, NRI_AGENT_SOCKET,
    NRI_AGENT_ROOT, NRI_AGENT_LOG_LEVEL, NRI_SOCKET, NODE_NAME, KUBECONFIG); flags.
    """
    AGENT_OPTIONS.list_keys(settings, prefix, "nri agent keys")


def _load_profiles(
    profiles: Iterable[str], files: Iterable[str], flags: Mapping[str, Any]
) -> list[LoadedSettings[AgentSettings]]:
    """Load the settings of each profile, or of the profile that the files set. Raises ConfigError for mistakes."""
    from nri.agent.settings import AGENT_SETTINGS, load_each

    named = tuple(dict.fromkeys(profiles))
    return load_each(named, tuple(files), flags) if len(named) > 1 else [AGENT_SETTINGS.load(*files, flags=flags)]


agent.add_command(explain)

command = agent
