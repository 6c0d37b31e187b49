"""`nri run`: hand a plugin class to the stub, with the flags that the stub knows.

Next: `nri.cli.support.run_words` tells whose a flag is, `nri.cli.support.plugin_loader` finds the class,
`nri.stub.program.options` and `nri.stub.program.start` run it, and `nri.cli.support.reload` runs it again when its file
changes.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import click

from nri.cli.settings import Settings
from nri.cli.support.run_words import split
from nri.cli.support.verb import Verb

#: Where the plugins with their own flags are kept between parsing and running.
WANTED = "nri.run.wanted"
#: The index of a plugin without one: after those that come first, before those that have the last word.
DEFAULT_INDEX = "50"

EXAMPLES = [
    "nri run pod_name.py --idx 10",
    "nri run template --idx 10               # a bundled plugin: nri plugins list",
    "nri run pod_name.py --reload            # again, whenever the file changes",
    "nri run my_plugins.pin:Pin --config pin.yaml",
]


class Run(Verb):
    """The verb; it takes the flags of the plugin as well."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        from nri.cli.support.plugin_loader import load

        options = {
            name: not param.is_flag and not param.count
            for param in self.params
            if isinstance(param, click.Option)
            for name in param.opts
        }
        own_of = functools.cache(lambda target: load(target).flags)
        ours, ctx.meta[WANTED] = split(args, options, own_of)
        return super().parse_args(ctx, ours)


@click.command(cls=Run, examples=EXAMPLES)
@click.argument("target", metavar="NAME|FILE|MODULE:CLASS")
@click.option(
    "--idx", "-idx", "-i", metavar="NN", help=f"Place in the order of plugins, 00 to 99; default {DEFAULT_INDEX}."
)
@click.option("--name", "-name", metavar="NAME", help="The plugin's name; default: the class's.")
@click.option("--config", "-config", metavar="FILE", help="Its configuration; watched for changes.")
@click.option("--events", "-events", metavar="LIST", help="Take only these events: all, pod, container, or names.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Default: info.")
@click.option("--log-file", metavar="FILE", help="Log there instead of standard error.")
@click.option("--health-addr", metavar="HOST:PORT", help="Serve /healthz and /readyz there.")
@click.option("--no-reconnect", is_flag=True, help="End when the runtime is not there or goes away.")
@click.option("--reload", is_flag=True, help="Start again whenever a file of the plugin changes.")
@click.pass_obj
def command(settings: Settings, /, target: str, reload: bool, **flags: Any) -> int:
    """Run a plugin against the runtime on this machine, until it is stopped.

    NAME is a bundled plugin's, or of one that another distribution has registered (nri plugins list). FILE holds one
    plugin class, or is followed by :CLASS. Flags of the plugin's own stand behind it; what its own --help says holds
    here too.

    All that is printed is the plugin's log: with -q only warnings, with -o json one object a line. --timeout is how
    long the runtime may take to register and configure it.
    """
    if reload:
        from nri.cli.support.reload import supervise

        return supervise(target, quiet=settings.quiet)
    from nri.cli.support.plugin_loader import load
    from nri.stub.program.options import parse
    from nri.stub.program.start import run

    plugin = load(target)
    arguments = stub_arguments(settings, flags)
    known = os.environ.get("NRI_PLUGIN_IDX") or os.path.basename(target)[:2].isdigit()
    if not flags.get("idx") and not known:
        arguments += ["--idx", DEFAULT_INDEX]
    arguments += click.get_current_context().meta[WANTED][0].words
    options = parse(arguments, os.environ, target.partition(":")[0], plugin.name, plugin.flags)
    if settings.timeout_s is not None:
        options.registration_timeout_s = settings.timeout_s
    return run(plugin, options)


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
