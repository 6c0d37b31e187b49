"""`nri run`: hand plugin classes to the stub, each with the flags that it knows.

Rules: flags behind a plugin that belong to one plugin only (index, name, configuration, events, and flags of its own)
are that plugin's; all others hold for the process, wherever they are. Only the plugin's class knows whether a value
follows a flag that `nri run` does not know, so it is loaded for that. Next: `nri.plugins.loader` finds the
class, `nri.stub.program.start` runs it, and `nri.plugins.reload` runs it again when its file changes.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nri.api.naming import DEFAULT_INDEX, ENV_IDX, ENV_NAME
from nri.cli.settings import Settings
from nri.cli.support.completion import complete_target
from nri.cli.support.recording import record_options, recorded
from nri.cli.support.verb import Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nri.interfaces import Reporter
    from nri.stub.plugin import Plugin
    from nri.stub.program.options import Options


#: The flags of one plugin, in the words of `nri.stub.program.options`.
OF_ONE = ("--idx", "-idx", "-i", "--name", "-name", "--config", "-config", "--events", "-events")


class PluginArguments(NamedTuple):
    """A plugin to run, and the words behind it that are its own."""

    target: str
    words: list[str]


def split(
    arguments: Sequence[str], options: Mapping[str, bool], own_of: Callable[[str], Mapping[str, tuple[str, str, str]]]
) -> tuple[list[str], list[PluginArguments]]:
    """Split words into those for the command, plugins among them, and the plugins with the words that are theirs.

    Args:
        arguments: the words behind `nri run`.
        options: the flags of the command, with their dashes -> whether a value follows.
        own_of: tells the flags of a plugin's own, as its class has them.
    """
    ours: list[str] = []
    wanted: list[PluginArguments] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        flag, equals, _ = word.partition("=")
        if word == "--" and wanted:
            wanted[-1].words.extend(rest)
            break
        if not word.startswith("-") or word == "-":
            ours.append(word)
            wanted.append(PluginArguments(word, []))
        elif flag in options:
            place = wanted[-1].words if wanted and flag in OF_ONE else ours
            place += [word, *_value(rest, options[flag] and not equals)]
        elif not wanted or (_is_cluster(flag, options) and flag.lstrip("-") not in own_of(wanted[-1].target)):
            ours.append(word)
        else:
            row = own_of(wanted[-1].target).get(flag.lstrip("-"))
            wanted[-1].words.extend([word, *_value(rest, row is not None and bool(row[1]) and not equals)])
    return ours, wanted


def _is_cluster(flag: str, options: Mapping[str, bool]) -> bool:
    """Whether this may be several short flags in one word, such as -vv."""
    return not flag.startswith("--") and flag[:2] in options


def _value(rest: list[str], follows: bool) -> list[str]:
    return [rest.pop(0)] if follows and rest else []


#: Where the plugins with their own flags are kept between parsing and running.
WANTED = "nri.run.wanted"
#: The variables by which a runtime that launches a plugin speaks to it.
OF_THIS_PROCESS = (ENV_IDX, ENV_NAME)

EXAMPLES = [
    "nri run pod_name.py --idx 10",
    "nri run template --idx 10               # a bundled plugin: nri plugins list",
    "nri run pod_name.py --reload            # again, whenever the file changes",
    "nri run my_plugins.pin:Pin --config pin.yaml",
    "nri run logger --record traces          # see what happens, and keep it: nri trace show traces",
    "nri run 10-logger --events pod 20-template --config template.yaml    # several in one process",
]


class Run(Verb):
    """The verb; it takes the flags of plugins as well, behind the plugins."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args, ctx.meta[WANTED] = self.split(ctx, args)
        return super().parse_args(ctx, args)

    def split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[PluginArguments]]:
        """Split a command line into words for the command, and plugins with the words that are their own."""
        options = {
            name: not param.is_flag and not param.count
            for param in self.get_params(ctx)  # with --help
            if isinstance(param, click.Option)
            for name in param.opts
        }
        return split(args, options, functools.cache(lambda target: _own_flags(target, patient="--reload" in args)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for target in dict.fromkeys(each.target for each in ctx.meta.get(WANTED, ())):
            own = _own_flags(target, patient=True)
            if own:
                with formatter.section(f"Flags of {target}, behind it"):
                    formatter.write_dl([(f"--{name} {row[1]}".strip(), row[2]) for name, row in own.items()])
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete flags of the last plugin's own, too."""
        from click.shell_completion import CompletionItem

        found = super().shell_complete(ctx, incomplete)
        targets = ctx.params.get("targets") or ()
        if incomplete.startswith("-") and targets:
            own = _own_flags(targets[-1], patient=True)
            found += [
                CompletionItem(f"--{name}", help=row[2])
                for name, row in own.items()
                if f"--{name}".startswith(incomplete)
            ]
        return found


def _own_flags(target: str, *, patient: bool) -> Mapping[str, tuple[str, str, str]]:
    """Return the flags of a plugin's own; `patient`: none of one that cannot be loaded."""
    from nri.errors import NriError
    from nri.plugins.loader import load

    try:
        return load(target).flags
    except NriError:
        if patient:
            return {}
        raise


@click.command(cls=Run, examples=EXAMPLES)
@click.argument("targets", metavar="NAME|FILE|MODULE:CLASS...", nargs=-1, required=True, shell_complete=complete_target)
@click.option(
    "--idx", "-idx", "-i", metavar="NN", help=f"Place in the order of plugins, 00 to 99. Default: {DEFAULT_INDEX}."
)
@click.option("--name", "-name", metavar="NAME", help="The plugin's name. Default: the class's name.")
@click.option(
    "--config", "-config", metavar="FILE", help="The plugin's configuration; changes are applied while it runs."
)
@click.option("--events", "-events", metavar="LIST", help="Take only these events: all, pod, container, or names.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log messages of this level and above. Default: info.",
)
@click.option("--log-file", metavar="FILE", help="Log to this file instead of standard error.")
@click.option("--health-addr", metavar="HOST:PORT", help="Serve /healthz and /readyz on this address.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz on this address.")
@click.option("--no-reconnect", is_flag=True, help="Exit when the runtime is not there or goes away.")
@click.option("--reload", is_flag=True, help="Start again whenever a file of the plugin changes.")
@record_options
@click.pass_obj
def command(settings: Settings, /, targets: tuple[str, ...], reload: bool, **flags: Any) -> int:
    """Run plugins against the runtime on this machine, until they are stopped.

    NAME is a bundled plugin, or one that another distribution has registered (nri plugins list). FILE holds one
    plugin class; FILE:CLASS chooses one of several. Write a plugin's own flags behind it; its own --help lists
    them.

    Several plugins share one process, each with its own connection. --idx, --name, --config and --events belong to
    the plugin that they follow; NN-NAME gives the index as well. Without an index, the first plugin gets 50 and
    each further one the next number. If one plugin exits for good, all stop, with its name and exit code.

    Only the log is printed: with -q only warnings, with -o json one object per line. --timeout limits how long the
    runtime may take to register and configure a plugin.
    """
    wanted: list[PluginArguments] = click.get_current_context().meta[WANTED]
    if reload:
        from nri.plugins.reload import supervise

        if len(targets) > 1:
            raise click.UsageError("--reload takes one plugin", click.get_current_context())
        return supervise(targets[0], quiet=settings.quiet)
    if len(wanted) > 1:
        _refuse_unclear(flags)
    with recorded(flags, "nri run") as reporters:
        return _run(settings, wanted, flags, next(iter(reporters), None))


def _run(settings: Settings, wanted: list[PluginArguments], flags: dict[str, Any], reporter: Reporter | None) -> int:
    """Run the plugins, or tell what --help or --version of one asks for."""
    from nri.stub.program.start import run_all, tell

    arguments = stub_arguments(settings, flags)
    chosen = [_chosen(settings, each, arguments, place, len(wanted)) for place, each in enumerate(wanted)]
    asked = [(plugin, options) for plugin, options in chosen if options.help or options.version]
    for plugin, options in asked:
        tell(plugin, options)
    return 0 if asked else run_all(chosen, reporter=reporter)


def _refuse_unclear(flags: dict[str, Any]) -> None:
    """Refuse a flag of one plugin that is before several."""
    for name in ("idx", "name", "config", "events"):
        if flags.get(name):
            reason = f"--{name} is of one plugin: write it behind the plugin that is meant"
            raise click.UsageError(reason, click.get_current_context())


def _chosen(
    settings: Settings, wanted: PluginArguments, arguments: list[str], place: int, count: int
) -> tuple[type[Plugin], Options]:
    """Load one plugin and parse its flags; it is number `place` of `count` in this process."""
    from nri.errors import ConfigError
    from nri.plugins.loader import load
    from nri.stub.program.options import parse

    plugin = load(wanted.target)
    # The environment describes one plugin only.
    environment = {name: value for name, value in os.environ.items() if count == 1 or name not in OF_THIS_PROCESS}
    program = wanted.target.partition(":")[0]
    index = str(int(DEFAULT_INDEX) + place)
    try:
        options = parse([*arguments, *wanted.words], environment, program, plugin.name, plugin.flags, index)
    except ConfigError as error:
        if count > 1:
            error = ConfigError(f"{error.source}, {wanted.target}", error.key, error.reason, error.suggestion)
        raise error from None
    if settings.timeout_s is not None:
        options.registration_timeout_s = settings.timeout_s
    return plugin, options


def stub_arguments(settings: Settings, flags: dict[str, Any]) -> list[str]:
    """Write our options as the stub's command line; the stub checks them."""
    arguments = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value:
            arguments += [flag, value]
    if settings.socket_path:
        arguments += ["--socket-path", settings.socket_path]
    if settings.verbose:
        arguments.append("--verbose")
    elif settings.quiet and not flags.get("log_level"):
        arguments += ["--log-level", "warning"]
    return [*arguments, "--log-format", "json" if settings.output == "json" else settings.log_format]
