"""`nri run`: run one or more plugins in this process, each with its flags.

Flags of one plugin (index, name, configuration, events, and flags that its class defines) must follow the plugin. All
other flags apply to the process, and may be anywhere.
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


#: The flags that belong to one plugin, with the spellings of `nri.stub.program.options`.
PLUGIN_FLAGS = ("--idx", "-idx", "-i", "--name", "-name", "--config", "-config", "--events", "-events")


class PluginArguments(NamedTuple):
    """A plugin to run, and its arguments.

    Attributes:
        target: NAME, FILE or MODULE:CLASS.
            words: the plugin's arguments, which follow it.
    """

    target: str
    words: list[str]


def split(
    arguments: Sequence[str], options: Mapping[str, bool], flags_of: Callable[[str], Mapping[str, tuple[str, str, str]]]
) -> tuple[list[str], list[PluginArguments]]:
    """Split a command line into the command's arguments, which include the plugins, and each plugin's arguments.

    Args:
        arguments: the command line after `nri run`.
        options: the flags of the command with their dashes, and for each flag whether a value follows.
        flags_of: returns the flags that a plugin's class defines.
    """
    command_words: list[str] = []
    plugins: list[PluginArguments] = []
    remaining = list(arguments)
    while remaining:
        word = remaining.pop(0)
        flag, equals, _ = word.partition("=")
        if word == "--" and plugins:
            plugins[-1].words.extend(remaining)
            break
        if not word.startswith("-") or word == "-":
            command_words.append(word)
            plugins.append(PluginArguments(word, []))
        elif flag in options:
            place = plugins[-1].words if plugins and flag in PLUGIN_FLAGS else command_words
            place += [word, *_value(remaining, options[flag] and not equals)]
        elif not plugins or (_is_cluster(flag, options) and flag.lstrip("-") not in flags_of(plugins[-1].target)):
            command_words.append(word)
        else:
            row = flags_of(plugins[-1].target).get(flag.lstrip("-"))
            plugins[-1].words.extend([word, *_value(remaining, row is not None and bool(row[1]) and not equals)])
    return command_words, plugins


def _is_cluster(flag: str, options: Mapping[str, bool]) -> bool:
    """Whether the argument may combine several short flags, for example -vv."""
    return not flag.startswith("--") and flag[:2] in options


def _value(remaining: list[str], follows: bool) -> list[str]:
    return [remaining.pop(0)] if follows and remaining else []


#: The key of click's context under which the plugins with their arguments are stored after parsing.
PLUGINS_KEY = "nri.run.wanted"
#: The environment variables that a runtime sets for a plugin that it launches.
LAUNCH_VARIABLES = (ENV_IDX, ENV_NAME)

EXAMPLES = [
    "nri run pod_name.py --idx 10",
    "nri run template --idx 10               # a bundled plugin: nri plugins list",
    "nri run pod_name.py --reload            # restart whenever the file changes",
    "nri run my_plugins.pin:Pin --config pin.yaml",
    "nri run logger --record traces          # log events and record them, for nri trace show traces",
    "nri run 10-logger --events pod 20-template --config template.yaml    # several in one process",
]


class Run(Verb):
    """The `nri run` command; it accepts the flags of a plugin after each plugin."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args, ctx.meta[PLUGINS_KEY] = self.split(ctx, args)
        return super().parse_args(ctx, args)

    def split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[PluginArguments]]:
        """Split a command line into the command's arguments and each plugin's arguments."""
        options = {
            name: not param.is_flag and not param.count
            for param in self.get_params(ctx)  # with --help
            if isinstance(param, click.Option)
            for name in param.opts
        }
        return split(args, options, functools.cache(lambda target: _own_flags(target, lenient="--reload" in args)))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for target in dict.fromkeys(plugin.target for plugin in ctx.meta.get(PLUGINS_KEY, ())):
            plugin_flags = _own_flags(target, lenient=True)
            if plugin_flags:
                with formatter.section(f"Flags of {target}, which must follow it"):
                    formatter.write_dl([(f"--{name} {row[1]}".strip(), row[2]) for name, row in plugin_flags.items()])
        super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete options of the command, and flags that the last plugin defines."""
        from click.shell_completion import CompletionItem

        items = super().shell_complete(ctx, incomplete)
        targets = ctx.params.get("targets") or ()
        if incomplete.startswith("-") and targets:
            plugin_flags = _own_flags(targets[-1], lenient=True)
            items += [
                CompletionItem(f"--{name}", help=row[2])
                for name, row in plugin_flags.items()
                if f"--{name}".startswith(incomplete)
            ]
        return items


def _own_flags(target: str, *, lenient: bool) -> Mapping[str, tuple[str, str, str]]:
    """The flags that a plugin's class defines; with `lenient`, no flags for a plugin that cannot be loaded."""
    from nri.errors import NriError
    from nri.plugins.loader import load

    try:
        return load(target).flags
    except NriError:
        if lenient:
            return {}
        raise


@click.command(cls=Run, examples=EXAMPLES)
@click.argument("targets", metavar="NAME|FILE|MODULE:CLASS...", nargs=-1, required=True, shell_complete=complete_target)
@click.option(
    "--idx", "-idx", "-i", metavar="NN", help=f"Position in the order of plugins, 00 to 99. Default: {DEFAULT_INDEX}."
)
@click.option("--name", "-name", metavar="NAME", help="The plugin's name. Default: the class's name.")
@click.option(
    "--config", "-config", metavar="FILE", help="The plugin's configuration; changes are applied while it runs."
)
@click.option(
    "--events",
    "-events",
    metavar="LIST",
    help="Subscribe only to these events, separated by commas: all, pod, container, or event names.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log messages of this level and above. Default: info.",
)
@click.option("--log-file", metavar="FILE", help="Log to this file instead of standard error.")
@click.option("--health-addr", metavar="HOST:PORT", help="Serve /healthz and /readyz on this address.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz on this address.")
@click.option("--no-reconnect", is_flag=True, help="Exit if the runtime does not answer or stops.")
@click.option("--reload", is_flag=True, help="Restart the plugin whenever one of its files changes.")
@record_options
@click.pass_obj
def command(settings: Settings, /, targets: tuple[str, ...], reload: bool, **flags: Any) -> int:
    """Run plugins with the runtime on this machine, until they are stopped.

    NAME is a bundled plugin, or one that another Python package has registered (nri plugins list). FILE contains one
    plugin class; FILE:CLASS chooses one of several. Flags that a plugin defines must follow it; nri run PLUGIN --help
    lists them.

    Several plugins share one process, each with its own connection. --idx, --name, --config and --events apply to the
    plugin that they follow; NN-NAME also sets the index. By default the first plugin has index 50, the next 51, and so
    on. If one plugin exits, all stop, and the exit code is that of the plugin.

    Only the log is printed: -q prints only warnings, -o json prints one object per line. --timeout limits how long the
    runtime may take to register and configure a plugin.
    """
    plugins: list[PluginArguments] = click.get_current_context().meta[PLUGINS_KEY]
    if reload:
        from nri.plugins.reload import supervise

        if len(targets) > 1:
            raise click.UsageError("--reload supports only one plugin", click.get_current_context())
        return supervise(targets[0], quiet=settings.quiet)
    if len(plugins) > 1:
        _refuse_unclear(flags)
    with recorded(flags, "nri run") as reporters:
        return _run(settings, plugins, flags, next(iter(reporters), None))


def _run(settings: Settings, plugins: list[PluginArguments], flags: dict[str, Any], reporter: Reporter | None) -> int:
    """Run the plugins, or print the help or version that --help or --version after a plugin requests."""
    from nri.stub.program.start import print_info, run_all

    arguments = stub_arguments(settings, flags)
    loaded = [
        _load_plugin(settings, plugin_arguments, arguments, place, len(plugins))
        for place, plugin_arguments in enumerate(plugins)
    ]
    info_requests = [(plugin, options) for plugin, options in loaded if options.help or options.version]
    for plugin, options in info_requests:
        print_info(plugin, options)
    return 0 if info_requests else run_all(loaded, reporter=reporter)


def _refuse_unclear(flags: dict[str, Any]) -> None:
    """Refuse a flag that applies to one plugin, but is written before several plugins."""
    for name in ("idx", "name", "config", "events"):
        if flags.get(name):
            reason = f"--{name} applies to one plugin: put it after that plugin"
            raise click.UsageError(reason, click.get_current_context())


def _load_plugin(
    settings: Settings, plugin_arguments: PluginArguments, arguments: list[str], place: int, count: int
) -> tuple[type[Plugin], Options]:
    """Load one plugin and parse its flags; it is number `place` of `count` in this process."""
    from nri.errors import ConfigError
    from nri.plugins.loader import load
    from nri.stub.program.options import parse

    plugin = load(plugin_arguments.target)
    # The environment variables describe only one plugin.
    environment = {name: value for name, value in os.environ.items() if count == 1 or name not in LAUNCH_VARIABLES}
    program = plugin_arguments.target.partition(":")[0]
    index = str(int(DEFAULT_INDEX) + place)
    try:
        options = parse([*arguments, *plugin_arguments.words], environment, program, plugin.name, plugin.flags, index)
    except ConfigError as error:
        if count > 1:
            error = ConfigError(f"{error.source}, {plugin_arguments.target}", error.key, error.reason, error.suggestion)
        raise error from None
    if options.index != index:
        plugin._check_index(options.index)
    if settings.timeout_s is not None:
        options.registration_timeout_s = settings.timeout_s
    return plugin, options


def stub_arguments(settings: Settings, flags: dict[str, Any]) -> list[str]:
    """Convert the options to the stub's command line; the stub validates them."""
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
