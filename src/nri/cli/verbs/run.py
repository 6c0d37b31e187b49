"""`nri run`: hand a plugin class to the stub, with the flags that the stub knows.

Next: `nri.cli.support.plugin_loader` finds the class, `nri.stub.program.options` and `nri.stub.program.start` run it,
and `nri.cli.support.reload` runs it again when its file changes.
"""

from __future__ import annotations

import os
from typing import Any

import click

from nri.cli.settings import Settings
from nri.cli.support.verb import Verb

#: The index of a plugin without one: after those that come first, before those that have the last word.
DEFAULT_INDEX = "50"

EXAMPLES = [
    "nri run pod_name.py --idx 10",
    "nri run pod_name.py --reload            # again, whenever the file changes",
    "nri run my_plugins.pin:Pin --config pin.yaml",
]


@click.command(cls=Verb, examples=EXAMPLES)
@click.argument("target", metavar="FILE|MODULE:CLASS")
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

    FILE holds one plugin class, or is followed by :CLASS. What the plugin's own --help says holds here too.

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
    options = parse(arguments, os.environ, target.partition(":")[0], plugin.name)
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
